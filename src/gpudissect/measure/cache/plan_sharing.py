"""Which spaces share an array with a cache, and how many copies of it an SM has (MT22 s4.5-4.6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import NoneType

from gpudissect.estimate import Estimate, Status, Value
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_sharing import Laps, Shared, copies, shares
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import CACHES_ON_PATH, levels_of
from gpudissect.measure.infer_confidence import EXACT
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Path, PriorAccesses, Sequential, Timing
from gpudissect.workload.chase import MAX_BLOCK_WARPS
from gpudissect.workload.digest import digest

ATTRIBUTES = ("shared_with", "count_per_sm")
LAPS = 3  # of a turn: a random policy needs more than one to replace everything
BESIDE = 16  # bytes from a line's start to a word of its first granule that another path's link may have
NOBODY = "nothing"
NOBODY_TRIED = "no other cache could be tried"
TOO_SHORT = "the path is too short for two rings"
SHARING_METHOD = "eviction by another path's laps, and hits on the lines it fetched"
COUNT_METHOD = "which warps evict each other's lines"


@dataclass(frozen=True)
class _Space:
    """A cache, and a ring that just fills it."""

    level: Level
    ring: Sequential

    def elsewhere(self, beyond: int) -> Sequential:
        """As many visits, behind the first `beyond` bytes."""
        return Sequential(self.ring.count, self.ring.stride, start=beyond)

    def turn(self, order: Sequential, warp: int = 0) -> PriorAccesses:
        return PriorAccesses(path=self.level.path, order=order, laps=LAPS, warp=warp)

    def after(self, *turns: PriorAccesses) -> Chase:
        """The ring, timed right after these turns."""
        return Chase(path=self.level.path, order=self.ring, timing=Timing.COUNT, bounds=self.level.bounds, warmup=0,
                     before=turns)  # fmt: skip


PRIVATE = tuple(cache for caches in CACHES_ON_PATH.values() for cache in caches)
"""Caches private to an SM."""


def sharing_of(element: str) -> Key[Estimate | None]:
    """What a cache shares its array with; None where nothing could be tried."""
    return Key(f"sharing.{element}", (Estimate, NoneType))


def sharing_plan(element: str, bench: Bench, known: Known) -> Plan:
    """With which of the other caches private to an SM `element` shares its array, and its copies an SM.

    Levels of one path stand behind one another and are not tried against each other. Knowledge: what it is shared with,
    as found; None where nothing could be tried.
    """
    spaces = {name: _space(name, known) for name in PRIVATE}
    own = spaces.pop(element)
    if own is None:
        absence = known[levels_of(element)].absent.get(element)
        if absence is not None:
            return Outcome(without(absence.status, element, absence.reason, *ATTRIBUTES))
        return Outcome(without(Status.NOT_FOUND, element, "no footprint is known that just fills it", *ATTRIBUTES))
    others = {
        name: space
        for name, space in spaces.items()
        if space is not None and space.level.path is not own.level.path and _reaches(space, own, bench)
    }
    pairs = [_Pair(own, other) for other in others.values()]
    asking = [chase for pair in pairs for chase in pair.chases]
    mine, away = own.turn(own.ring), own.elsewhere(own.ring.span)
    warps = (
        [own.after(mine, own.turn(away, warp)) for warp in range(MAX_BLOCK_WARPS)] if _reaches(own, own, bench) else []
    )
    chases = [own.after(mine), *asking, *warps]
    alone, *missed = (_missed(trace) for trace in (yield chases))
    told = iter(missed)
    verdicts = {
        name: shares(Laps(alone, next(told), next(told) if pair.reaches else None))
        for name, pair in zip(others, pairs, strict=True)
    }
    evidence = tuple(digest(chase) for chase in chases)
    sharing = _sharing(element, verdicts, evidence)
    return Outcome((sharing, _count(element, list(told), evidence)), sharing)


def _reaches(other: _Space, own: _Space, bench: Bench) -> bool:
    """Whether the path is long enough for a ring of the other space behind one's own."""
    return max(own.ring.span, other.ring.span) + other.ring.span <= bench.info.limit(other.level.path)


def _space(element: str, known: Known) -> _Space | None:
    level, capacity = known[levels_of(element)].level(element), known[capacity_of(element)]
    if level is None or capacity is None or level.bounds is None or level.fetch.fetch is None:
        return None
    return _Space(level, Sequential(capacity // level.fetch.fetch, level.fetch.fetch))


class _Pair:
    """One's own ring after laps of the other path elsewhere, and after laps of it over one's own lines."""

    def __init__(self, own: _Space, other: _Space) -> None:
        # Constant memory is other memory: there nothing of one's own can be reached.
        self.reaches = Path.CONSTANT not in (own.level.path, other.level.path)
        elsewhere = other.elsewhere(max(own.ring.span, other.ring.span))
        self.chases = [own.after(own.turn(own.ring), other.turn(elsewhere))]
        if self.reaches:
            lines = Sequential(own.ring.count, own.ring.stride, start=BESIDE)
            self.chases.append(own.after(other.turn(lines)))


def _missed(trace: Trace) -> float:
    """Share of accesses that did not hit: lines that nobody fetched come from memory, slower than any miss here."""
    return 1 - float(trace.counts[:, 0].sum() / trace.counts.sum())


def _sharing(element: str, verdicts: dict[str, Shared], evidence: tuple[str, ...]) -> Estimate:
    unclear = [name for name, verdict in verdicts.items() if verdict is Shared.UNCLEAR]
    with_it = [name for name, verdict in verdicts.items() if verdict in (Shared.LINES, Shared.ROOM)]
    apart = [name for name, verdict in verdicts.items() if verdict is Shared.ROOM]
    if unclear or not verdicts:
        reason = f"evicted in part, or hits on lines of an array not shared: {', '.join(unclear)}"
        status = Status.AMBIGUOUS if verdicts else Status.NOT_FOUND
        return Estimate(element=element, attribute="shared_with", status=status,
                        reason=reason if verdicts else NOBODY_TRIED, method=SHARING_METHOD,
                        evidence=evidence)  # fmt: skip
    value: Value = ", ".join(with_it) or NOBODY
    caveats = (f"the room, not the lines: no hits on what {', '.join(apart)} fetched",) if apart else ()
    return Estimate(element=element, attribute="shared_with", status=Status.FOUND, value=value, confidence=EXACT,
                    method=SHARING_METHOD, evidence=evidence,
                    caveats=caveats)  # fmt: skip


def _count(element: str, missed: list[float], evidence: tuple[str, ...]) -> Estimate:
    count = copies(missed)
    if count is None:
        reason = "the warps that evict each other's lines do not come at equal distances"
        status = Status.AMBIGUOUS if missed else Status.NOT_FOUND
        return Estimate(element=element, attribute="count_per_sm", status=status, method=COUNT_METHOD,
                        reason=reason if missed else TOO_SHORT, evidence=evidence)  # fmt: skip
    return Estimate(element=element, attribute="count_per_sm", status=Status.FOUND, value=count, low=count, high=count,
                    confidence=EXACT, method=COUNT_METHOD, evidence=evidence)  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=sharing_of(element),
        element=element,
        plan=partial(sharing_plan, element),
        emits=ATTRIBUTES,
        needs=(*dict.fromkeys(map(levels_of, PRIVATE)), *map(capacity_of, PRIVATE)),
    )
    for element in PRIVATE
)
