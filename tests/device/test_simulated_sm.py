"""A simulated chase on a certain SM: what it is near to differs, its private caches do not."""

from __future__ import annotations

import pytest

from gpudissect.device.simulated import Noise, SimulatedGpu
from gpudissect.errors import DeviceError
from gpudissect.simulation.cache.geometry import (
    Cache,
    Distance,
    Hierarchy,
    Index,
    IndexKind,
    Partition,
    Policy,
    PolicyKind,
    Route,
    Scope,
)
from gpudissect.workload import Chase, Path, Sequential, Timing

LRU, MODULO = Policy(PolicyKind.LRU), Index(IndexKind.MODULO)
BY_SM = (0.0, 10.0, 20.0, 30.0)
GPU = Hierarchy(
    caches={
        "l1": Cache((4,) * 8, 32, 32, MODULO, LRU),
        "l2": Cache((16,) * 64, 32, 32, MODULO, LRU, scope=Scope.GPU),
    },
    routes={
        Path.GLOBAL: Route(("l1", "l2"), (40, 200), 500),
        Path.GLOBAL_L2: Route(("l2",), (200,), 500),
    },
    partition=Partition("l2", home_mask=1 << 5, far_penalty=100, far_memory_penalty=150),
    distance=Distance("l2", BY_SM),
    sm_count=4,
)


def seen(path: Path, sm: int | None, warmup: int) -> tuple[list[int], int | None]:
    chase = Chase(path=path, order=Sequential(4, 32), timing=Timing.EACH, warmup=warmup, sm=sm)
    device = SimulatedGpu(GPU, spec="sim:test", name="test", noise=Noise.none())
    (trace,) = device.run([chase])
    return trace.cycles.tolist(), trace.context.sm


@pytest.mark.parametrize("sm", range(4))
def test_what_is_near_goes_by_the_sm(sm: int) -> None:
    far = [550 + 100, 500] * 2 if sm % 2 else [500, 550 + 100] * 2
    assert seen(Path.GLOBAL_L2, sm, 0) == ([each + 10 * sm for each in far], sm)
    assert seen(Path.GLOBAL_L2, sm, 1) == ([200 + 10 * sm] * 4, sm)
    assert seen(Path.GLOBAL, sm, 1) == ([40] * 4, sm)


def test_without_a_wish_it_is_sm_0() -> None:
    assert seen(Path.GLOBAL_L2, None, 0) == seen(Path.GLOBAL_L2, 0, 0)


def test_an_sm_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"has 4 SMs: there is no SM 4$"):
        seen(Path.GLOBAL, 4, 0)
