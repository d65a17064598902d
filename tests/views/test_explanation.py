"""An explanation on a terminal: one screen, its tables, and text of unknown origin."""

import io
import json

import pytest
from rich.console import Console

from gpudissect.device_info import Origin
from gpudissect.explanation.curve import best_of, curve_of
from gpudissect.explanation.listing import hits_of, source_of
from gpudissect.explanation.result import Advice, Explanation
from gpudissect.explanation.sentences import saved_of
from gpudissect.views.terminal.explanation import (
    MAX_SCREEN_LINES,
    code_rows,
    curve_rows,
    print_explanation,
    screen,
    source_rows,
)
from gpudissect.views.terminal.layout import console
from tests.support.explanations import explanation, line, point

NASTY = "[bold red]x[/]\x1b[2J\r\n\t\x07\u202e\u0000[link=file:///etc/passwd]:smile: é"
ATOMIC = line(0, "REDG.E.ADD [R2], R3", unit="lsu", limiting=0.8)
BARRIER = line(3, "BAR.SYNC 0x0", unit="adu", stall=0.2)
SPILLS = tuple(line(1, f"{each} R3, [R1]", unit="lsu", limiting=0.4) for each in ("STL", "LDL.LU"))
BUSY_LSU = point(8).model_copy(update={"limiter": "lsu"})
SMALL = Advice(text="unroll the loop", gain=0.02, evidence="more loads in flight")


def printed(shown: Explanation, **options: bool) -> str:
    """What is printed on a terminal of 80 columns."""
    out = io.StringIO()
    print_explanation(Console(file=out, width=80, force_terminal=True, color_system=None), shown, **options)
    return out.getvalue()


def text_of(shown: Explanation) -> str:
    """The screen on one line."""
    return " ".join(" ".join(label + text for label, text in screen(shown, 80)).split())


def test_the_screen_answers_in_this_order():
    facts = [
        *("add on NVIDIA H200, GPU values MEASURED", "grid 4096, block 256, 16 registers, sm_90"),
        *(
            "device memory: busy for 90% of the predicted time",
            "100% of its work is LDG.E at add.cu:4",
            "10 us, bracket 9 us to 11 us; measured 10.5 us, error -4.8%",
            "Saves 31% 10 us -> 6.9 us: move fewer bytes",
            "are used; x 2",
            "Saves 5% 10 us -> 9.5 us: use loads",
        ),
        *("100%, 64 of 64 warps per SM (maximum)", "40 warps per SM for 90%"),
        "9 us (device memory), 4 us (L2 cache)",
        "<- this launch",
    ]
    text = text_of(explanation())
    places = [text.find(fact) for fact in facts]
    assert -1 not in places and places == sorted(places), text


def test_the_longest_screen_fits():
    long = "a sentence that is far longer than a line of a terminal and therefore " * 5
    other = explanation(kernel="k" * 300, gpu="G" * 300)
    shown = explanation(
        kernel="k" * 300,
        gpu="G" * 300,
        point=point(3),
        curve=tuple(point(blocks) for blocks in range(1, 33)),
        shared_bytes=100_000,
        stack_bytes=100_000,
        occupancy=dict.fromkeys(("warps", "blocks", "registers", "shared memory"), 3),
        against=other,
        advice=(Advice(text=long, gain=0.1, evidence=long),) * 9,
        lines=(line(0, "X" * 300, stall=0.9),),
    )
    rows = printed(shown.model_copy(update={"point": point(3)})).splitlines()
    assert len(rows) <= MAX_SCREEN_LINES
    assert sum("this launch" in row for row in rows) == 1
    assert max(map(len, rows[3:])) <= 80  # the first has the names


def test_latency_is_explained_by_the_instruction_that_waits():
    text = text_of(explanation(point=point(2), bounds={"issue": 9000.0}))
    assert "; busiest resource: issue slots, 36% busy" in text
    assert "latency: 62% of a warp's time is stalls at FADD (0x0020, add.cu:5), which needs the result of LDG.E" in text


