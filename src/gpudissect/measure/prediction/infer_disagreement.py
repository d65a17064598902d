"""Which accesses were answered elsewhere than foretold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_held_out import may_be_wrong_twice
from gpudissect.simulation.cache.geometry import Policy

Array = NDArray[np.int64]
Places = NDArray[np.int8]
Mask = NDArray[np.bool_]

UNCLEAR = -1  # of a place: neither as quick as a hit nor as slow as a miss
RUNS = 2  # of each sequence
NAMED = 3  # accesses, in a text
DRAWN_SHORTFALL = 0.03  # by which the share may stay below what is possible where that is itself an estimate


@dataclass(frozen=True)
class Forecast:
    """Where accesses must be answered.

    Attributes:
        places: (n,) 0 for the nearest cache, and so on; `UNCLEAR` where nothing is foretold.
        fresh: (n,) where one simulation answers them: elsewhere only where victims are drawn by lot.

    """

    places: Places
    fresh: Places

    def after(self, first: int) -> Forecast:
        """Without that many accesses at the beginning."""
        return Forecast(self.places[first:], self.fresh[first:])


@dataclass(frozen=True)
class Answered:
    """Accesses of one sequence, made twice.

    Attributes:
        offsets: (n,) bytes asked for.
        counts: (n,) whether something is foretold at all: that a first touch misses is no feat.
        foretold: where they must be answered.
        seen: (n,) where they were, in either run.
        evidence: digests of the two workloads.

    """

    offsets: Array
    counts: Mask
    foretold: Forecast
    seen: Sequence[Places]
    evidence: tuple[str, str]

    def clear(self, seen: Places) -> Mask:
        """Which accesses of a run are held against what was foretold."""
        return np.asarray(self.counts & (self.foretold.places != UNCLEAR) & (seen != UNCLEAR))

    def wrong(self, seen: Places) -> Mask:
        """Which of them were answered elsewhere."""
        return np.asarray(self.clear(seen) & (seen != self.foretold.places))

    @property
    def open(self) -> int:
        """Accesses for which nothing is foretold."""
        return int(np.sum(self.counts & (self.foretold.places == UNCLEAR)))

    @property
    def always(self) -> Mask:
        """Which were answered elsewhere in both runs: a single one may have been misread."""
        return np.asarray(np.logical_and.reduce([self.wrong(seen) for seen in self.seen]))

    def misjudged(self, seen: Places) -> Places:
        """(n,) of those that went wrong, the place that hit where a miss was foretold or missed where a hit was."""
        return np.asarray(np.minimum(self.foretold.places, seen))


@dataclass(frozen=True)
class Whole:
    """Accesses through every cache, or every TLB, of a path at once, and how many were answered as foretold.

    Attributes:
        name: of the path, or ``translation``.
        accesses, right: all that were seen clearly, and those answered where it was foretold.
        wrong: of the others, how many each element misjudged: the nearest that hit or missed against the forecast.
        possible: share that the model itself says can be foretold; below 1 where victims are drawn.
        assumed: what had to be assumed to simulate it, a text each.
        open: accesses that were not foretold, for they depend on what is not known.

    """

    name: str
    accesses: int
    right: int
    wrong: Mapping[str, int]
    possible: float
    assumed: tuple[str, ...] = ()
    open: int = 0

    @property
    def agreement(self) -> float:
        """Share foretold."""
        return self.right / self.accesses


@dataclass(frozen=True)
class Unforetold:
    """A cache, or ``path`` and its name, that cannot be simulated, and why."""

    name: str
    reason: str


def whole(
    name: str, elements: Sequence[str], parts: Sequence[Answered], assumed: tuple[str, ...]
) -> Whole | Unforetold:
    """Count over several sequences, both runs of each; `elements` are the places by name, nearest first."""
    accesses = right = 0
    wrong = dict.fromkeys(elements, 0)
    likely = []
    for part in parts:
        likely.append((part.foretold.places == part.foretold.fresh)[part.clear(part.foretold.fresh)])
        for seen in part.seen:
            clear, missed = part.clear(seen), part.wrong(seen)
            accesses, right = accesses + int(clear.sum()), right + int((clear & ~missed).sum())
            for place in part.misjudged(seen)[missed].tolist():
                wrong[elements[place]] += 1
    if not accesses:
        return Unforetold(f"path {name}", "no access was seen clearly")
    possible = float(np.mean(np.concatenate(likely)))
    misjudged = {element: count for element, count in wrong.items() if count}
    left = sum(part.open for part in parts) * RUNS
    return Whole(name, accesses, right, misjudged, possible, assumed, left)


def stubborn(parts: Sequence[Answered], told: Whole, place: int) -> str:
    """Why an element does not foretell what it answers: which accesses disagree. Empty if it does.

    Where victims are drawn the share of both runs counts; else what was wrong both times, for misread accesses are
    others each time.
    """
    always = [part.always & (part.misjudged(part.seen[0]) == place) for part in parts]
    count = sum(int(each.sum()) for each in always)
    single = sum(int(part.clear(part.seen[0]).sum()) for part in parts)
    if told.possible < 1:
        fails = told.agreement < told.possible - DRAWN_SHORTFALL and count > 0
    else:
        fails = count > may_be_wrong_twice(told.agreement, single)
    if not fails:
        return ""
    hits = sum(
        int((each & (part.foretold.places > part.seen[0])).sum()) for each, part in zip(always, parts, strict=True)
    )
    named = first_of([(part.offsets, mask) for part, mask in zip(parts, always, strict=True)])
    if told.possible < 1:
        share = f"{told.agreement:.1%} of the accesses on path {told.name} are answered as foretold"
        return f"{share} where {told.possible:.1%} can be; wrong in both runs: {named}"
    return (
        f"of {single} random accesses on path {told.name} {count} are never answered as foretold: {hits} hit that "
        f"must miss, {count - hits} miss that must hit; {named}"
    )


def policies_refuted(
    parts: Sequence[Answered], told: Whole, policies: Mapping[str, Policy | None], method: str
) -> tuple[Estimate, ...]:
    """Of each policy that does not foretell what its cache or TLB answers: it is ambiguous, and which accesses say so.

    `policies` are those of the places by name, nearest first; None where none was found.
    """
    evidence = tuple(digest for part in parts for digest in part.evidence)
    return tuple(
        Estimate(element=element, attribute="replacement_policy", status=Status.AMBIGUOUS,
                 reason=f"{policy.kind}, but {reason}", method=method, evidence=evidence)
        for place, (element, policy) in enumerate(policies.items())
        if policy is not None and (reason := stubborn(parts, told, place))
    )  # fmt: skip


def first_of(sequences: Sequence[tuple[Array, Mask]]) -> str:
    """The first of the accesses picked out of some sequences (their bytes, and which are meant) by name."""
    named = [
        f"access {at} of sequence {number} (byte {offsets[at]})"
        for number, (offsets, mask) in enumerate(sequences, start=1)
        for at in np.flatnonzero(mask)
    ]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"{', '.join(named[:NAMED])}{more}"
