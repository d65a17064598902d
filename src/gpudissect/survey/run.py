"""A survey: it selects the experiments, runs them, and collects the conditions and the findings."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TypeVar

from gpudissect.device.base import Device
from gpudissect.errors import UsageError
from gpudissect.estimate import Estimate, Series
from gpudissect.measure.cache.plan_comparison import Reading
from gpudissect.measure.infer_doubts import Agreement, ambiguities, contradictions, disturbances, path_agreements
from gpudissect.measure.plan import Bench, Experiment, Study
from gpudissect.measure.prediction.infer_agreement import CacheCounts, NotPredicted, PathCounts
from gpudissect.survey.drive import Drive, Failure, Progress, Statement
from gpudissect.survey.profiles import PROFILES, LimitReached
from gpudissect.survey.registry import experiments, measured_elements
from gpudissect.trace import OTHER_PROCESSES, Context
from gpudissect.vocabulary import ELEMENTS, HIDING

T = TypeVar("T")
DOUBTS = "doubts"  # name under which a lowered confidence is recorded
MAX_TEXTS_PER_NOTE = 4
OUTLIER_SHARE = 0.005  # short runs misread the clock


@dataclass(frozen=True)
class Conditions:
    """Clock rates and notes of a survey.

    Attributes:
        clock_hz: median SM clock rate over the workloads that report it; None if none does.
        clock_low, clock_high: range of the rates in Hz, without the lowest and the highest `OUTLIER_SHARE` of them.
        notes: every different text under each name: throttle reasons, other users of the GPU, driver.

    """

    clock_hz: float | None = None
    clock_low: float | None = None
    clock_high: float | None = None
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)


def gather(contexts: Iterable[Context]) -> Conditions:
    """Summarize the contexts of many traces."""
    clocks: list[float] = []
    texts_of: dict[str, dict[str, None]] = {}
    for context in contexts:
        if context.clock_hz is not None:
            clocks.append(context.clock_hz)
        for name, text in context.notes.items():
            texts_of.setdefault(name, {})[text] = None
    notes = {name: _shorten(list(texts)) for name, texts in texts_of.items()}
    if not clocks:
        return Conditions(notes=notes)
    clocks.sort()
    outliers = int(OUTLIER_SHARE * len(clocks))
    return Conditions(median(clocks), clocks[outliers], clocks[-1 - outliers], notes)


def _shorten(texts: list[str]) -> tuple[str, ...]:
    more = len(texts) - MAX_TEXTS_PER_NOTE
    return (*texts[:MAX_TEXTS_PER_NOTE], f"and {more} more") if more > 0 else tuple(texts)


@dataclass(frozen=True)
class Survey:
    """What a survey found.

    Attributes:
        statements: what the experiments say of each element and attribute, in the order of findings; the emitted
            estimate first, revisions by other experiments after it.
        failures: experiments that failed.
        interrupted: whether the survey was interrupted.
        seconds, workloads: duration, and number of workloads run.
        comparisons: readings of older methods, if requested.
        conditions: clock rates and other users of the GPU.
        predictions: how well each inferred cache predicted random accesses.
        path_predictions: the same of all caches and TLBs of a path simulated as one.
        not_predicted: caches and paths that cannot be simulated.
        series: measurements to be plotted.

    """

    statements: Mapping[tuple[str, str], tuple[Statement, ...]]
    failures: tuple[Failure, ...]
    interrupted: bool
    seconds: float
    workloads: int
    comparisons: tuple[Reading, ...] = ()
    conditions: Conditions = field(default_factory=Conditions)
    predictions: tuple[CacheCounts, ...] = ()
    path_predictions: tuple[PathCounts, ...] = ()
    not_predicted: tuple[NotPredicted, ...] = ()
    series: tuple[Series, ...] = ()

    @property
    def findings(self) -> tuple[Estimate, ...]:
        """The last statement about each attribute."""
        return tuple(statements[-1].estimate for statements in self.statements.values())


def run_survey(
    device: Device,
    study: Study = Study.DISCOVER,
    *,
    elements: Collection[str] | None = None,
    methods: Collection[str] = (),
    quick: bool = False,
    seed: int = 0,
    precision: float | None = None,
    progress: Progress | None = None,
    profile: str | None = None,
    can_simulate: Callable[[], bool] = lambda: True,
) -> Survey:
    """Run every experiment of a study that `elements` need (all when None); with `methods`, only these older methods.

    With a `profile` of `PROFILES` only its experiments run, within its limits. While `can_simulate` is false,
    experiments that run the cache simulator wait for others.
    With `quick` the experiments that take longest are left out, and those that need them. `precision` is the requested
    width of brackets in percent, see `measure.sampling`. `progress(done, total, names)` is
    called as experiments start and end. A KeyboardInterrupt ends the survey with what was measured; a failed experiment
    fails only those that need it. Raises `UsageError` for an unknown element.
    """
    registered = experiments(study)
    known = HIDING if study is Study.HIDE else measured_elements()
    if unknown := sorted(set(elements or ()) - set(known)):
        if study is not Study.HIDE and set(unknown) <= set(HIDING):
            raise UsageError("latency hiding is measured, and a recording of it replayed, by 'gpudissect hide'")
        raise UsageError(f"no such element: {', '.join(unknown)}; valid: {', '.join(known)}")
    requested = [
        each
        for each in registered.values()
        if (elements is None or each.element in elements) and (not methods or each.name.partition(".")[0] in methods)
    ]
    if profile is not None:
        requested = [registered[name] for name in PROFILES[profile].experiments]
    return run_experiments(
        device,
        requested,
        registered,
        quick=quick,
        seed=seed,
        precision=precision,
        progress=progress,
        profile=profile,
        can_simulate=can_simulate,
    )


def run_experiments(
    device: Device,
    requested: Sequence[Experiment],
    registered: Mapping[str, Experiment],
    *,
    quick: bool = False,
    seed: int = 0,
    precision: float | None = None,
    progress: Progress | None = None,
    profile: str | None = None,
    can_simulate: Callable[[], bool] = lambda: True,
) -> Survey:
    """Run experiments and those of `registered` that they need; see `run_survey`."""
    bench = Bench(device.info, seed, quick, precision)
    drive = Drive(device.queue(), bench, _with_needs(requested, registered), progress or (lambda *_: None))
    drive.can_simulate = can_simulate
    start = time.perf_counter()
    if profile is not None:
        limits = PROFILES[profile]
        drive.check_limits = lambda: limits.check(time.perf_counter() - start, drive.contexts)
    interrupted = False
    try:
        drive.run()
    except KeyboardInterrupt:
        interrupted = True
        drive.conclude()
    except LimitReached as reached:
        drive.conclude()
        drive.failures.append(Failure(str(profile), str(reached)))
        drive.failed = dict.fromkeys(drive.experiments.keys() - drive.outcomes.keys(), str(reached)) | drive.failed
    elements = {each.element for each in requested}
    outcomes = {name: drive.outcomes[name] for name in drive.experiments if name in drive.outcomes}
    knowledge = [outcome.knowledge for outcome in outcomes.values()]
    caches, paths = _instances(knowledge, CacheCounts), _instances(knowledge, PathCounts)
    conditions = gather(drive.contexts)
    stated_l2 = device.info.facts.get("l2_size")
    statements = _with_doubts(drive.statements(set(ELEMENTS)), caches, paths, stated_l2, conditions.notes)
    compared = [name for name, each in registered.items() if name in outcomes and each.study is Study.COMPARE_METHODS]
    return Survey(
        {name: each for name, each in statements.items() if name[0] in elements},
        tuple(drive.failures),
        interrupted,
        time.perf_counter() - start,
        drive.workloads,
        tuple(reading for name in compared for reading in outcomes[name].knowledge),
        conditions,
        predictions=caches,
        path_predictions=paths,
        not_predicted=_instances(knowledge, NotPredicted),
        series=tuple(each for outcome in outcomes.values() for each in outcome.series if each.element in elements),
    )


def _instances(knowledge: Iterable[object], kind: type[T]) -> tuple[T, ...]:
    return tuple(each for each in knowledge if isinstance(each, kind))


Statements = Mapping[tuple[str, str], tuple[Statement, ...]]


def _with_doubts(
    statements: Statements,
    caches: Iterable[CacheCounts],
    paths: Iterable[PathCounts],
    stated_l2: object,
    notes: Collection[str],
) -> Statements:
    """The statements, and one with less confidence for each finding that is in doubt."""
    agreements = [Agreement(each.name, each.agreement, each.possible) for each in caches]
    for path in paths:
        agreements += path_agreements(path.wrong, path.misread, path.accesses, path.possible)
    last = {name: each[-1].estimate for name, each in statements.items()}
    doubted = dict(statements)
    numbers = {name: (each.value, each.low, each.high) for name, each in last.items()}
    doubts = disturbances(last) if OTHER_PROCESSES in notes else ()
    for doubt in (*doubts, *contradictions(numbers, agreements, stated_l2), *ambiguities(last)):
        for name, estimate in last.items():
            if estimate.confidence is not None and ".".join(name) in doubt.about:
                confidence, caveats = min(estimate.confidence, doubt.confidence), (*estimate.caveats, doubt.what)
                last[name] = replace(estimate, confidence=confidence, caveats=caveats)
    for name, estimate in last.items():
        if estimate is not statements[name][-1].estimate:
            doubted[name] = (*statements[name], Statement(DOUBTS, estimate))
    return doubted


def _with_needs(requested: Sequence[Experiment], registered: Mapping[str, Experiment]) -> dict[str, Experiment]:
    """The requested experiments and all that they need, needs first."""
    ordered: dict[str, Experiment] = {}

    def add(experiment: Experiment) -> None:
        for need in experiment.needs:
            add(registered[need.name])
        ordered.setdefault(experiment.name, experiment)

    for experiment in requested:
        add(experiment)
    return ordered
