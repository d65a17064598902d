"""Results made by hand, for tests of what is built from results."""

from collections.abc import Mapping
from typing import Any

from gpudissect.catalogue.load import check, parse
from gpudissect.catalogue.schema import GpuTable
from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.exports import export
from gpudissect.results import model
from gpudissect.results.folded import folded
from gpudissect.results.model import Device
from gpudissect.views.interactive import Finding, Result
from gpudissect.vocabulary import unit_of

KIB = 1024
FACTS = {"compute_capability": "9.9", "memory_size": 1 << 30, "shared_per_block": 48 * KIB, "constant_size": 64 * KIB}
NO_PATHS = {"readonly": "none", "texture": "none", "constant": "none", "shared": "none"}
PLAIN = {
    "timer.overhead": 10.0,
    "l1.capacity": 16 * KIB,
    "l1.line_size": 128,
    "l1.fetch_granularity": 32,
    "l1.hit_latency": 30.0,
    "l1.miss_penalty": 170.0,
    "l2.capacity": 1024 * KIB,
    "l2.line_size": 128,
    "l2.fetch_granularity": 32,
    "l2.hit_latency": 195.0,
    "l2.miss_penalty": 300.0,
    "dram.hit_latency": 495.0,
    "dram.wide_latency": 495.5,
}
"""An L1 and an L2 in front of memory."""


def finding(element: str, attribute: str, value: Any = None, **fields: Any) -> Finding:
    """A finding: found with a value, not found without one."""
    status, reason = (Status.NOT_FOUND, "no evidence") if value is None else (Status.FOUND, "")
    fields = {"status": status, "value": value, "reason": reason} | fields
    return Finding(element=element, attribute=attribute, unit=unit_of(attribute), **fields)


def result(findings: Mapping[str, Any], **device: Any) -> Result:
    """A result with findings by ``element.attribute``: plain values, or dictionaries of a finding's fields."""
    described = {"spec": "cuda:0", "name": "Made Up 1", "origin": Origin.MEASURED, "sm_count": 4, "facts": FACTS}
    values = {name: value if isinstance(value, dict) else {"value": value} for name, value in findings.items()}
    items = tuple(finding(*name.split("."), **fields) for name, fields in values.items())
    return Result(device=Device(**described | device), findings=items)


def shown(result: model.Result, name: str, *, unit: bool = True) -> str:
    """A value of a result, ``element.attribute``, as views print it."""
    return folded(result.finding(*name.split(".")), unit=unit)


def gpu_of(result: Result) -> GpuTable:
    """The GPU file of a result as the catalogue reads it."""
    return read(str(export(result, "gpu")))


def read(text: str) -> GpuTable:
    """A GPU file as the catalogue reads it."""
    return check("made up", parse("made up", text.encode()))
