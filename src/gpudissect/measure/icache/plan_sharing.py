"""Whether an instruction cache is shared with the constants' L1.5: does code that fills it evict constants?

JIA19 found that on Turing, by eye. Constants are read, code that just fills one level of the instruction caches runs,
and the constants are timed: if they come from farther away than before, the level is shared. Code that just fills the
level before it must not evict them already.
"""

from functools import partial
from types import NoneType

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.infer_level import Level, max_hit_cycles
from gpudissect.measure.cache.infer_sharing import MissShares, Sharing, classify_sharing
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.cache.plan_sharing import NOT_SHARED, miss_share, sharing_of
from gpudissect.measure.icache.plan_levels import CODE_LEVELS, ELEMENTS
from gpudissect.measure.infer_confidence import UNTRIED
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.workload import Bounds, Chase, Path, PriorAccesses, Sequential, Timing
from gpudissect.workload.chase import CODE_LINE
from gpudissect.workload.digest import digest

CONSTANT, ATTRIBUTE = "constant_l15", "shared_with"
CONSTANT_BYTES = 16 << 10  # many times their L1, small relative to an instruction cache
LAPS = 3  # of prior accesses: a random policy needs more than one to replace everything
MAX_CYCLES = 1 << 20  # of an access
METHOD = "eviction of constants by code that just fills the level"
NEARER = "code that fills the level before it evicts constants already"


def code_sharing_of(element: str) -> Key[Sharing | None]:
    """Whether an instruction cache is shared with the constants' L1.5; None without a verdict."""
    return Key(f"sharing.{element}", (Sharing, NoneType))


def code_sharing_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Whether `element` is shared with `CONSTANT`; knowledge: the verdict, None without one."""
    code, levels = known[CODE_LEVELS], known[levels_of(CONSTANT)]
    rise, level = code.rise(element), levels.level(CONSTANT)
    if code.absence is not None:
        return Outcome(without(code.absence.status, element, code.absence.reason, ATTRIBUTE))
    if rise is None:
        return Outcome(without(Status.NOT_FOUND, element, f"the level was not found: {code.levels.end}", ATTRIBUTE))
    if level is None or level.hit.largest < CONSTANT_BYTES:
        reason = levels.absent[CONSTANT].reason if level is None else "it serves too few constants"
        return Outcome(without(Status.NOT_FOUND, element, f"no {CONSTANT} to share with: {reason}", ATTRIBUTE))
    number = ELEMENTS.index(element)
    nearer = code.rise(ELEMENTS[number - 1]) if number else None
    constants = _constants(level, bench)
    chases = [_after(level, constants), _after(level, constants, _code(rise.fits))]
    chases += [_after(level, constants, _code(nearer.fits))] if nearer is not None else []
    alone, after, *before = (miss_share(trace) for trace in (yield chases))
    evidence = tuple(digest(chase) for chase in chases)
    estimate = partial(Estimate, element=element, attribute=ATTRIBUTE, method=METHOD, evidence=evidence)
    verdict = classify_sharing(MissShares(alone, after, None))
    by_nearer = classify_sharing(MissShares(alone, before[0], None)) if before else Sharing.NOTHING
    if verdict is Sharing.CAPACITY and by_nearer is not Sharing.NOTHING:
        return Outcome((estimate(status=Status.AMBIGUOUS, reason=NEARER),))
    if verdict is Sharing.UNCLEAR:
        reason = f"{alone:.0%} of the constants missed without code, {after:.0%} after it"
        return Outcome((estimate(status=Status.AMBIGUOUS, reason=reason),))
    value = CONSTANT if verdict is Sharing.CAPACITY else "nothing"
    caveats = (f"only {CONSTANT} was tested",)
    return Outcome((found(element, ATTRIBUTE, value, None, None, UNTRIED, METHOD, evidence, caveats),), verdict)


def constants_sharing_plan(bench: Bench, known: Known) -> Plan:
    """What `CONSTANT` is shared with, code included; an experiment of its own, for code may not run at all."""
    yield from ()
    verdicts = {name: known[code_sharing_of(name)] for name in ELEMENTS}
    tried = [name for name, verdict in verdicts.items() if verdict is not None]
    shared = [name for name in tried if verdicts[name] is Sharing.CAPACITY]
    data = known[sharing_of(CONSTANT)]
    status, evidence, caveats = (data.status, data.evidence, data.caveats) if data is not None else (None, (), ())
    if not tried or status is Status.AMBIGUOUS or (status is Status.FOUND and not shared):
        return Outcome()
    others = [str(data.value)] if data is not None and data.value not in (None, NOT_SHARED) else []
    caveats += tuple(f"shares capacity with {name}, not lines" for name in shared)
    if status is not Status.FOUND:
        caveats += (f"only {', '.join(tried)} could be tested",)
    value = ", ".join([*others, *shared]) or NOT_SHARED
    return Outcome((found(CONSTANT, ATTRIBUTE, value, None, None, UNTRIED, METHOD, evidence, caveats),))


def _constants(level: Level, bench: Bench) -> PriorAccesses:
    stride = level.fetch.fetch or min(stride for _, stride in level.hit.points)
    order = footprint(CONSTANT_BYTES, stride, bench.seed_for("beside code"))
    return PriorAccesses(path=Path.CONSTANT, order=order, laps=LAPS)


def _code(size: int) -> PriorAccesses:
    return PriorAccesses(path=Path.CODE, order=Sequential(size // CODE_LINE, CODE_LINE), laps=LAPS)


def _after(level: Level, *before: PriorAccesses) -> Chase:
    """A lap over the constants of the first of some prior accesses; alone, for SMs may share the level."""
    slower = max_hit_cycles(level.hit) + 1
    chase = partial(Chase, path=Path.CONSTANT, order=before[0].order, timing=Timing.COUNT, warmup=0, alone=True)
    return chase(bounds=Bounds(slower - 1, slower, MAX_CYCLES), before=before)


EXPERIMENTS = (
    *(
        Experiment(
            code_sharing_of(name), partial(code_sharing_plan, name), (ATTRIBUTE,), (CODE_LEVELS, levels_of(CONSTANT))
        )
        for name in ELEMENTS
    ),
    Experiment(
        Key("sharing.code"),
        constants_sharing_plan,
        element=CONSTANT,
        revises=(f"{CONSTANT}.{ATTRIBUTE}",),
        needs=(sharing_of(CONSTANT), *map(code_sharing_of, ELEMENTS)),
    ),
)
