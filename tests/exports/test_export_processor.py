"""A result as a GPU that runs more than chases: what was found stands there, the rest as of a GPU that is alike."""

from pathlib import Path

import pytest

from gpudissect import catalogue
from gpudissect.estimate import Status
from gpudissect.exports import export
from gpudissect.results.files import load
from gpudissect.results.model import Finding, Result
from gpudissect.workload import Instruction

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200.json"


def with_findings(*findings: tuple[str, str, float, str]) -> Result:
    result = load(H200)
    more = [
        Finding(element=element, attribute=attribute, status=Status.FOUND, value=value, unit=unit, confidence=0.9)
        for element, attribute, value, unit in findings
    ]
    names = {(each.element, each.attribute) for each in more}
    kept = [each for each in result.findings if (each.element, each.attribute) not in names]
    return result.model_copy(update={"findings": (*more, *kept)})


def exported(result: Result, folder: Path) -> catalogue.Gpu:
    file = folder / "mine.toml"
    file.write_text(export(result, "gpu"), encoding="utf-8")
    return catalogue.load(str(file))


def test_what_was_found_has_the_run_for_its_source(tmp_path: Path) -> None:
    found = (
        ("fadd", "rate", 127.5, "ops/cycle"), ("fadd", "latency", 4.02, "cycles"),
        ("dram", "read_bandwidth", 4.6e12, "B/s"), ("shared", "write_conflict", 2.0, "cycles"),
        ("launch", "kernel_start", 4321.0, "ns"),
    )  # fmt: skip
    gpu = exported(with_findings(*found), tmp_path)
    published = {(each.element, each.attribute): each for each in gpu.published()}
    for element, attribute, value, _ in found:
        assert published[element, attribute].value == value
        assert published[element, attribute].source.startswith("measured: gpudissect discover")
    processor = gpu.processor()
    assert processor is not None
    assert processor.operations[Instruction.FADD].interval == pytest.approx(4 * 32 / 127.5)
    assert processor.dram.read * processor.clock_hz == pytest.approx(4.6e12)
    assert processor.shared.write_conflict == 2


CYCLES = [
    (3.77, 4.02, 4.08, 4.0),
    (3.9, 4.52, 4.6, 4.0),
    (4.4, 4.52, 4.6, 4.52),
    (0.0, 0.4, 1.2, 1.0),
    (0.0, 0.4, 0.9, 0.4),
]


@pytest.mark.parametrize(("low", "value", "high", "simulated"), CYCLES)
def test_an_instructions_result_is_there_at_whole_cycles(
    low: float, value: float, high: float, simulated: float, tmp_path: Path
) -> None:  # fmt: skip
    """If the bracket has them."""
    result = with_findings(("fadd", "latency", value, "cycles"))
    finding = result.findings[0].model_copy(update={"low": low, "high": high})
    gpu = exported(result.model_copy(update={"findings": (finding, *result.findings[1:])}), tmp_path)
    assert gpu.table.units[Instruction.FADD].latency.value == simulated


def test_the_rest_is_as_of_a_gpu_that_is_alike(tmp_path: Path) -> None:
    measured = load(H200)
    without = tuple(each for each in measured.findings
                    if each.element not in (*Instruction, "launch", "lds_2way", "ldg_streaming", "ldg_random")
                    and not each.attribute.endswith(("_bandwidth", "_rate", "_conflict")))  # fmt: skip
    gpu, like = exported(measured.model_copy(update={"findings": without}), tmp_path), catalogue.load("h100")
    table = gpu.table
    assert table.units.keys() == like.table.units.keys()
    assert table.units[Instruction.FADD].rate.assumed.startswith("as NVIDIA H100: ")
    pins = 3201e6 * 6016 / (2619e6 * 5120)
    assert table.bandwidth.dram.read_bandwidth.value == pytest.approx(3e12 * pins, rel=0.02)
    assert not [each for each in gpu.published() if each.element in set(Instruction)]


def test_without_a_gpu_that_is_alike_it_runs_chases_only(tmp_path: Path) -> None:
    result = load(H200)
    facts = {**result.device.facts, "compute_capability": "9.9"}
    device = result.device.model_copy(update={"facts": facts, "catalogue": None})
    gpu = exported(result.model_copy(update={"device": device}), tmp_path)
    assert gpu.processor() is None
    assert gpu.table.units == {}