def test_a_hint_names_the_source_lines_with_most_work():
    lines = tuple(line(n, "IMAD R2, R0, R3, R4", limiting=share) for n, share in enumerate((0.6, 0.3, 0.1)))
    text = text_of(explanation(advice=(), hint="", lines=lines, point=BUSY_LSU))
    assert "; mostly at add.cu:3 (60%), add.cu:4 (30%), add.cu:5 (10%); the saving" in text


def test_a_retry_loop_that_takes_little_time_is_not_named():
    loop = line(0, "ATOMS.CAST.SPIN R6, [R13], R4, R6", stall=0.02, contended=0.03, limiting=0.05)
    text = text_of(explanation(lines=(*explanation().lines[1:], loop), point=BUSY_LSU))
    assert "retry loop" not in text


def test_waits_for_busy_pipes_are_no_latency():
    busy = line(0, "IMAD R2, R0, R3, R4", stall=0.07, contended=0.92)
    text = text_of(explanation(point=point(2), bounds={"issue": 9000.0}, lines=(busy,)))
    assert "no single resource: a warp waits for results 7%, for issue slots or busy pipes 92% of its time; " in text
    assert "busiest resource: issue slots, 36% busy" in text


def test_a_profile_of_another_gpu_is_named():
    text = text_of(explanation(point=point(8, measured=False), recorded_gpu="NVIDIA H100"))
    assert "not measured on this GPU (profile of an NVIDIA H100)" in text


@pytest.mark.parametrize(("cycles", "text"), [(7.273, "7.27 cycles"), (10610.0, "10,610 cycles")])
def test_cycles_of_a_loop_have_no_exponent(cycles, text):
    assert f"Loop-carried {text} per machine-code iteration" in text_of(
        explanation(point=point(2), loops={"k.cu:3": cycles})
    )


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ({"occupancy": {"warps": 8, "registers": 5}, "point": point(5)}, "limited by registers (16 per thread)"),
        (
            {"occupancy": {"warps": 8, "shared memory": 5}, "shared_bytes": 4096, "point": point(5)},
            "shared memory (4 KiB per block)",
        ),
        (
            {"occupancy": {"warps": 5, "blocks": 5, "registers": 5}, "point": point(5)},
            "limited by warps per SM, blocks per SM and registers (16 per thread)",
        ),
        ({"point": point(8).model_copy(update={"measured": 8e3})}, "error +25.0%; outside the bracket"),
        ({"sms": 1024}, "32 warps per SM: limited by the number of blocks in the grid; theoretical: 100%, 64 of 64"),
        ({"max_warps": None}, "64 warps per SM; limited by warps per SM"),
        ({"point": point(8, measured=False)}, "not measured"),
        ({"warps_for_90": None}, "unknown"),
        ({"sms": 1024}, "Warps needed 32 warps per SM for 90%"),
        ({"point": point(2)}, "Dependence chain 1.5 us for one warp"),
        ({"point": point(2)}, "570 cycles per machine-code iteration of the loop at"),
        ({"counts": "given"}, "Assumed all accesses are contiguous, miss every cache"),
        ({"point": point(8).model_copy(update={"measured": 8e3})}, "Saves 31%? "),
        ({"active_threads": 16.0, "advice": ()}, "Move fewer bytes"),
        ({"active_threads": 16.04}, "Divergence 16 of 32 threads per warp are active on average"),
        ({"against": explanation(gpu="NVIDIA H100")}, "10 us, the same time; limited by"),
        ({"origin": Origin.SIMULATED}, "values SIMULATED"),
        ({"stack_bytes": 16}, "16 B of local memory"),
        ({"advice": ()}, "Advice Move fewer bytes"),
        ({"advice": (), "rejected": (SMALL, SMALL), "point": point(2)}, "None of the 2 changes tried saves 3%"),
        ({"advice": (), "lines": (ATOMIC,)}, "Execute fewer atomics"),
        ({"lines": (ATOMIC,)}, "80% of its work is atomics at add.cu:3"),
        (
            {"lines": (ATOMIC, line(5, "RED.E.ADD [R2]", limiting=0.2))},
            "100% of its work is atomics at add.cu:3 and add.cu:8",
        ),
        (
            {"lines": (ATOMIC, *(line(n, "RED.E.ADD [R2]", limiting=0.1) for n in (5, 6)))},
            "100% of its work is atomics at add.cu:3 and 2 more lines",
        ),
        (
            {"lines": (line(0, "ATOMS.CAST.SPIN R6, [R13], R4, R6", limiting=0.8),), "point": BUSY_LSU},
            "80% of its work is atomics at add.cu:3 (retry loop of atomics at add.cu:3)",
        ),
        ({}, "shrinks the L1 from 241 KiB to 21 KiB"),
        ({"point": BUSY_LSU}, "LSU pipe (loads, stores, shuffles): busy for 24%"),
        ({"hint": "already at the bandwidth", "advice": (SMALL,)}, "Advice already at the bandwidth"),
        (
            {"point": point(2), "lines": (*explanation().lines, BARRIER)},
            "a warp waits for results 65%, at barriers 20%, for issue slots or busy pipes 6% of its time",
        ),
        ({"advice": (), "lines": SPILLS, "point": BUSY_LSU}, "Avoid spills"),
        ({"lines": SPILLS, "point": BUSY_LSU}, "80% of its work is local memory at add.cu:4"),
        ({"sms": 8192}, "4096 blocks for 8192 SMs: 4096 SMs idle"),
        ({"sms": 1024}, "4096 blocks: 8192 fit on the GPU at once"),
        (
            {"sms": 1024, "working_blocks": 2048},
            "2,048 of 4,096 blocks have work, the others exit at once: SMs get unequal numbers",
        ),
        (
            {"sms": 1024, "working_blocks": 100},
            "100 of 4,096 blocks have work, the others exit at once: at least 924 SMs idle",
        ),
        ({"traffic": {"memory": 2.0**25, "l2": 1.0}}, "of the predicted time (32 MiB, 3.36 TB/s)"),
        ({"sms": 132, "grid": (1584, 1, 1)}, "1.50 waves of 1056 blocks: the last wave fills 50% of the GPU"),
        (
            {"advice": (SMALL.model_copy(update={"is_limit": True, "gain": 0.5}),)},
            "Saves up to 50% 10 us -> 5 us: unroll",
        ),
        ({"against": explanation(gpu="NVIDIA H100", point=point(4))}, "12.5 us, 25% longer; limited by latency"),
    ],
)
def test_a_fact_is_on_the_screen(fields, fact):
    assert fact in text_of(explanation(**fields))


