"""The table of a result, for terminals and for pipes."""

import io

import pytest
from rich.console import Console

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.printable import clean
from gpudissect.results.model import ElementPrediction, Prediction, Provenance, Published, Revision
from gpudissect.results.text import SPECTRUM, bracket, percent, quantity
from gpudissect.results.verdict import Verdict
from gpudissect.views.terminal.instructions import TITLE
from gpudissect.views.terminal.layout import console
from gpudissect.views.terminal.table import print_result
from tests.support.results import finding


def printed(result, width=None, **options):
    out = io.StringIO()
    terminal = Console(file=out, width=width, force_terminal=True, color_system=None) if width else console(out)
    print_result(terminal, result, **options)
    return out.getvalue()


def test_a_pipe_gets_one_line_per_finding(result):
    lines = printed(result).splitlines()
    assert lines[0].startswith("GTX 980  SIMULATED  sim:gtx980  GPU file: 16 SMs")
    assert lines[1] == "limited to (--only): l1, l2, dram"
    shown = [each for each in result.findings if each.status is not Status.SKIPPED]
    assert [tuple(line.split()[:2]) for line in lines[3:7]] == [(each.element, each.attribute) for each in shown]
    assert all(line == line.rstrip() for line in lines)
    assert all(text in lines[3] for text in ("24 KiB", "97%", "MC16 table 5"))
    assert all(text in lines[4] for text in ("82.2 cycles", "differs", "-27.8 cycles (-25%)"))
    assert "l2 capacity: ambiguous: a ramp" in lines
    assert "throttling while measuring: power" in lines
    assert not any("580.1" in line for line in lines)
    assert lines[-3] == "failed: line.texture: KernelFailed: misaligned"
    assert lines[-2].startswith("interrupted") and "1 attribute skipped" in lines[-1]


def test_skipped_attributes_are_counted_and_index_functions_only_in_details(result):
    index = finding("l1", "index_function", "xor 7^16^17 8^17^18")
    options = result.options.model_copy(update={"elements": None, "quick": True})
    skipped = [finding("l2", name, status=Status.SKIPPED, reason="left out by --quick") for name in ("sets", "ways")]
    everything = result.model_copy(update={"findings": (*result.findings[:2], index, *skipped), "options": options})
    for text in (printed(everything), printed(everything, everything=True), printed(everything, 120, everything=True)):
        assert "2 attributes skipped: left out by --quick; run without" in text
        assert "index_function" not in text and "l2 " not in text
    assert "xor 7^16^17 8^17^18" in printed(everything, details=True)
    assert ("hit_latency" in printed(everything), "hit_latency" in printed(everything, everything=True)) == (True, True)


@pytest.mark.parametrize("width", [0, 80])
def test_the_peaks_of_the_latency_spectrum_are_named(result, width):
    spectrum = (finding("spectrum_global", "p1", 32.0), finding("spectrum_global", "p4", 560.0))
    text = " ".join(printed(result.model_copy(update={"findings": spectrum}), width).split())
    assert all(f"{name} {meaning}" in text for name, meaning in SPECTRUM.items())
    assert SPECTRUM["p4"] not in printed(result)


def test_a_value_is_followed_by_what_it_holds_for(result):
    latencies = [finding("l2", name, 281.0) for name in ("hit_latency", "near_latency")]
    lines = printed(result.model_copy(update={"findings": (*latencies, finding("ffma", "warps_needed", 16))})).split(
        "\n"
    )
    assert any("hit_latency" in line and "281 cycles (near partition)" in line for line in lines)
    assert any("warps_needed" in line and "16 (for 95% of peak)" in line for line in lines)


def test_older_methods_have_their_own_table(result):
    lines = printed(result).split("older methods on the same caches\n")[1].splitlines()
    assert lines[1].split() == ["l1", "capacity", "23.75", "KiB", "Wong", "2010"]
    assert lines[2].split() == ["l1", "sets", "nothing", "Wong", "2010", "no", "steps"]


def test_details_show_method_evidence_and_revisions(result):
    (first, *others) = result.findings
    earlier = Revision(experiment="capacity.l1", status=Status.FOUND, value=12288)
    revised = first.model_copy(update={"experiment": "sets.l1", "revised": (earlier,)})
    text = printed(result.model_copy(update={"findings": (revised, *others)}), details=True)
    lines = [line.split(maxsplit=1) for line in text.splitlines()]
    for row in (
        ["method", "first miss"],
        ["evidence", "2 workloads"],
        ["caveat", "one SM only"],
        ["experiment", "sets.l1"],
        ["revised", "capacity.l1: 12 KiB"],
    ):
        assert row in lines


