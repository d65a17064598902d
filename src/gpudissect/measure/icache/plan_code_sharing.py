"""Whether an instruction cache shares its room with the constants' L1.5: does code that fills it evict constants?

JIA19 found that on Turing and drew the conclusion by eye. Constants are walked, code that just fills one level of the
instruction caches is run, and the constants are timed: served from farther away than before, they shared that level's
room. Code that just fills the level before it must not do that already.
"""

from __future__ import annotations

from functools import partial
from types import NoneType

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.infer_level import Level, slower_than
from gpudissect.measure.cache.infer_sharing import Laps, Shared, shares
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.cache.plan_sharing import NOBODY, sharing_of
from gpudissect.measure.icache.plan_icache import CODE_LEVELS, ELEMENTS
from gpudissect.measure.infer_confidence import UNTRIED
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.trace import Trace
from gpudissect.workload import Bounds, Chase, Path, PriorAccesses, Sequential, Timing
from gpudissect.workload.chase import CODE_LINE
from gpudissect.workload.digest import digest

CONSTANT = "constant_l15"
SIZE = 16 << 10  # bytes of constants: many times their L1, few beside an instruction cache
LAPS = 3  # of a turn: a random policy needs more than one to replace everything
SLOWEST = 1 << 20  # cycles; whatever is slower was no access
METHOD = "eviction of constants by code that just fills the level"
NEARER = "code that fills the level before it evicts constants already"


def code_sharing_of(element: str) -> Key[Shared | None]:
    """Whether an instruction cache shares its room with the constants' L1.5; None without a verdict."""
    return Key(f"sharing.{element}", (Shared, NoneType))


def code_sharing_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Whether `element` shares its room with `CONSTANT`; its knowledge is the verdict, None without one."""
    code = known[CODE_LEVELS]
    levels = known[levels_of(CONSTANT)]
    rise, level = code.behind(element), levels.level(CONSTANT)
    if code.absence is not None:
        return Outcome(without(code.absence.status, element, code.absence.reason, "shared_with"))
    if rise is None:
        return Outcome(without(Status.NOT_FOUND, element, f"the level was not found: {code.stairs.end}", "shared_with"))
    if level is None or level.hit.largest < SIZE:
        reason = levels.absent[CONSTANT].reason if level is None else "too few constants are served by it"
        return Outcome(without(Status.NOT_FOUND, element, f"no {CONSTANT} to share with: {reason}", "shared_with"))
    number = ELEMENTS.index(element)
    nearer = code.behind(ELEMENTS[number - 1]) if number else None
    mine, beside = _constants(level, bench), _turn(rise.fits)
    chases = [_after(level, mine), _after(level, mine, beside)]
    chases += [_after(level, mine, _turn(nearer.fits))] if nearer is not None else []
    alone, after, *before = (_missed(trace) for trace in (yield chases))
    evidence = tuple(digest(chase) for chase in chases)
    verdict = shares(Laps(alone, after, None))
    if verdict is Shared.ROOM and before and shares(Laps(alone, before[0], None)) is not Shared.NOTHING:
        return Outcome((_unclear(element, NEARER, evidence),))
    if verdict is Shared.UNCLEAR:
        reason = f"{alone:.0%} of the constants were missing without, {after:.0%} with code in between"
        return Outcome((_unclear(element, reason, evidence),))
    value = CONSTANT if verdict is Shared.ROOM else "nothing"
    found = Estimate(element=element, attribute="shared_with", status=Status.FOUND, value=value, confidence=UNTRIED,
                     method=METHOD, evidence=evidence,
                     caveats=(f"only {CONSTANT} was tried",))  # fmt: skip
    return Outcome((found,), verdict)


def constants_sharing_plan(bench: Bench, known: Known) -> Plan:
    """What `CONSTANT` shares its room with, code included; an experiment of its own, for code may not run at all."""
    yield from ()  # what was measured is enough
    verdicts = {name: known[code_sharing_of(name)] for name in ELEMENTS}
    tried = [name for name, verdict in verdicts.items() if verdict is not None]
    rooms = [name for name in tried if verdicts[name] is Shared.ROOM]
    data = known[sharing_of(CONSTANT)]
    with_data = data is not None and data.status is Status.FOUND
    if not tried or (data is not None and data.status is Status.AMBIGUOUS) or (with_data and not rooms):
        return Outcome()
    others = [str(data.value)] if data is not None and with_data and data.value != NOBODY else []
    caveats = (*(data.caveats if data is not None else ()), *(f"the room of {name}, not the lines" for name in rooms))
    return Outcome((Estimate(
        element=CONSTANT, attribute="shared_with", status=Status.FOUND, value=", ".join([*others, *rooms]) or NOBODY,
        confidence=UNTRIED, method=METHOD, evidence=data.evidence if data is not None else (),
        caveats=caveats if with_data else (*caveats, f"only {', '.join(tried)} could be tried"),
    ),))  # fmt: skip


def _constants(level: Level, bench: Bench) -> PriorAccesses:
    stride = level.fetch.fetch or min(stride for _, stride in level.hit.points)
    return PriorAccesses(path=Path.CONSTANT, order=footprint(SIZE, stride, bench.seed_for("beside code")), laps=LAPS)


def _turn(size: int) -> PriorAccesses:
    return PriorAccesses(path=Path.CODE, order=Sequential(size // CODE_LINE, CODE_LINE), laps=LAPS)


def _after(level: Level, mine: PriorAccesses, *others: PriorAccesses) -> Chase:
    """A lap over the constants after their own laps and those of others. Alone: SMs may share what is in question."""
    slower = slower_than(level.hit)
    return Chase(path=Path.CONSTANT, order=mine.order, timing=Timing.COUNT, bounds=Bounds(slower - 1, slower, SLOWEST),
                 warmup=0, before=(mine, *others), alone=True)  # fmt: skip


def _missed(trace: Trace) -> float:
    return 1 - float(trace.counts[:, 0].sum() / trace.counts.sum())


def _unclear(element: str, reason: str, evidence: tuple[str, ...]) -> Estimate:
    return Estimate(element=element, attribute="shared_with", status=Status.AMBIGUOUS, reason=reason, method=METHOD,
                    evidence=evidence)  # fmt: skip


EXPERIMENTS = (
    *(
        Experiment(
            key=code_sharing_of(element),
            element=element,
            plan=partial(code_sharing_plan, element),
            emits=("shared_with",),
            needs=(CODE_LEVELS, levels_of(CONSTANT)),
        )
        for element in ELEMENTS
    ),
    Experiment(
        key=Key("sharing.code"),
        element=CONSTANT,
        plan=constants_sharing_plan,
        revises=(f"{CONSTANT}.shared_with",),
        needs=(sharing_of(CONSTANT), *map(code_sharing_of, ELEMENTS)),
    ),
)