def test_the_tables_have_every_instruction_and_point():
    text = printed(explanation(rejected=(SMALL,)), everything=True)
    sections = [
        *("Worksheet", "Time against occupancy", "Where a warp spends its time", "Source lines by time"),
        "Machine code: 4 instructions",
        *("Longest dependence chain", "Loop-carried", "Advice", "Also tried", "Assumed, not measured", "Notes"),
    ]
    places = [text.rfind(f"\n{title}") for title in sections]
    assert -1 not in places and places == sorted(places)
    code = text[places[4] : places[5]]
    assert all(each.text in code for each in explanation().lines)
    hottest = text[places[2] : places[3]]
    assert hottest.index("FADD") < hottest.index("IMAD")


def test_code_without_padding_rare_executions_and_few_producers():
    lines = (
        line(0, "LDG.E R2, desc[UR4][R2.64]", executed=1e-8, stall=0.0),
        line(1, "FADD R5, R2, R4", waits_for=(16, 32, 48, 64)),
        line(2, "NOP", executed=0.0, stall=0.0, contended=0.0),
    )
    text = printed(explanation(lines=lines), everything=True)
    assert "NOP" not in text and "<0.001" in text and "0x0010 0x0020 +2" in text and " 0.0%" not in text


def test_source_lines_are_ranked_by_time():
    lines = (
        line(0, "IMAD R2, R0, R3, R4", executed=1.0, stall=0.0, contended=0.0),
        line(1, "LDG.E R2, desc[UR4][R2.64]", executed=4.0, stall=0.1, contended=0.02),
        line(2, "FADD R5, R2, R4", executed=5.0, stall=0.6, contended=0.0).model_copy(update={"source_line": 4}),
        line(3, "NOP", executed=0.0, stall=0.0, contended=0.0),
    )
    counted = [each.model_copy(update={"active_threads": n}) for each, n in zip(lines, (32, 14, 32, 0), strict=True)]
    assert source_rows(explanation(lines=tuple(counted))) == [
        ("add.cu:4", "90.0%", "70.0%", "2.0%", "5", "24", "2"),
        ("add.cu:3", "10.0%", "", "", "1", "32", "1"),
    ]
    unknown = tuple(each.model_copy(update={"source_line": None}) for each in lines)
    assert source_rows(explanation(lines=unknown)) == []
    assert "Source lines" not in printed(explanation(lines=unknown), everything=True)


