"""How well what was found foretells accesses not seen before, as a result file says it."""

from __future__ import annotations

from gpudissect.results.record import Items, Record


class ElementPrediction(Record):
    """How well one cache, simulated as inferred, foretold random accesses that nothing was inferred from."""

    element: str
    """Which cache."""
    agreement: float
    """Share of the accesses that were foretold."""
    low: float
    """Lower end of the 95 % interval of `agreement`."""
    high: float
    """Upper end of it."""
    accesses: int
    """How many there were."""
    hits_wrong: int
    """Hits that were foretold as misses."""
    misses_wrong: int
    """Misses that were foretold as hits."""
    possible: float
    """Share that can be foretold at all, by the model's own word: below 1 where victims are drawn at random."""


class PathPrediction(Record):
    """How well all caches and TLBs of a path, simulated together as inferred, foretold which of them answers."""

    path: str
    """Which path; "translation" for the TLBs, told by what an access costs beyond its line."""
    agreement: float
    """Share of the accesses that were answered where it was foretold."""
    low: float
    """Lower end of the 95 % interval of `agreement`."""
    high: float
    """Upper end of it."""
    accesses: int
    """How many there were."""
    wrong: dict[str, int] = {}
    """Of the others, how many each cache or TLB misjudged."""
    possible: float
    """Share that can be foretold at all, by the model's own word: below 1 where victims are drawn at random."""
    assumed: Items[str] = ()
    """What had to be assumed, for it was not found."""
    open: int = 0
    """Accesses that were not foretold, for they depend on what was not found."""


class Prediction(Record):
    """The same of all caches and paths together."""

    agreement: float
    """Share of the accesses that were foretold."""
    low: float
    """Lower end of the 95 % interval of `agreement`."""
    high: float
    """Upper end of it."""
    accesses: int
    """How many there were."""
    elements: Items[ElementPrediction]
    """Cache by cache."""
    paths: Items[PathPrediction] = ()
    """Path by path, everything on it simulated as one."""
    unforetold: dict[str, str] = {}
    """Caches and paths that cannot be simulated, each with the reason."""
