"""Drive the experiments on a device (placeholder of the contract; the body follows)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpudissect.device.base import Device
from gpudissect.estimate import Estimate


@dataclass(frozen=True)
class Failure:
    """An experiment that did not finish, and why (one line)."""

    experiment: str
    reason: str


@dataclass(frozen=True)
class Survey:
    """What a survey gave: findings in the order of elements, failures, and whether it was interrupted."""

    findings: tuple[Estimate, ...]
    failures: tuple[Failure, ...]
    interrupted: bool
    seconds: float
    workloads: int


def run_survey(
    device: Device,
    *,
    elements: Sequence[str] | None = None,
    quick: bool = False,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> Survey:
    """Run every experiment that `elements` need (all when None) and gather their estimates.

    `progress(done, total, what)` is called as experiments finish and start. A KeyboardInterrupt ends the survey
    with what was measured so far and `interrupted` set.
    """
    raise NotImplementedError