@pytest.mark.parametrize(
    ("executed", "stall", "text"),
    [
        (0.0, 0.0, "... 5 instructions to 0x0050, never executed"),
        (1e-5, 0.0, "... 5 instructions to 0x0050, executed less than once per 1000 warps"),
        (0.5, 0.0, ""),
        (1e-5, 0.01, ""),
    ],
)
def test_code_that_is_hardly_executed_is_one_row(executed, stall, text):
    rare = [line(n, f"RARE{n} R2", executed=executed, stall=stall, contended=0.0) for n in range(1, 6)]
    ends = [line(n, f"EXIT{n}", stall=0.0) for n in (0, 6)]
    out = io.StringIO()
    print_explanation(console(out), explanation(lines=(ends[0], *rare, ends[1])), everything=True)
    code = out.getvalue().partition("Machine code")[2]
    assert ("RARE3" in code) == (not text) and text in code
    assert "EXIT0" in code and "EXIT6" in code


def faster_below(**fields):
    """An explanation with its best time at 24 warps of 64."""
    curve = [point(blocks, measured=False) for blocks in range(1, 9)]
    curve[2] = curve[2].model_copy(update={"predicted": 5_000.0, "l1_bytes": 209 << 10})
    return explanation(curve=tuple(curve), **fields)


def test_the_best_occupancy_is_marked_with_its_l1():
    rows = [row for _, row in screen(faster_below(), 80) if row.endswith("best")]
    assert [row.split()[:6] for row in rows] == [["24", "5", "us", "-", "209", "KiB"]]
    assert rows[0].endswith("█ <- best") and max(len(row) for _, row in screen(faster_below(), 80)) <= 80
    table = [row for row in curve_rows(faster_below()) if row[-1] == "best"]
    assert len(table) == 1 and table[0][0] == "24" and "209 KiB" in table[0]
    assert "shrinks the L1 as shown" in text_of(faster_below())
    best_is_launch = text_of(explanation())
    assert "<- best" not in best_is_launch and "241 KiB ████████████████████████ <- this launch" in best_is_launch


def test_an_occupancy_that_was_measured_to_be_slower_is_not_the_best():
    curve = list(faster_below().curve)
    curve[2] = curve[2].model_copy(update={"measured": 11_000.0})
    assert best_of(explanation(curve=tuple(curve))) is None
    curve[2] = curve[2].model_copy(update={"measured": 10_000.0})
    assert best_of(explanation(curve=tuple(curve))).warps_per_sm == 24


def test_an_l1_that_no_access_hits_is_no_column():
    text = text_of(explanation(lines=tuple(each.model_copy(update={"l1_hits": 0.0}) for each in explanation().lines)))
    assert "KiB" not in text and "L1" not in text


def test_an_l1_that_does_not_differ_is_no_column():
    curve = tuple(point(blocks).model_copy(update={"l1_bytes": 241 << 10}) for blocks in range(1, 9))
    text = text_of(explanation(curve=curve))
    assert "KiB" not in text and "L1" not in text


@pytest.mark.parametrize(("blocks", "has_note"), [(1500, True), (8 * 1056, False)])
def test_waves_are_stated_if_another_occupancy_is_faster_and_a_wave_is_partial(blocks, has_note):
    shown = faster_below(sms=132, grid=(blocks, 1, 1))
    assert ("Waves of blocks: 1.42 at 64 warps, 3.79 at 24." in text_of(shown)) == has_note
    assert [row[2] for row in curve_rows(shown)][-1] == f"{blocks / 1056:.2f}"
    assert "Waves of blocks" not in text_of(explanation(sms=132, grid=(blocks, 1, 1)))


