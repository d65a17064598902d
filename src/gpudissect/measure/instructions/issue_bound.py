"""How many operations of an instruction an SM cannot exceed in a cycle, whatever units execute it."""

from __future__ import annotations

from gpudissect.catalogue.capabilities import by_capability
from gpudissect.device_info import DeviceInfo
from gpudissect.measure.instructions.instructions import Kind
from gpudissect.measure.plan import Known
from gpudissect.measure.shared_memory.infer_banks import WORD, Layout
from gpudissect.measure.throughput.bound import Bound, Unbounded
from gpudissect.units import WARP_SIZE
from gpudissect.workload.instruction import SHARED

ISSUES = {
    "1": 1, "2.0": 2, "2.1": 4, "3": 8, "5": 4, "6.0": 2, "6": 4, "7": 4, "8": 4, "9": 4, "10": 4, "12": 4,
}  # fmt: skip
"""Instructions of warps that an SM starts in a cycle: its schedulers, and of capability 2.1 and 3 twice as many, since
each starts two (CUDA C Programming Guide, "Compute Capabilities"). Of 1.x and 2.x it takes several cycles for each:
there the bound is a loose one."""
NOT_KNOWN = Unbounded("held against no bound: nobody states how many schedulers an SM of this GPU has")


def issue_bound(kind: Kind, stride: int, info: DeviceInfo, known: Known) -> Bound | Unbounded:
    """Operations a cycle of one SM: what its schedulers can start; in shared memory what the banks can serve.

    A bank gives one row in a cycle (`inference.banks`), so an access of a warp takes as many cycles as turns.
    """
    layout = known.get("banks.shared")
    if kind.instruction in SHARED and isinstance(layout, Layout):
        return Bound(WARP_SIZE / layout.turns(stride, WORD), "the banks")
    issues = by_capability(ISSUES, info.facts)
    return NOT_KNOWN if issues is None else Bound(float(issues * kind.operations), "the schedulers")
