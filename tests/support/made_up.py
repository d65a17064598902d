"""Results that nobody measured, for tests of what is made of results."""

from collections.abc import Mapping
from typing import Any

from gpudissect.catalogue.load import check, parse
from gpudissect.catalogue.schema import GpuTable
from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.exports import export
from gpudissect.results.model import Device
from gpudissect.views.interactive import Finding, Result
from gpudissect.vocabulary import unit_of

KIB = 1024
FACTS = {"compute_capability": "9.9", "memory_size": 1 << 30, "shared_per_block": 48 * KIB, "constant_size": 64 * KIB}
NO_PATHS = {"readonly": "none", "texture": "none", "constant": "none", "shared": "none"}


def finding(element: str, attribute: str, value: Any = None, **more: Any) -> Finding:
    """A finding: found with a value, not found without one."""
    status = Status.NOT_FOUND if value is None else Status.FOUND
    given = {"status": status, "value": value, "reason": "" if value is not None else "who knows"} | more
    return Finding(element=element, attribute=attribute, unit=unit_of(attribute), **given)


def result(findings: Mapping[str, Any], **device: Any) -> Result:
    """A result with findings by ``element.attribute``: plain values, or dictionaries of a finding's fields."""
    described = {"spec": "cuda:0", "name": "Made Up 1", "origin": Origin.MEASURED, "sm_count": 4, "facts": FACTS}
    made = [
        finding(*name.split("."), **(value if isinstance(value, dict) else {"value": value}))
        for name, value in findings.items()
    ]
    return Result(device=Device(**described | device), findings=tuple(made))


def gpu_of(made: Result) -> GpuTable:
    """What the catalogue reads of the GPU file of a result."""
    return read(str(export(made, "gpu")))


def read(text: str) -> GpuTable:
    """A GPU file as the catalogue reads it."""
    return check("made up", parse("made up", text.encode()))


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
"""An L1 and an L2 before memory."""
