"""Throughput experiments on a GPU in closed form."""

from __future__ import annotations

from gpudissect.estimate import Estimate
from gpudissect.measure.cache.infer_level import Absence
from gpudissect.workload import MOVES
from tests.support.driving import estimates
from tests.support.steady_gpu import SteadyGpu


class Levels:
    """There is an L1."""

    absent: dict[str, Absence] = {}  # noqa: RUF012

    def level(self, element: str) -> object:
        return element


KNOWN = {"levels.global": Levels(), "capacity.l1": 48 << 10, "capacity.l2": 8 << 20}
DRAM = tuple(f"bandwidth.dram.{transfer}" for transfer in MOVES)
SHARED = tuple(f"bandwidth.shared.{transfer}" for transfer in MOVES)
OF_L2, OF_L1 = (tuple(f"bandwidth.{level}.{way}" for way in ("read", "write")) for level in ("l2", "l1"))
LAUNCHES = ("launch.kernel", "launch.graph", "launch.block")
ALL = ("peak.dram", *DRAM, *OF_L2, *OF_L1, *SHARED)


def found(device: SteadyGpu, *names: str) -> dict[tuple[str, str], Estimate]:
    return estimates(device, names, known=KNOWN)


class LoggingGpu(SteadyGpu):
    """Keeps the workloads that it ran."""

    def run(self, batch):  # type: ignore[no-untyped-def]
        self.workloads = [*getattr(self, "workloads", []), *batch]
        return super().run(batch)
