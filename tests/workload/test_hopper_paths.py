"""Chases through another block's shared memory and by bulk copies: what can be asked, and what cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpudissect.errors import WorkloadError
from gpudissect.workload import Bounds, Chase, Explicit, Path, PriorAccesses, Sequential, Timing

RING = Sequential(16, 64)
TURN = PriorAccesses(path=Path.GLOBAL, order=Sequential(4, 64, start=2048))


@pytest.mark.parametrize("fields", [
    {"path": Path.CLUSTER}, {"path": Path.CLUSTER, "peer": 0}, {"path": Path.CLUSTER, "peer": 15},
    {"path": Path.CLUSTER, "timing": Timing.EACH, "picks": (3,)},
    {"path": Path.CLUSTER, "timing": Timing.COUNT, "bounds": Bounds(250, 300, 400)},
    {"path": Path.TMA}, {"path": Path.TMA, "flush": True}, {"path": Path.TMA, "order": Explicit(np.array([0, 48, 16]))},
])  # fmt: skip
def test_what_can_be_asked(fields: dict[str, Any]) -> None:
    Chase(**{"order": RING, "timing": Timing.LAP} | fields)


@pytest.mark.parametrize(("fields", "message"), [
    ({"path": Path.TMA, "timing": Timing.EACH}, "'lap' only"),
    ({"path": Path.TMA, "timing": Timing.COUNT, "bounds": Bounds(250, 300, 400)}, "'lap' only"),
    ({"path": Path.TMA, "order": Sequential(16, 8)}, "multiples of 16"),
    ({"path": Path.TMA, "order": Sequential(16, 32, start=8)}, "multiples of 16"),
    ({"path": Path.TMA, "before": (TURN,)}, "a turn"),
    ({"path": Path.CLUSTER, "before": (TURN,)}, "no cache"),
    ({"path": Path.CLUSTER, "order": Sequential(16, 4)}, "multiples of 8"),
    ({"path": Path.CLUSTER, "peer": 16}, "rank in a cluster"),
    ({"path": Path.CLUSTER, "peer": -1}, "rank in a cluster"),
    ({"path": Path.GLOBAL, "peer": 0}, "belongs to path 'cluster'"),
    ({"path": Path.TMA, "peer": 2}, "belongs to path 'cluster'"),
])  # fmt: skip
def test_what_cannot(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as caught:
        Chase(**{"order": RING, "timing": Timing.LAP} | fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", [Path.CLUSTER, Path.TMA, Path.SHARED, Path.NOTHING])
def test_nobody_has_a_turn_where_no_load_leaves_a_line(path: Path) -> None:
    with pytest.raises(WorkloadError, match="a turn goes through a cache by loads"):
        PriorAccesses(path=path, order=RING)
