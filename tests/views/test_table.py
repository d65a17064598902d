"""The table, for people and for pipes."""

import io

import pytest
from rich.console import Console

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.results.model import Published
from gpudissect.results.text import bracket, clean, percent, quantity
from gpudissect.results.verdict import Verdict
from gpudissect.views.terminal.table import console, print_result


def shown(result, width=None, **options):
    out = io.StringIO()
    terminal = Console(file=out, width=width, force_terminal=True, color_system=None) if width else console(out)
    print_result(terminal, result, **options)
    return out.getvalue()


def test_a_pipe_gets_one_plain_line_a_finding(result):
    lines = shown(result).splitlines()
    assert lines[0] == "GTX 980  SIMULATED  sim:gtx980"
    assert lines.pop(1).startswith("stated by its GPU file: 16 SMs")
    assert lines.pop(1).startswith("limited to (--only): "), "the others are not missing"
    assert lines[2].split("  ")[0] == "l1"
    assert [line.split()[:2] for line in lines[2:7]] == [
        ["l1", "capacity"], ["l1", "hit_latency"], ["l1", "ways"], ["l2", "capacity"], ["dram", "hit_latency"]
    ]  # fmt: skip
    assert all(line == line.rstrip() for line in lines)
    assert "24 KiB" in lines[2]
    assert "97%" in lines[2]
    assert "MC16 table 5" in lines[2]
    assert "82.2 cycles" in lines[3]
    assert "differs" in lines[3]
    assert "-27.8 cycles (-25%)" in lines[3]
    assert "l2 capacity: ambiguous: a ramp" in lines
    assert "throttling while measuring: power" in lines
    assert not any("580.1" in line for line in lines)
    assert lines[-2] == "failed: line.texture: KernelFailed: misaligned"
    assert lines[-1] == "interrupted: only what was measured until then"


def test_older_methods_have_a_table_of_their_own(result):
    lines = shown(result).split("older methods on the same caches\n")[1].splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["l1", "capacity", "23.75", "KiB", "Wong", "2010"], ["l1", "sets", "nothing", "Wong", "2010", "no", "steps"]
    ]  # fmt: skip


def test_details_tell_how_it_was_found(result):
    text = shown(result, details=True)
    assert "  method      first miss\n" in text
    assert "  evidence    2 workloads: abababab, cdcdcdcd\n" in text
    assert "  caveat      one SM only\n" in text


@pytest.mark.parametrize("width", [200, 100, 80, 60, 50])
def test_a_terminal_gets_the_columns_that_fit(result, width):
    lines = shown(result, width).splitlines()
    table = lines[: lines.index(next(line for line in lines if line.startswith("l2 capacity:")))]
    assert all(len(line) <= width for line in table)
    assert any("attribute" in line and "value" in line for line in table)
    assert any("hit_latency" in line for line in table)  # names are never broken
    assert any("source" in line for line in table) == (width == 200)


def test_a_replay_says_of_what(result):
    device = result.device.model_copy(update={"origin": Origin.REPLAYED, "recorded_origin": Origin.SIMULATED})
    replay = result.model_copy(update={"device": device})
    assert "REPLAYED from a recording of a simulated GPU" in shown(replay)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (24576, "B", "24 KiB"),
        (12420, "B", "12.12891 KiB"),
        (100, "B", "100 B"),
        (82.25, "cycles", "82.2 cycles"),
        (1e12, "B/s", "1 TB/s"),
        (3.352e12, "B/s", "3.352 TB/s"),
        (12, "B/s", "12 B/s"),
        (64.5, "B/cycle", "64.5 B/cycle"),
        (65, "", "65"),
        ((17, 8, 8), "", "17, 2 x 8"),
        ((262.1, *range(270, 290), 331), "cycles", "262.1 ... 331 cycles over 22 values"),
        ((0, 1) * 10, "", "10 x 0, 10 x 1 over 20 values"),
        (None, "B", ""),
    ],
)
def test_quantities_are_written_as_people_do(value, unit, text):
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("low", "high", "unit", "text"),
    [
        (None, None, "B", ""),
        (1024, 1024, "B", "exact"),
        (1024, 2048, "B", "1 .. 2 KiB"),
        (512, 2048, "B", "512 B .. 2 KiB"),
        (3, 4, "cycles", "3 .. 4 cycles"),
        (3, 4, "", "3 .. 4"),
        (3, None, "cycles", ">= 3 cycles"),
        (None, 4, "cycles", "<= 4 cycles"),
    ],
)
def test_brackets(low, high, unit, text):
    assert bracket(low, high, unit) == text


def test_probabilities_never_round_up_to_certainty():
    assert [percent(share) for share in (None, 0, 0.5, 0.98, 0.994, 0.9999, 1)] == [
        "", "0%", "50%", "98%", "99.4%", "99.99%", "100%"
    ]  # fmt: skip


def test_a_number_for_every_sm_is_shown_as_a_range(result):
    (first, *others) = result.findings
    cycles = tuple(260 + 0.5 * sm for sm in range(132))
    mapped = first.model_copy(update={"attribute": "latency_by_sm", "unit": "cycles", "value": cycles, "low": None,
                                      "high": None, "published": None})  # fmt: skip
    parts = mapped.model_copy(update={"attribute": "partition_by_sm", "unit": "", "value": (0, 1) * 66})
    text = shown(result.model_copy(update={"findings": (mapped, parts, *others)}))
    assert "260 ... 325.5 cycles over 132 SMs" in text
    assert "66 x 0, 66 x 1 over 132 SMs" in text


def test_clean_text_is_one_printable_line():
    assert clean("a\x1b[1mb\nc\u202ed é 中") == "a\\x1b[1mb\\nc\\u202ed é 中"


def test_instructions_have_a_table_of_their_own_on_a_terminal(result):
    (first, *others) = result.findings

    def of(element, attribute, value, unit, **more):
        status = Status.FOUND if value is not None else Status.NOT_SUPPORTED
        plain = {"low": None, "high": None, "published": None, "status": status}
        own = {"element": element, "attribute": attribute, "value": value, "unit": unit}
        return first.model_copy(update=plain | own | more)

    known = Published(value=4.0, unit="cycles", verdict=Verdict.AGREES)
    ffma = [of("ffma", "latency", 4.02, "cycles", published=known), of("ffma", "rate", 127.96, "ops/cycle"),
            of("ffma", "warps_needed", None, "", status=Status.NOT_FOUND, reason="too few")]  # fmt: skip
    none = [of(name, "rate", None, "ops/cycle", reason="no such unit") for name in ("mma_f16", "mma_s8")]
    mixed = result.model_copy(update={"findings": (first, *others, *ffma, *none)})
    lines = shown(mixed, 200).splitlines()
    start = lines.index("instructions")
    assert not any("ffma" in line for line in lines[:start])
    row = next(line for line in lines[start:] if "ffma" in line)
    assert row.split() == ["ffma", "4.02", "128", "-", "4,", "-,", "-", "agrees"]
    assert "mma_f16, mma_s8 rate: not supported: no such unit" in lines
    assert "ffma warps_needed: not found: too few" in lines
    for width in (80, 60, 50):
        narrow = shown(mixed, width).splitlines()
        table = narrow[narrow.index("instructions") : narrow.index(next(each for each in narrow if "too few" in each))]
        assert all(len(line) <= width for line in table if "ffma" in line)
    plain = shown(mixed).splitlines()
    assert "instructions" not in plain
    assert [line.split()[1] for line in plain if line.startswith("ffma ")][:3] == ["latency", "rate", "warps_needed"]
