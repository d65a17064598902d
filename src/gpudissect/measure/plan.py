"""What an experiment is: a generator that never sees a device.

It yields a batch of workloads, is sent their traces in the same order, may go on asking, and returns an
`Outcome`. Everything it chooses follows from what it was sent and a seed, so that a recording can answer it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate, Status
from gpudissect.series import Series
from gpudissect.trace import Trace
from gpudissect.workload import Workload


@dataclass(frozen=True)
class Bench:
    """What every experiment starts from: the device's own description and the seed of all random choices."""

    info: DeviceInfo
    seed: int = 0

    def seed_for(self, *parts: int | str) -> int:
        """A 32-bit seed that follows from the survey's seed and `parts`, the same in every process and version."""
        return zlib.crc32(repr((self.seed, *map(str, parts))).encode())

    def rng(self, *parts: int | str) -> np.random.Generator:
        """A random generator seeded by `seed_for`."""
        return np.random.default_rng(self.seed_for(*parts))


@dataclass(frozen=True)
class Outcome:
    """What an experiment returns.

    Attributes:
        estimates: what it found.
        knowledge: for the experiments that need it.
        series: what it saw, for people to look at.

    """

    estimates: tuple[Estimate, ...] = ()
    knowledge: Any = None
    series: tuple[Series, ...] = ()


class Enough(Exception):
    """Thrown into a plan in place of traces: the survey is broken off. It may return what it makes of those it had."""


T = TypeVar("T")
Ask = Generator[Sequence[Workload], list[Trace], T]
"""Part of a plan: asks for batches and ends in a T. ``answer = yield from part()``."""
Plan = Ask[Outcome]
Known = Mapping[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A named plan.

    Attributes:
        name: unique, ``what.element``.
        element: whose attributes it finds.
        attributes: the attributes it will give an estimate for, found or not.
        needs: names of experiments whose knowledge it is handed.
        plan: starts the generator.
        quick: whether it belongs to a quick survey too.
        afterwards: whether it has something to say of what others found even if the survey was broken off before it.
    """

    name: str
    element: str
    attributes: tuple[str, ...]
    needs: tuple[str, ...]
    plan: Callable[[Bench, Known], Plan]
    quick: bool = True
    afterwards: bool = False


def without(status: Status, element: str, reason: str, *attributes: str) -> tuple[Estimate, ...]:
    """The same non-answer for several attributes of an element."""
    return tuple(Estimate(element=element, attribute=each, status=status, reason=reason) for each in attributes)
