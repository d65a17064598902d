"""What an explanation says of each instruction, and why there is none."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gpudissect.errors import UsageError
from gpudissect.explanation import sentences
from gpudissect.explanation.model import predict
from gpudissect.explanation.model.assess import assess
from gpudissect.explanation.model.build import _latency, assess_given, explain_profile
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.model.facts import facts_of
from gpudissect.explanation.model.requests import Requests
from gpudissect.explanation.packing import DamagedProfileError
from gpudissect.explanation.profile import read_profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.trips import executions
from gpudissect.machine_code.program import read_program
from gpudissect.results.files import load

H200 = load(Path("docs/results/h200.json"))


def recorded(kernel, gpu="h200"):
    return read_profile(Path("tests/recordings/kernels") / gpu / f"{kernel}.json")


@cache
def explained(kernel):
    return explain_profile(recorded(kernel), [H200])


def explained_on_h100(kernel):
    return explain_profile(recorded(kernel, "h100"), [load(Path("docs/results/h100.json"))])


def test_the_latency_of_a_load_is_the_mean_by_where_its_requests_end():
    values = {(each.element, each.attribute): each.value for each in H200.findings}
    l1, l2, memory = (values[level, "hit_latency"] for level in ("l1", "l2", "dram"))
    requests = Requests(lanes=32.0, passes=1.0, sectors=4.0, in_sm=0.25, in_l2=0.75)
    assert _latency(requests, l1, card_of(H200)) == pytest.approx(0.25 * l1 + 0.5 * l2 + 0.25 * memory)
    loads = [line for line in explained("binary_search").lines if line.sectors and line.latency]
    assert all(l1 <= line.latency <= memory for line in loads) and max(line.latency for line in loads) > l1 + 10


def test_hit_rates_are_shares_of_sectors():
    requests = Requests(lanes=32.0, passes=1.0, sectors=32.0, in_sm=0.0, l2_bytes=4 * 32.0, from_memory=1 / 32)
    assert (requests.l1_hits, requests.l2_hits) == pytest.approx((28 / 32, 3 / 4))


def test_a_cost_that_was_not_measured_names_what_it_is_like():
    costs = {line.text.split()[0]: line for line in explained("binary_search").lines}
    assert not costs["S2R"].is_measured and costs["S2R"].cost_source == "like lds"
    assert costs["EXIT"].cost_source == "2 cycles"
    assert any(
        "S2R" in each and each.endswith(": taken to cost as much as lds")
        for each in explained("binary_search").assumptions
    )


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"shared_per_sm": 4096}, ("4.75 KiB of shared memory", "SM has 4 KiB", "less shared memory")),
        ({"registers_per_sm": 4096}, ("20480 registers, an SM has 4096", "-maxrregcount")),
        ({"threads_per_sm": 128}, ("16 warps, an SM has 4", "smaller blocks")),
    ],
)
def test_a_block_that_does_not_fit_is_refused_with_numbers(changes, facts):
    device = H200.device.model_copy(update={"facts": H200.device.facts | changes})
    with pytest.raises(UsageError) as error:
        explain_profile(recorded("wave_equation"), [H200.model_copy(update={"device": device})])
    assert all(fact in str(error.value) for fact in facts), error.value


@pytest.mark.parametrize("kernel", ["varint_decode", "spmv_warp_per_row"])
def test_warps_needed_are_those_with_the_l1_of_the_launch(kernel):
    found = explained(kernel)
    best = min(point.predicted for point in found.curve)
    with_small_l1 = min(point.warps_per_sm for point in found.curve if best >= 0.9 * point.predicted)
    assert found.curve[0].l1_bytes < 22 << 10 < 200 << 10 <= found.point.l1_bytes
    assert found.warps_for_90 < with_small_l1 <= found.point.warps_per_sm


@pytest.mark.parametrize(
    ("kernel", "limiter", "opcodes"),
    [
        ("half_gemv", "memory", ("LDG",)),
        ("histogram_global", "l2", ("RED",)),
        ("binomial_options", "adu", ("BAR", "LDC")),
        ("varint_decode", "alu", ("ISETP", "LOP3", "SHF", "IADD3", "VIADD", "SEL", "LEA", "PRMT", "I2F", "MOV")),
    ],
)
def test_instructions_share_the_work_of_what_limits(kernel, limiter, opcodes):
    found = explained(kernel)
    shares = [line.limiting for line in found.lines]
    executing = [line for line in found.lines if any(each in line.text for each in opcodes)]
    assert found.point.limiter == limiter and sum(shares) == pytest.approx(1)
    assert sum(line.limiting for line in executing) > 0.9


def test_a_profile_without_counts_is_damaged():
    with pytest.raises(UsageError, match="counts is empty: the profile is damaged, record it again"):
        explain_profile(recorded("scan").model_copy(update={"counts": ()}), [H200])


def test_notes_state_what_is_assumed():
    sparse = recorded("scan").model_copy(update={"warps": (), "lines": None})
    other = sparse.model_copy(update={"gpu": sparse.gpu.model_copy(update={"name": "another GPU"})})
    notes = "; ".join(explain_profile(other, [H200]).notes)
    for fact in ("recorded on another GPU", "all accesses hit the L1", "L1 misses go to device memory"):
        assert fact in notes


def test_arrays_that_instrumented_copies_computed_differently_are_named():
    names = recorded("small_inverse").results.different_traced
    assert names and any(f"other values of {names[0]}:" in note for note in explained("small_inverse").notes)
    assert not any("other values" in note for note in explained("transpose_naive").notes)


def test_waits_that_the_simulation_cut_short_are_noted(monkeypatch):
    simulate = predict.run
    assert not any("simulated warps" in note for note in explained("transpose_naive").notes)
    monkeypatch.setattr(predict, "run", lambda *job: replace(simulate(*job), released=3))
    notes = explain_profile(recorded("transpose_naive"), [H200]).notes
    assert any("waits of 3 simulated warps" in note for note in notes)


def test_latency_under_load_is_assumed_without_a_result_of_hide():
    hiding = load(Path("docs/results/h200-latency-hiding.json"))
    without, found = explained("permute_random"), explain_profile(recorded("permute_random"), [H200, hiding])
    under_load = [any("under load" in each for each in each.assumptions) for each in (without, found)]
    assert under_load == [True, False]
    rise = next(each.value for each in hiding.findings if each.attribute == "contention_rise")
    twice = [each.model_copy(update={"value": 2 * rise}) if each.value == rise else each for each in hiding.findings]
    slower = explain_profile(recorded("permute_random"), [H200, hiding.model_copy(update={"findings": tuple(twice)})])
    assert slower.point.predicted > found.point.predicted


def test_given_counts_need_no_recorded_accesses_of_asynchronous_copies():
    recorded = read_profile(Path("tests/recordings/kernels/h200/linear_gelu.json"))
    program, launch = read_program(*recorded.machine_code()), recorded.launch
    trips = {loop.name: 2.0 for loop in program.loops.loops}
    given = executions(program, trips, launch)
    assessment = assess_given(program, launch, given, card_of(load(Path("docs/results/h200.json"))))
    copies = [place for place, each in enumerate(program.instructions) if each.opcode == "LDGSTS"]
    assert {assessment.requests[place].passes for place in copies} == {4.0}


def test_a_profile_whose_lines_are_lost_is_damaged():
    """Counts and addresses belong to PTX instructions, which the lines of the machine code name."""
    profile, card = recorded("binary_search"), card_of(H200)
    program = read_program(*profile.machine_code())
    lost = tuple(replace(each, file="", line=None) for each in program.instructions)
    program = replace(program, flow=replace(program.flow, instructions=lost))
    with pytest.raises(DamagedProfileError, match="has no lines"):
        assess(program, parse_ptx(profile.ptx()), facts_of(profile, card), card)


def test_what_a_call_does_is_at_the_line_of_the_call():
    """`kepler_orbits.cu:37` closes the kernel: the compiler places the slow path of a division behind it."""
    found = explained_on_h100("kepler_orbits")
    slow = [line for line in found.lines if line.executed and line.text.startswith("RET")]
    assert slow and {line.source_line for line in slow} == {21}
    assert "in the slow path of a division or root at kepler_orbits.cu:21" in found.advice[0].evidence


def test_code_of_a_header_is_at_the_line_that_calls_it():
    matrices = [line for line in explained_on_h100("covariance").lines if line.text.startswith("DMMA")]
    assert {(line.source_file, line.source_line) for line in matrices} == {("covariance.cu", 57)}


@pytest.mark.parametrize(
    ("kernel", "text"), [("covariance", "655 us at 16 warps per SM, 18% less than this launch"), ("kepler_orbits", "")]
)
def test_a_launch_with_fewer_warps_that_was_faster_is_named(kernel, text):
    assert sentences.faster_of(explained_on_h100(kernel)) == text
