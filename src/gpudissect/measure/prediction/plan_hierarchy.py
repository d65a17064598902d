"""Hold the whole hierarchy, as inferred, against random accesses on a path: which cache answers each of them?

Every cache of the path and the TLBs are simulated as one. Lines are visited again after few or many others, so that
all levels take turns; each sequence is made twice, for what is misread is misread elsewhere the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from gpudissect.measure.cache.plan_levels import CACHES_ON_PATH, levels_on
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan
from gpudissect.measure.prediction.infer_disagreement import RUNS, Answered, Unforetold, Whole, policies_refuted, whole
from gpudissect.measure.prediction.infer_hierarchy import Inferred, repeated
from gpudissect.measure.prediction.inferred import BEHIND_L1, cache_keys, covered, inferred
from gpudissect.series import Series
from gpudissect.trace import Array, Trace
from gpudissect.vocabulary import TLBS
from gpudissect.workload import Chase, Explicit, Path, Timing

FOOTPRINTS = (0.6, 1.0, 1.4)  # of what a cache holds
VISITS = 6  # of each line, through words of any part of it
MOST_ACCESSES = 1 << 17  # of one sequence
ROOM = 8  # times the lines that are visited, from which they are drawn
UNSIZED = 256 << 10  # bytes that are visited where the size of no cache is known
NAMED = 512  # accesses that a series shows
METHOD = "random accesses that nothing was inferred from, against all caches and TLBs simulated as inferred"


def hierarchy_plan(path: Path, elements: tuple[str, ...], bench: Bench, known: Known) -> Plan:
    """Knowledge: the `Whole` of a path, or why it is `Unforetold`.

    `elements` are the caches of the path before the L2. A policy that foretells too little becomes ambiguous.
    """
    route = inferred(path, elements, bench, known)
    if isinstance(route, Unforetold):
        return Outcome(knowledge=route)
    first, *orders = _orders(route, _reach(route, bench, known), bench)
    if len(route.variants()) > 1:
        ((seen,),) = yield from _made(path, [first], 1)
        route = _placed(route, first, seen)
    parts = yield from _answered(route, orders)
    names = [stage.element for stage in route.stages]
    assumed = tuple(f"{stage.element}: {stage.assumed}" for stage in route.stages if stage.assumed)
    told = whole(path.value, names, parts, assumed)
    if isinstance(told, Unforetold):
        return Outcome(knowledge=told)
    policies = {stage.element: stage.cache.policy if stage.sure else None for stage in route.stages}
    return Outcome(policies_refuted(parts, told, policies, METHOD), told, _disagreeing(names, parts, path))


def _reach(route: Inferred, bench: Bench, known: Known) -> int:
    """Bytes from which lines are drawn: no more than was looked at, nor than can be simulated."""
    bounds = [bench.info.limit(route.path), route.known, covered(known)]
    return min(each for each in bounds if each is not None)


def _orders(route: Inferred, reach: int, bench: Bench) -> list[Array]:
    """Sequences over about as many bytes as every cache holds whose size is known; the first size comes twice."""
    unit = max(stage.cache.line for stage in route.stages)
    rooms = [stage.room for stage in route.stages if stage.room is not None]
    sizes = {share * stage.cache.capacity for stage in route.stages if stage.room is None for share in FOOTPRINTS}
    most = min([*rooms, reach, MOST_ACCESSES // VISITS * unit])
    counts = sorted({max(2, int(min(size, most)) // unit) for size in sizes or {UNSIZED}})
    return [
        _visits(count, unit, route.path.word, reach, bench.rng("hierarchy", route.path, count, turn))
        for turn, count in enumerate([counts[0], *counts])
    ]


def _visits(count: int, unit: int, word: int, reach: int, rng: np.random.Generator) -> Array:
    """Bytes of so many lines of `unit` bytes, each visited several times after a few others or after very many.

    Every time through another word of any part of it: a chase needs a word of its own for each access.
    """
    visits = min(VISITS, unit // word)
    lines = rng.choice(max(count, min(reach // unit, ROOM * count)), size=count, replace=False)
    words = np.argsort(rng.random((count, unit // word)), axis=1)[:, :visits]
    gaps = np.exp(rng.uniform(0, np.log(count * visits), size=(count, visits)))
    gaps[:, 0] = rng.uniform(0, count * visits, size=count)
    order = np.argsort(np.cumsum(gaps, axis=1).ravel(), kind="stable")
    return np.asarray((lines[:, None] * unit + words * word).ravel()[order], dtype=np.int64)


def _placed(route: Inferred, order: Array, trace: Trace) -> Inferred:
    """The variant of where the TLBs are asked that foretells most of a sequence; the first of equals."""
    seen = route.places(trace.cycles)

    def right(variant: Inferred) -> float:
        return float(np.mean(variant.foretold(order).places == seen))

    return max(route.variants(), key=right)


def _answered(route: Inferred, orders: Sequence[Array]) -> Ask[list[Answered]]:
    """What every sequence gave, made twice."""
    made = yield from _made(route.path, orders, RUNS)
    parts = []
    for order, (once, again) in zip(orders, made, strict=True):
        counts = repeated(order, route.fetch)
        seen = [route.places(trace.cycles) for trace in (once, again)]
        parts.append(Answered(order, counts, route.foretold(order), seen, (once.workload, again.workload)))
    return parts


def _disagreeing(names: Sequence[str], parts: Sequence[Answered], path: Path) -> tuple[Series, ...]:
    """The accesses that were answered elsewhere than foretold in both runs, to look at; none where there are none."""
    places = [*names, "memory"]
    rows = [
        (sequence, int(at), int(part.offsets[at]), places[part.foretold.places[at]], places[part.seen[0][at]])
        for sequence, part in enumerate(parts, start=1)
        for at in np.flatnonzero(part.always)
    ][:NAMED]
    if not rows:
        return ()
    columns = zip(("sequence", "access", "offset", "foretold", "answered"), zip(*rows, strict=True), strict=True)
    evidence = tuple(digest for part in parts for digest in part.evidence)
    return (Series(names[0], f"not as foretold on path {path}, by access", dict(columns), {"offset": "B"}, evidence),)


def _made(path: Path, orders: Sequence[Array], runs: int) -> Ask[list[list[Trace]]]:
    """Each sequence so many times, from cold."""
    chases = [
        Chase(path=path, order=Explicit(order), timing=Timing.EACH, warmup=0, alone=True, flush=True, repetition=run)
        for order in orders
        for run in range(runs)
    ]
    traces = yield chases
    return [traces[i : i + runs] for i in range(0, len(traces), runs)]


EXPERIMENTS = tuple(
    Experiment(
        key=Key(f"hierarchy.{path}", (Whole, Unforetold)),
        element="hierarchy",
        plan=partial(hierarchy_plan, path, elements),
        revises=tuple(f"{element}.replacement_policy" for element in (*elements, "l2", *TLBS)),
        needs=(
            *([levels_on(path)] if elements else []),
            *(key for element in elements for key in cache_keys(element)),
            *BEHIND_L1,
        ),
    )
    for path, elements in {Path.GLOBAL_L2: (), **CACHES_ON_PATH}.items()
)
