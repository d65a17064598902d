"""The SM of a GPU file: what was found, and the rest as on a documented GPU of the same compute capability."""

from pathlib import Path

import pytest

from gpudissect import catalogue
from gpudissect.estimate import Status
from gpudissect.exports import export
from gpudissect.results.files import load
from gpudissect.results.model import Finding
from gpudissect.workload import Instruction


@pytest.fixture(scope="module")
def h200():
    return load(Path(__file__).parents[2] / "docs" / "results" / "h200.json")


def with_findings(result, *findings):
    """The result with findings replaced: element, attribute, value, unit, and perhaps a bracket."""
    new = []
    for element, attribute, value, unit, *bracket in findings:
        low, high = bracket or (None, None)
        fields = {"value": value, "unit": unit, "low": low, "high": high, "confidence": 0.9}
        new.append(Finding(element=element, attribute=attribute, status=Status.FOUND, **fields))
    names = {(each.element, each.attribute) for each in new}
    kept = [each for each in result.findings if (each.element, each.attribute) not in names]
    return result.model_copy(update={"findings": (*new, *kept)})


def exported(result, folder):
    file = folder / "mine.toml"
    file.write_text(export(result, "gpu"), encoding="utf-8")
    return catalogue.load(str(file))


def test_found_numbers_have_the_run_as_source(h200, tmp_path):
    found = (
        ("fadd", "rate", 127.5, "ops/cycle"),
        ("fadd", "latency", 4.02, "cycles"),
        ("dram", "read_bandwidth", 4.6e12, "B/s"),
        ("shared", "write_conflict", 2.0, "cycles"),
        ("launch", "kernel_start", 4321.0, "ns"),
    )
    gpu = exported(with_findings(h200, *found), tmp_path)
    published = {(each.element, each.attribute): each for each in gpu.published()}
    for element, attribute, value, _ in found:
        assert published[element, attribute].value == value
        assert published[element, attribute].source.startswith("measured: gpudissect discover")
    processor = gpu.processor()
    assert processor.operations[Instruction.FADD].interval == pytest.approx(4 * 32 / 127.5)
    assert processor.dram.read * processor.clock_hz == pytest.approx(4.6e12)
    assert processor.shared.write_conflict == 2


@pytest.mark.parametrize(
    ("low", "value", "high", "simulated"),
    [
        (3.77, 4.02, 4.08, 4.0),
        (3.9, 4.52, 4.6, 4.0),
        (4.4, 4.52, 4.6, 4.52),
        (0.0, 0.4, 1.2, 1.0),
        (0.0, 0.4, 0.9, 0.4),
    ],
)
def test_latencies_are_whole_cycles_if_the_bracket_has_any(low, value, high, simulated, h200, tmp_path):
    gpu = exported(with_findings(h200, ("fadd", "latency", value, "cycles", low, high)), tmp_path)
    assert gpu.table.units[Instruction.FADD].latency.value == simulated


def test_the_rest_is_that_of_a_documented_gpu(h200, tmp_path):
    elements = {*Instruction, "launch", "lds_2way", "ldg_streaming", "ldg_random"}
    rates = ("_bandwidth", "_rate", "_conflict")
    kept = [each for each in h200.findings if each.element not in elements and not each.attribute.endswith(rates)]
    gpu = exported(h200.model_copy(update={"findings": tuple(kept)}), tmp_path)
    assert gpu.table.units.keys() == catalogue.load("h100").table.units.keys()
    assert gpu.table.units[Instruction.FADD].rate.assumed.startswith("as NVIDIA H100: ")
    pins = 3201e6 * 6016 / (2619e6 * 5120)
    assert gpu.table.bandwidth.dram.read_bandwidth.value == pytest.approx(3e12 * pins, rel=0.02)
    assert not [each for each in gpu.published() if each.element in set(Instruction)]


def test_without_a_documented_gpu_it_runs_chases_only(h200, tmp_path):
    facts = {**h200.device.facts, "compute_capability": "9.9"}
    device = h200.device.model_copy(update={"facts": facts, "catalogue": None})
    gpu = exported(h200.model_copy(update={"device": device}), tmp_path)
    assert gpu.processor() is None
    assert gpu.table.units == {}