@pytest.mark.parametrize(
    ("gain", "is_limit", "text"),
    [(0.071, False, "7%"), (0.45, True, "up to 45%"), (0.004, True, "nothing"), (-0.07, False, "nothing")],
)
def test_a_saving_is_never_negative(gain, is_limit, text):
    assert saved_of(SMALL.model_copy(update={"gain": gain, "is_limit": is_limit})) == text


def test_the_grid_of_full_waves_is_not_mentioned():
    assert "Grid" not in text_of(explanation(sms=128)) and "Grid" not in text_of(explanation(sms=None))
    assert "Divergence" not in text_of(explanation(active_threads=31.0))


@pytest.mark.parametrize("fields", [{}, {"point": point(2), "loops": {"k.cu:3": 0.0}}])
def test_a_chain_is_on_the_screen_if_latency_limits(fields):
    text = text_of(explanation(**fields))
    assert "Loop-carried" not in text and ("Dependence chain" in text) == bool(fields)


def test_occupancies_that_a_small_grid_does_not_reach_are_left_out():
    shown = explanation(sms=1024)
    assert [each.warps_per_sm for each in curve_of(shown)][-2:] == [24, 32]
    assert curve_of(shown)[-1].predicted == shown.point.predicted
    rows = [row for _, row in screen(shown, 80) if row.endswith("<- this launch")]
    assert len(rows) == 1 and rows[0].split()[0] == "32"
    assert [each.warps_per_sm for each in curve_of(explanation(sms=4096))] == [8]
    assert "this launch" not in text_of(explanation(sms=4096))


def test_a_line_of_number_0_is_no_source():
    assert source_of(line(0, "FADD R5, R2, R4").model_copy(update={"source_line": 0})) == ""


def test_evidence_is_wrapped_and_the_last_advice_left_out():
    long = SMALL.model_copy(update={"gain": 0.5, "text": "a sentence " * 36, "evidence": "and its caveat"})
    text = text_of(explanation(advice=(long,) * 3))
    assert text.count("and its caveat") == 2
    shown = explanation(advice=(long,) * 3, point=point(2), notes=())
    rows = [row for row in screen(shown, 80) if row[0].startswith("Saves")]
    assert len(rows) == 3 and rows[2][1].endswith("…") and rows[2][1].startswith("25 us -> 12.5 us: a sen")


def test_hit_rates_are_shown_of_requests_that_reach_the_l1():
    load = explanation().lines[1]
    assert hits_of(load) == ("25%", "12%")
    assert hits_of(load.model_copy(update={"sectors": 0.0, "l1_hits": 1.0})) == ("", "")


def test_an_assumed_cost_is_marked():
    costs = [row[-1] for row in code_rows(explanation().lines)]
    assert costs == ["imad.rate", "ldg.e.rate", "fadd.rate", "assumed: 2 cycles"]


def test_without_utf_8_bars_are_number_signs():
    assert not any("█" in text for _, text in screen(explanation(), 80, is_plain=True))


def test_text_from_a_file_never_drives_the_terminal():
    def spoil(value):
        if isinstance(value, dict):
            return {
                key: value if key in ("schema", "origin", "counts") else spoil(value) for key, value in value.items()
            }
        if isinstance(value, list):
            return [spoil(item) for item in value]
        return NASTY if isinstance(value, str) else value

    hostile = Explanation.model_validate_json(json.dumps(spoil(json.loads(explanation().to_json()))))
    out = io.StringIO()
    print_explanation(console(out), hostile, everything=True)
    assert not any(char in out.getvalue() for char in "\x1b\r\t\x07\u202e\0")
    assert "[bold red]x[/]\\x1b[2J\\r\\n" in out.getvalue()


@pytest.mark.parametrize("value", [0.0, 1e-300, 1e300])
def test_extreme_times_are_shown(value):
    extreme = point(8).model_copy(update=dict.fromkeys(("predicted", "low", "high", "measured"), value))
    printed(explanation(point=extreme, curve=(extreme,), critical_path=value, bounds={"l2": value}), everything=True)


def test_the_first_note_is_on_the_screen():
    assert "Note counts may differ" in text_of(explanation(notes=("counts may differ", "another note")))
    assert "another note" not in text_of(explanation(notes=("counts may differ", "another note")))
    assert "Note " not in text_of(explanation(notes=()))
