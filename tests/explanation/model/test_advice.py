"""What would make recorded kernels faster, by the model, and where in their source."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.explanation.inputs import explain_trips
from gpudissect.explanation.model import advice as advice_module
from gpudissect.explanation.model.advice import full_waves, smaller_blocks
from gpudissect.explanation.model.advice_latency import fewer_waits, more_in_flight
from gpudissect.explanation.model.advice_memory import combined_atomics, fewer_passes, no_local_memory
from gpudissect.explanation.model.advice_occupancy import fewer_blocks
from gpudissect.explanation.model.assess import assess
from gpudissect.explanation.model.build import explain_profile
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.model.facts import facts_of
from gpudissect.explanation.model.trial import Trial
from gpudissect.explanation.profile import Launch, read_profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.result import MIN_GAIN, Advice
from gpudissect.machine_code.program import read_program
from gpudissect.results.files import load

H200 = load(Path("docs/results/h200.json"))
TRIES = (
    *("fewer_passes", "reuse_in_block", "combined_atomics", "full_waves", "smaller_blocks", "converged", "more_blocks"),
    *("fewer_blocks", "fewer_retries", "fewer_waits", "fewer_barriers"),
)
LOCAL = """
extern "C" __global__ void local(int* out, int step) {
    int found[64];
    for (int i = 0; i < 64; i++) found[i * step & 63] = i;
    out[threadIdx.x + blockIdx.x * blockDim.x] = found[threadIdx.x & 63];
}
"""


def recorded(kernel, gpu="h200"):
    return read_profile(Path("tests/recordings/kernels") / gpu / f"{kernel}.json")


@cache
def explained(kernel):
    return explain_profile(recorded(kernel), [H200])


def found(kernel, text, *, among="advice"):
    return next((each for each in getattr(explained(kernel), among) if text in each.text), None)


def trial_of(kernel, *, warps=lambda warps: warps, gpu="h200", **facts):
    """A recorded kernel with other facts or sampled warps."""
    profile, card = recorded(kernel, gpu), card_of(load(Path(f"docs/results/{gpu}.json")))
    program, module = read_program(*profile.machine_code()), parse_ptx(profile.ptx())
    measured = facts_of(profile, card)
    assessment = assess(program, module, replace(measured, warps=warps(measured.warps)), card)
    assessment = replace(assessment, facts=replace(assessment.facts, **facts))
    prediction = assessment.predict(assessment.occupancy.blocks, largest_carveout=False)
    return Trial(assessment, prediction, explained(kernel).lines if gpu == "h200" else ())


@pytest.mark.parametrize(
    ("kernel", "text", "place", "least", "is_limit"),
    [
        ("histogram_shared", "earlier", "histogram.cu:15) and 31 more", 0.3, True),
        ("histogram_shared", "two elements", "warps are stalled on these loads", 0.2, True),
        ("scan", "twice as many loads", "LDG.E (0x00b0, scan.cu:18); warps are stalled on this load", 0.2, True),
        ("random_forest", "Keep data", "are first loads", 0.2, True),
        ("pointer_chase", "two elements", "pointer_chase.cu:7", 0.3, True),
        ("transpose_naive", "Coalesce", "the 4 stores at transpose.cu:10", 0.7, True),
        ("random_forest", "Coalesce", "LDG.E (0x0c50, random_forest.cu:16) and 10 more", 0.03, True),
        (
            "histogram_global",
            "Sort the atomics at histogram.cu:25",
            "4 MiB of words do not fit in shared memory",
            0.7,
            True,
        ),
        ("lennard_jones", "sort the data", "the 2 loads at lennard_jones.cu:12", 0.3, True),
        ("transpose_conflicts", "bank conflicts", "transpose.cu:", MIN_GAIN, False),
        ("transpose_conflicts", "bank conflicts", "; 32-way conflicts: 32 wavefronts per request", MIN_GAIN, False),
        ("group_by", "conflicts of ATOMS", "up to 8-way conflicts, which vary with the addresses", MIN_GAIN, True),
        ("group_by", "retry loop", "64-bit atomics at group_by.cu:20", 0.2, True),
        ("group_by", "retry loop", "3.14 attempts per atomic", 0.2, True),
        ("mandelbrot", "do the same work", "19.1 of 32 threads are active at mandelbrot.cu:13", 0.3, True),
        ("wave_equation", "grid of 792 blocks", "less work per block", 0.2, True),
        ("wave_equation", "at most 32 registers per thread (now 40)", "0.97 waves instead of 1.29", 0.2, True),
        ("wave_equation", "at most 32 registers", "37 registers are live at wave_equation.cu:19", 0.2, True),
        ("binomial_options", "Use fewer barriers", "510 barriers per warp", 0.2, True),
    ],
)
def test_advice_has_a_gain_and_a_source_line(kernel, text, place, least, is_limit):
    advice = found(kernel, text)
    assert advice is not None and place in f"{advice.text}; {advice.evidence}"
    assert least <= advice.gain < 1 and advice.is_limit == is_limit


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        ("pointer_chase", "earlier"),  # each load needs the result of the one before
        ("scan", "earlier"),  # one load of each warp
        ("half_gemv", "Keep data"),  # the matrix is read once, the vector is in the L1
        ("pointer_chase", "Keep data"),  # random words
        ("sgemm", "registers per thread"),  # 114 are needed
        ("scan", "grid"),  # many full waves
        ("scan", "same work"),
        ("histogram_global", "Combine"),  # a million words
    ],
)
def test_no_change_is_tried_that_the_kernel_does_not_allow(kernel, text):
    assert found(kernel, text) is None and found(kernel, text, among="rejected") is None


@pytest.mark.parametrize(
    ("kernel", "fact"),
    [
        ("half_gemv", "Each byte is moved only once"),
        ("embedding", "Each byte is moved only once"),
        ("monte_carlo", "are integer instructions); mostly at monte_carlo.cu:21 (29%)"),
        ("scan", ""),
    ],
)
def test_a_hint_names_what_applies(kernel, fact):
    hint = explained(kernel).hint
    assert fact in hint and bool(hint) == bool(fact) and "diverge" not in hint


def test_warps_on_one_path_take_as_long_as_the_kernel_that_has_them():
    lanes, warps = explained("black_scholes_kind_by_lane"), explained("black_scholes_kind_by_warp")
    gain = found("black_scholes_kind_by_lane", "same work").gain
    assert (1 - gain) * lanes.point.predicted == pytest.approx(warps.point.predicted, rel=0.1)


def test_warps_on_one_path_move_as_many_bytes():
    kernel = explained("bfs_bottom_up")
    assert max(kernel.bounds.items(), key=lambda item: item[1])[0] == "l2"
    assert found("bfs_bottom_up", "same work").gain < 1 - kernel.bounds["l2"] / kernel.point.predicted + 0.04


def test_a_grid_of_too_few_blocks_is_divided():
    trial = trial_of("special_functions", blocks=66)
    (smaller,), (divided,) = smaller_blocks(trial), full_waves(trial)
    assert "blocks of 128 threads (now 256)" in smaller.text and "132 blocks for 132 SMs" in smaller.evidence
    assert 0.03 < smaller.gain < 0.5 and not smaller.is_limit
    assert f"at least {132 * trial.resident} blocks" in divided.text
    assert smaller.gain <= divided.gain < 1 and divided.is_limit


def test_atomics_on_few_words_are_combined():
    def folded(warps):
        """The sampled warps with all counters within 1 KiB."""
        return [
            replace(
                warp,
                trace=replace(
                    warp.trace,
                    offsets=np.where(warp.trace.allocations == 1, warp.trace.offsets % 1024, warp.trace.offsets),
                ),
            )
            for warp in warps
        ]

    trial = trial_of("histogram_global", warps=folded)
    (combined,) = combined_atomics(trial)
    assert "Combine the atomics" in combined.text and "histogram.cu:25" in combined.text and combined.is_limit
    assert f"{recorded('histogram_global').launch.blocks:,} atomics per word" in combined.evidence
    assert 0.5 < combined.gain < 1 and not any("REDG" in each.text for each in fewer_passes(trial))


def test_local_memory_is_avoided(tmp_path):
    file = tmp_path / "local.cu"
    file.write_text(LOCAL)
    launch = Launch(grid=(4096, 1, 1), block=(256, 1, 1))
    shown = explain_trips(file, launch, {}, [H200])
    advice = next(each for each in (*shown.advice, *shown.rejected) if "local memory" in each.text)
    assert shown.stack_bytes == 256 and "(256 B per thread; " in advice.text and "STL" in advice.text
    assert "65 accesses per warp" in advice.evidence and 0.1 < advice.gain < 1 and advice.is_limit


@pytest.mark.parametrize(
    ("kernel", "text", "facts", "least"),
    [
        (
            "label_propagation",
            "Run 24 warps per SM instead of 64 (3 blocks): use a grid of 396 blocks and a grid-stride loop",
            (
                "prefer a carveout of 3%",
                "loads that hit the L1: 14% -> 49%",
                "33 MiB -> 12.4 MiB; the L2 holds 49 MiB",
            ),
            0.2,
        ),
        (
            "huffman_decode",
            "Run 16 warps per SM instead of 64 (8 blocks)",
            ("with an L1 of 149 KiB; if the driver chooses a larger carveout (L1 down to 21 KiB): 5",),
            0.5,
        ),
    ],
)
def test_fewer_warps_are_advised_where_more_loads_then_hit(kernel, text, facts, least):
    trial = trial_of(kernel, gpu="h100")
    (advice,) = fewer_blocks(trial)
    assert text in advice.text and advice.is_limit and advice.gain > least
    assert all(fact in f"{advice.text}; {advice.evidence}" for fact in facts)


@pytest.mark.parametrize("kernel", ["mandelbrot", "matrix_multiply_naive", "scan"])
def test_fewer_warps_are_not_advised_where_no_more_loads_hit(kernel):
    assert not list(fewer_blocks(trial_of(kernel)))


@pytest.mark.parametrize(("gain", "is_first"), [(0.43, True), (0.40, True), (0.30, False)])
def test_local_memory_is_ranked_before_close_gains(monkeypatch, gain, is_first):
    def advice(text, gain):
        return Advice(text=text, gain=gain, is_limit=True, evidence="")

    trial = trial_of("pointer_chase")
    for name in set(vars(advice_module)) & set(TRIES):
        monkeypatch.setattr(advice_module, name, lambda trial: ())
    monkeypatch.setattr(advice_module, "more_in_flight", lambda trial: (advice("waits", 0.44), advice("few", 0.01)))
    monkeypatch.setattr(advice_module, "no_local_memory", lambda trial: (advice("local", gain),))
    with ThreadPoolExecutor(1) as pool:
        texts = [each.text for each in advice_module.advise(trial, pool)]
    assert texts == (["local", "waits", "few"] if is_first else ["waits", "local", "few"])


def test_advice_on_local_memory_has_its_footprint_and_hits():
    trial = trial_of("label_propagation", gpu="h100")
    line = SimpleNamespace(executed=1.0, issue_cycles=1.0, unit="lsu", limiting=1.0)
    trial.lines = [line] * len(trial.program.instructions)
    trial.places = str
    (advice,) = no_local_memory(trial)
    size = "local memory of all resident threads: 33 MiB; the L2 holds 49 MiB"
    assert f"{size}; its loads: L1 24%, L2 44%" in advice.evidence
    assert advice.evidence.endswith("device memory 32%; upper limit: no local memory")


def test_barriers_are_tried_and_rejected():
    rejected = found("scan", "fewer barriers", among="rejected")
    assert rejected is not None and "scan.cu:21) and 1 more" in rejected.text and rejected.gain < MIN_GAIN


def test_advice_is_ranked():
    for kernel in ("histogram_shared", "scan", "pointer_chase"):
        shown = explained(kernel)
        gains = [each.gain for each in (*shown.advice, *shown.rejected)]
        assert gains == sorted(gains, reverse=True) and all(each.gain >= MIN_GAIN for each in shown.advice)


@cache
def advice_on_an_h100(kernel):
    shown = explain_profile(recorded(kernel, "h100"), [load(Path("docs/results/h100.json"))])
    return shown.point.limiter, [each.text for each in (*shown.advice, *shown.rejected)]


def test_the_access_with_most_excess_sectors_is_named():
    """`scrypt_mix` loads its input once and its table 256 times."""
    (text,) = [text for text in advice_on_an_h100("scrypt_mix")[1] if text.startswith("Coalesce") and "LDG" in text]
    assert "scrypt_mix.cu:69)" in text


@pytest.mark.parametrize(("kernel", "has_waits"), [("int8_convolution", True), ("special_functions", False)])
def test_waits_are_tried_unless_a_resource_is_always_busy(kernel, has_waits):
    limiter, texts = advice_on_an_h100(kernel)
    assert limiter != "latency" and any("in flight" in text for text in texts) == has_waits


@pytest.mark.parametrize("kernel", ["spgemm_hash", "graph_colouring"])
def test_no_saving_goes_below_the_work_of_the_busiest_resource(kernel):
    """The means of requests take another time than the sampled requests of the launch."""
    trial = trial_of(kernel, gpu="h100")
    changed = trial.predict(trial.found.requests)
    assert (
        trial.gain_from(2 * trial.found.nanoseconds, changed)
        <= 1 - max(changed.bounds.values()) / trial.found.nanoseconds
    )


@pytest.mark.parametrize("kernel", ["random_forest", "scan", "pointer_chase", "histogram_shared"])
def test_work_that_only_overlaps_takes_as_long_as_the_busiest_resource(kernel):
    trial = trial_of(kernel)
    least = max(trial.found.bounds.values()) / trial.found.nanoseconds
    for each in (*fewer_waits(trial), *more_in_flight(trial)):
        assert 1 - each.gain >= least * (1 - 1e-9)
