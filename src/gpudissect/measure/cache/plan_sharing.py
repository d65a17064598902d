"""Which caches share an array, and how many copies of it an SM has (MT22 s4.5-4.6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_sharing import MissShares, Sharing, classify_sharing, count_copies
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import PRIVATE_CACHES, absent, level_of, levels_of
from gpudissect.measure.infer_confidence import EXACT
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Path, PriorAccesses, Sequential, Timing
from gpudissect.workload.chase import MAX_BLOCK_WARPS

ATTRIBUTES = ("shared_with", "count_per_sm")
LAPS = 3  # of prior accesses: a random policy needs more than one to replace every line
WORD_OFFSET = 16  # bytes from the start of a line to a word of its first granule for a link of another path
NOT_SHARED = "nothing"
NEEDS: tuple[Key[Any], ...] = (*dict.fromkeys(map(levels_of, PRIVATE_CACHES)), *map(capacity_of, PRIVATE_CACHES))
SHARING_METHOD = "eviction by another path's accesses, and hits on the lines it fetched"
COUNT_METHOD = "which warps evict each other's lines"


@dataclass(frozen=True)
class _FullCache:
    """A cache and a chain that just fills it."""

    level: Level
    chain: Sequential

    def chain_at(self, start: int) -> Sequential:
        """As many accesses from byte `start` on."""
        return Sequential(self.chain.count, self.chain.stride, start=start)

    def prior(self, order: Sequential, warp: int = 0) -> PriorAccesses:
        return PriorAccesses(path=self.level.path, order=order, laps=LAPS, warp=warp)

    def timed_after(self, *prior: PriorAccesses) -> Chase:
        """The chain, timed right after these accesses."""
        path, bounds = self.level.path, self.level.bounds
        return Chase(path=path, order=self.chain, timing=Timing.COUNT, bounds=bounds, warmup=0, before=prior)

    def fits_behind(self, other: _FullCache, bench: Bench) -> bool:
        """Whether the path is long enough for this chain behind that of the other cache."""
        return max(self.chain.span, other.chain.span) + self.chain.span <= bench.info.limit(self.level.path)


def sharing_of(element: str) -> Key[Estimate | None]:
    """The cache that a cache shares its array with; None where no other could be tested."""
    return Key(f"sharing.{element}", (Estimate, NoneType))


def sharing_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Which private caches share an array with `element`, and its copies per SM.

    Levels of one path are behind one another and are not tested. Knowledge: the estimate of `shared_with`; None where
    nothing could be tested.
    """
    cache = _full_cache(element, known)
    if cache is None:
        if level_of(element, known) is None:
            return absent(element, known, *ATTRIBUTES)
        return Outcome(without(Status.NOT_FOUND, element, "the footprint that just fills it is unknown", *ATTRIBUTES))
    others = {
        name: other
        for name in PRIVATE_CACHES
        if (other := _full_cache(name, known)) is not None
        and other.level.path is not cache.level.path
        and other.fits_behind(cache, bench)
    }
    chases = [cache.timed_after(cache.prior(cache.chain))]
    tests = [_pair_chases(cache, other) for other in others.values()]
    chases += [chase for test in tests for chase in test]
    if cache.fits_behind(cache, bench):
        elsewhere = cache.chain_at(cache.chain.span)
        chases += [
            cache.timed_after(cache.prior(cache.chain), cache.prior(elsewhere, warp)) for warp in range(MAX_BLOCK_WARPS)
        ]
    traces = yield chases
    undisturbed, *shares = map(miss_share, traces)
    rest = iter(shares)
    verdicts = {
        name: classify_sharing(MissShares(undisturbed, next(rest), next(rest) if len(test) > 1 else None))
        for name, test in zip(others, tests, strict=True)
    }
    evidence = tuple(trace.workload for trace in traces)
    sharing = _sharing_estimate(element, verdicts, evidence)
    return Outcome((sharing, _count_estimate(element, list(rest), undisturbed, evidence)), sharing)


def _full_cache(element: str, known: Known) -> _FullCache | None:
    level, capacity = level_of(element, known), known[capacity_of(element)]
    if level is None or capacity is None or level.bounds is None or level.fetch.fetch is None:
        return None
    return _FullCache(level, Sequential(capacity // level.fetch.fetch, level.fetch.fetch))


def _pair_chases(cache: _FullCache, other: _FullCache) -> list[Chase]:
    """The chain of a cache after accesses of the other to other lines; after accesses of the other to the same lines.

    Constant memory is separate: it holds no line of another path, so the second is left out.
    """
    elsewhere = other.chain_at(max(cache.chain.span, other.chain.span))
    chases = [cache.timed_after(cache.prior(cache.chain), other.prior(elsewhere))]
    if Path.CONSTANT not in (cache.level.path, other.level.path):
        chases.append(cache.timed_after(other.prior(cache.chain_at(WORD_OFFSET))))
    return chases


def miss_share(trace: Trace) -> float:
    """Share of accesses that did not hit: lines fetched by no access come from memory, slower than any miss here."""
    return 1 - float(trace.counts[:, 0].sum() / trace.counts.sum())


def _sharing_estimate(element: str, verdicts: dict[str, Sharing], evidence: tuple[str, ...]) -> Estimate:
    estimate = partial(Estimate, element=element, attribute="shared_with", method=SHARING_METHOD, evidence=evidence)
    if not verdicts:
        return estimate(status=Status.NOT_FOUND, reason="no other cache could be tested")

    def named(*kinds: Sharing) -> str:
        return ", ".join(name for name, verdict in verdicts.items() if verdict in kinds)

    if unclear := named(Sharing.UNCLEAR):
        reason = f"evicted in part, or hits on lines of an array not shared: {unclear}"
        return estimate(status=Status.AMBIGUOUS, reason=reason)
    capacity_only = named(Sharing.CAPACITY)
    caveats = (f"shares capacity, not lines: no hits on lines fetched by {capacity_only}",) if capacity_only else ()
    value = named(Sharing.LINES, Sharing.CAPACITY) or NOT_SHARED
    return estimate(status=Status.FOUND, value=value, confidence=EXACT, caveats=caveats)


def _count_estimate(
    element: str, miss_share_by_warp: list[float], undisturbed: float, evidence: tuple[str, ...]
) -> Estimate:
    estimate = partial(Estimate, element=element, attribute="count_per_sm", method=COUNT_METHOD, evidence=evidence)
    if not miss_share_by_warp:
        return estimate(status=Status.NOT_FOUND, reason="the path is too short for two chains")
    count = count_copies(miss_share_by_warp, undisturbed)
    if count is None:
        reason = "the warps that evict each other's lines are not evenly spaced"
        return estimate(status=Status.AMBIGUOUS, reason=reason)
    return estimate(status=Status.FOUND, value=count, low=count, high=count, confidence=EXACT)


EXPERIMENTS = tuple(
    Experiment(sharing_of(name), partial(sharing_plan, name), ATTRIBUTES, NEEDS) for name in PRIVATE_CACHES
)
