"""How many operations of an instruction an SM cannot exceed in a cycle, whatever units execute it."""

from __future__ import annotations

from gpudissect.catalogue.capabilities import warp_issues
from gpudissect.device_info import DeviceInfo
from gpudissect.measure.instructions.instructions import Kind
from gpudissect.measure.plan import Known
from gpudissect.measure.shared_memory.infer_banks import WORD, Layout
from gpudissect.measure.shared_memory.plan_banks import BANK_LAYOUT
from gpudissect.measure.throughput.bound import Bound, Unbounded
from gpudissect.units import WARP_SIZE
from gpudissect.workload import SHARED_INSTRUCTIONS

NOT_KNOWN = Unbounded("held against no bound: nobody states how many schedulers an SM of this GPU has")


def issue_bound(kind: Kind, stride: int, info: DeviceInfo, known: Known) -> Bound | Unbounded:
    """Operations a cycle of one SM: what its schedulers can start; in shared memory what the banks can serve.

    A bank gives one row in a cycle (`inference.banks`), so an access of a warp takes as many cycles as turns.
    """
    layout = known.get(BANK_LAYOUT)
    if kind.instruction in SHARED_INSTRUCTIONS and isinstance(layout, Layout):
        return Bound(WARP_SIZE / layout.turns(stride, WORD), "the banks")
    issues = warp_issues(info.facts)
    return NOT_KNOWN if issues is None else Bound(float(issues * kind.operations), "the schedulers")
