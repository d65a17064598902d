"""What an experiment is: a generator that never sees a device.

It yields a batch of workloads, is sent their traces in the same order, may yield further batches, and returns an
`Outcome`. Everything it chooses follows from the traces and a seed, so that a recording can answer it.
"""

import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar, cast

import numpy as np

from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate, Series, Status, Value
from gpudissect.trace import Trace
from gpudissect.workload import Workload

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Bench:
    """What every experiment starts from: the device's description, the seed of all random choices, and `--quick`.

    Attributes:
        precision: requested max width of latency brackets, percent of the value; None for the default samples.

    """

    info: DeviceInfo
    seed: int = 0
    quick: bool = False
    precision: float | None = None

    def seed_for(self, *parts: int | str) -> int:
        """A 32-bit seed that follows from the survey's seed and `parts`, the same in every process and version.

        Recordings depend on it: `parts` never change.
        """
        return zlib.crc32(repr((self.seed, *map(str, parts))).encode())

    def rng(self, *parts: int | str) -> np.random.Generator:
        """A random generator seeded by `seed_for`."""
        return np.random.default_rng(self.seed_for(*parts))


@dataclass(frozen=True)
class Key(Generic[K]):
    """The name of an experiment, typed by what it knows: `known[key]` is a K.

    Attributes:
        name: name of the experiment, ``policy.l1``.
        types: classes of which its knowledge is an instance, ``NoneType`` included where it may know nothing. The
            driver checks them.

    """

    name: str
    types: tuple[type, ...] = (object,)


class Known(Mapping[Key[Any], Any]):
    """What the experiments that another one needs know, by their keys."""

    def __init__(self, knowledge: Mapping[str, Any]) -> None:
        self._knowledge = dict(knowledge)

    def __getitem__(self, key: Key[K]) -> K:
        """The knowledge of the experiment `key`. Raises `KeyError` for one that is not among the needs."""
        return cast(K, self._knowledge[key.name])

    def __iter__(self) -> Iterator[Key[Any]]:
        return (Key(name) for name in self._knowledge)

    def __len__(self) -> int:
        return len(self._knowledge)


@dataclass(frozen=True)
class Outcome:
    """What an experiment returns.

    Attributes:
        estimates: what it found.
        knowledge: for the experiments that need it; of the types that its key names.
        series: what it observed, to be plotted.

    """

    estimates: tuple[Estimate, ...] = ()
    knowledge: Any = None
    series: tuple[Series, ...] = ()


class StopEarly(Exception):
    """Thrown into a plan in place of traces when the survey is interrupted. It may return what it has so far."""


Ask = Generator[Sequence[Workload], list[Trace], T]
"""Part of a plan: yields batches and returns a T. ``answer = yield from part()``."""
Plan = Ask[Outcome]


class Study(StrEnum):
    """Sets of experiments that run together."""

    DISCOVER = "discover"
    COMPARE_METHODS = "compare methods"  # older methods, run by `discover --compare-methods`
    HIDE = "hide"
    LINKS = "links"  # memory of the host and of other GPUs


def together(parts: Sequence[Ask[T]]) -> Ask[list[T]]:
    """Run parts of a plan at the same time, their batches as one; what each returns. The first exception ends all."""
    results: dict[int, T] = {}
    traces: dict[int, list[Trace] | None] = dict.fromkeys(range(len(parts)))
    while traces:
        batches: dict[int, Sequence[Workload]] = {}
        for number, sent in traces.items():
            try:
                batches[number] = next(parts[number]) if sent is None else parts[number].send(sent)
            except StopIteration as stop:
                results[number] = stop.value
        received = iter((yield [workload for batch in batches.values() for workload in batch]) if batches else ())
        traces = {number: [next(received) for _ in batch] for number, batch in batches.items()}
    return [results[number] for number in range(len(parts))]


@dataclass(frozen=True)
class Experiment:
    """A named plan and what it declares. A module with plans lists them in ``EXPERIMENTS``; the survey finds it there.

    Attributes:
        key: unique name, ``what.element``, and the type of its knowledge.
        plan: starts the generator.
        emits: attributes of its element that it gives an estimate for, found or not. No two experiments emit the same.
        needs: keys of the experiments whose knowledge it is handed.
        revises: findings of others that it may replace, as ``l1.capacity``. The driver refuses estimates that are
            neither emitted nor revised.
        quick: whether it belongs to a quick survey too.
        after_interrupt: whether it runs on what others found even if the survey was interrupted before it.
        changes_clock: whether it loads the whole GPU so that the SM clock changes: it starts when all others ended, and
            its clock is not among the conditions of the survey.
        last: whether it starts when all others ended, as with `changes_clock`.
        simulates: whether it runs the cache simulator: while that is being compiled, others start first.
        study: the study that it belongs to.
        element: the element that it is about; by default the second part of its name.

    """

    key: Key[Any]
    plan: Callable[[Bench, Known], Plan]
    emits: tuple[str, ...] = ()
    needs: tuple[Key[Any], ...] = ()
    revises: tuple[str, ...] = ()
    quick: bool = False
    after_interrupt: bool = False
    changes_clock: bool = False
    last: bool = False
    simulates: bool = False
    study: Study = Study.DISCOVER
    element: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "element", self.element or f"{self.name}.{self.name}".split(".")[1])

    @property
    def name(self) -> str:
        """Its unique name."""
        return self.key.name


def without(status: Status, element: str, reason: str, *attributes: str, **fields: Any) -> tuple[Estimate, ...]:
    """The same non-answer for several attributes of an element; `fields` as of `Estimate`."""
    return tuple(Estimate(element=element, attribute=a, status=status, reason=reason, **fields) for a in attributes)


def found(
    element: str,
    attribute: str,
    value: Value,
    low: float | None,
    high: float | None,
    confidence: float,
    method: str,
    evidence: tuple[str, ...],
    caveats: tuple[str, ...] = (),
) -> Estimate:
    """An estimate with a value; see `Estimate`."""
    return Estimate(
        element=element,
        attribute=attribute,
        status=Status.FOUND,
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        method=method,
        evidence=evidence,
        caveats=caveats,
    )