def test_the_prediction_check_and_the_catalogue_entry_are_explained(result):
    shares = {"agreement": 0.9925, "low": 0.99, "high": 0.995, "accesses": 231126}
    cache = ElementPrediction(**shares, element="l1", hits_wrong=1, misses_wrong=2, possible=0.5)
    prediction = Prediction(**shares, elements=(cache,), not_predicted={"l2": "associativity unknown"})
    device = result.device.model_copy(update={"catalogue": "h100"})
    text = printed(result.model_copy(update={"prediction": prediction, "device": device}))
    assert "99.25% of 231,126" in text and "l1 99.2% of 50.0% possible" in text
    assert "not predicted: l2 (associativity unknown)" in text
    assert "catalogue entry h100" in text


@pytest.mark.parametrize("width", [200, 100, 80, 60, 50])
def test_a_terminal_gets_the_columns_that_fit(result, width):
    lines = printed(result, width).splitlines()
    end = next(number for number, line in enumerate(lines) if line.startswith("l2 capacity:"))
    table = [line for line in lines[:end] if not line.startswith(("stated", "analysed"))]
    assert all(len(line) <= width for line in table)
    assert any("attribute" in line and "value" in line for line in table)
    assert any("hit_latency" in line for line in table)  # names are never broken
    assert any("source" in line for line in table) == (width == 200)


def test_card_and_place_stand_below_the_table(result):
    where = Provenance(host="node7\x1b", gpu_uuid="GPU-12", driver="580.1")
    lines = printed(result.model_copy(update={"provenance": where})).splitlines()
    assert "measured: host node7\\x1b, gpu uuid GPU-12, driver 580.1" in lines


def test_a_replay_names_the_origin_of_its_recording(result):
    device = result.device.model_copy(update={"origin": Origin.REPLAYED, "recorded_origin": Origin.SIMULATED})
    assert "REPLAYED from a recording of a simulated GPU" in printed(result.model_copy(update={"device": device}))


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
def test_quantities_have_units(value, unit, text):
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
    texts = {None: "", 0: "0%", 0.5: "50%", 0.98: "98%", 0.994: "99.4%", 0.9999: "99.99%", 1: "100%"}
    assert {share: percent(share) for share in texts} == texts


def test_a_number_per_sm_is_shown_as_a_range(result):
    cycles = finding("l2", "latency_by_sm", tuple(260 + 0.5 * sm for sm in range(132)))
    partitions = finding("l2", "partition_by_sm", (0, 1) * 66)
    text = printed(result.model_copy(update={"findings": (cycles, partitions)}))
    assert "260 ... 325.5 cycles over 132 SMs" in text
    assert "66 x 0, 66 x 1 over 132 SMs" in text


def test_clean_text_is_one_printable_line():
    assert clean("a\x1b[1mb\nc\u202ed é 中") == "a\\x1b[1mb\\nc\\u202ed é 中"


def test_instructions_have_their_own_table_on_a_terminal(result):
    published = Published(value=4.0, unit="cycles", verdict=Verdict.AGREES)
    missing = {"status": Status.NOT_SUPPORTED, "reason": "no such unit"}
    instructions = (
        finding("ffma", "latency", 4.02, published=published),
        finding("ffma", "rate", 127.96),
        finding("ffma", "warps_needed", reason="too few"),
        *(finding(name, "rate", **missing) for name in ("mma_f16", "mma_s8")),
    )
    mixed = result.model_copy(update={"findings": (*result.findings, *instructions)})
    lines = printed(mixed, 200).splitlines()
    start = lines.index(TITLE)
    assert not any("ffma" in line for line in lines[:start])
    row = next(line for line in lines[start:] if "ffma" in line)
    assert row.split() == ["ffma", "4.02", "128", "-", "agrees"]
    facts = {"compute_capability": "9.0"}
    device = result.device.model_copy(update={"facts": facts})
    other = Published(value=600.0, verdict=Verdict.DIFFERS, text="+82 ops/cycle")
    matrix = (finding("mma_tf32", "rate", 682.7, published=other), finding("mma_s8", "warps_needed", 16, low=15))
    wide = printed(result.model_copy(update={"findings": matrix, "device": device}), 200).splitlines()
    row = next(line for line in wide if "m16n8k8 tf32" in line)
    assert "67% of 1024" in row and "rate: published 600, +82 ops/cycle" in row
    assert "mma_f16, mma_s8 rate: not supported: no such unit" in lines
    assert "ffma warps_needed: not found: too few" in lines
    for width in (80, 60, 50):
        narrow = printed(mixed, width).splitlines()
        start = next(n for n, line in enumerate(narrow) if line.startswith("instructions,"))
        table = narrow[start : narrow.index(next(each for each in narrow if "too few" in each))]
        assert all(len(line) <= width for line in table if "ffma" in line)
    plain = printed(mixed).splitlines()
    assert TITLE not in plain
    assert [line.split()[1] for line in plain if line.startswith("ffma ")][:3] == ["latency", "rate", "warps_needed"]
