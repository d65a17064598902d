"""Which experiments a survey runs on a device, and what it makes of what came of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from gpudissect.device.base import Device
from gpudissect.errors import UsageError
from gpudissect.estimate import Estimate
from gpudissect.measure.cache.plan_comparison import Reading
from gpudissect.measure.plan import Bench, Experiment
from gpudissect.measure.prediction.infer_disagreement import Unforetold, Whole
from gpudissect.measure.prediction.infer_prediction import Tally
from gpudissect.series import Series
from gpudissect.survey.conditions import Conditions, gather
from gpudissect.survey.drive import Drive, Failure, Progress
from gpudissect.survey.registry import COMPARISONS, EXPERIMENTS, FORETELLING, HIDING, HIDING_QUICK, MEASURED
from gpudissect.vocabulary import HIDING as HIDING_ELEMENTS


@dataclass(frozen=True)
class Survey:
    """What a survey gave: findings in the order of elements, failures, and whether it was interrupted.

    `comparisons` is what the older methods read, if asked for; `conditions` what was seen of clock and other users;
    `tallies` how well each cache, as inferred, foretold random accesses, `wholes` the same of all caches or TLBs of a
    path simulated as one, `unforetold` what cannot be simulated; `series` what was seen on the way.
    """

    findings: tuple[Estimate, ...]
    failures: tuple[Failure, ...]
    interrupted: bool
    seconds: float
    workloads: int
    comparisons: tuple[Reading, ...] = ()
    conditions: Conditions = field(default_factory=Conditions)
    tallies: tuple[Tally, ...] = ()
    wholes: tuple[Whole, ...] = ()
    unforetold: tuple[Unforetold, ...] = ()
    series: tuple[Series, ...] = ()


def run_survey(
    device: Device,
    *,
    elements: Sequence[str] | None = None,
    quick: bool = False,
    seed: int = 0,
    compare_methods: bool = False,
    progress: Progress | None = None,
) -> Survey:
    """Run every experiment that `elements` need (all when None) and gather their estimates.

    With `quick` what takes longest is left out: footprints beyond the L2, structure, throughput, instructions. With
    `compare_methods` the older methods read the same caches. `progress(done, total, what)` is called as experiments
    finish and start. A KeyboardInterrupt ends the survey with what was measured so far and `interrupted` set; an
    experiment that fails takes along only those that need it. Raises `UsageError` for an unknown element.
    """
    unknown = sorted(set(elements or ()) - set(MEASURED))
    if unknown:
        if set(unknown) <= set(HIDING_ELEMENTS):
            raise UsageError("latency hiding is measured, and a recording of it replayed, by 'gpudissect hide'")
        raise UsageError(f"no such element: {', '.join(unknown)}; there are {', '.join(MEASURED)}")
    registered = {**EXPERIMENTS, **(COMPARISONS if compare_methods else {})}
    wanted = [each for each in registered.values() if elements is None or each.element in elements]
    return run_experiments(device, wanted, registered, quick=quick, seed=seed, progress=progress)


def run_hiding(
    device: Device,
    *,
    elements: Sequence[str],
    quick: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Survey:
    """Run what is about latency hiding, of these elements of `vocabulary.HIDING`; see `run_survey`.

    With `quick` fewer mixes are run. Raises `UsageError` for an unknown element.
    """
    if unknown := sorted(set(elements) - set(HIDING_ELEMENTS)):
        raise UsageError(f"no such element: {', '.join(unknown)}; there are {', '.join(HIDING_ELEMENTS)}")
    registered = HIDING_QUICK if quick else HIDING
    wanted = [each for each in registered.values() if each.element in elements]
    return run_experiments(device, wanted, registered, seed=seed, progress=progress)


def run_experiments(
    device: Device,
    wanted: Sequence[Experiment],
    registered: Mapping[str, Experiment],
    *,
    quick: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Survey:
    """Run experiments and what they need of those `registered`; with `quick` none that takes long. See `run_survey`."""
    run = Drive(device, Bench(device.info, seed), _with_needs(wanted, registered), progress or (lambda *_: None))
    if quick:
        run.leave_out()
    start = time.perf_counter()
    interrupted = False
    try:
        run.until_done()
    except KeyboardInterrupt:
        interrupted = True
        with suppress(KeyboardInterrupt):
            run.conclude()
    findings = run.findings({each.element for each in wanted})
    readings = tuple(r for name in COMPARISONS if name in run.outcomes for r in run.outcomes[name].knowledge)
    seconds = time.perf_counter() - start
    shown = {each.element for each in wanted}
    series = tuple(each for outcome in run.outcomes.values() for each in outcome.series if each.element in shown)
    told = [outcome.knowledge for name, outcome in run.outcomes.items() if name.split(".")[0] in FORETELLING]
    return Survey(
        findings,
        tuple(run.failures),
        interrupted,
        seconds,
        run.workloads,
        readings,
        gather(run.contexts),
        tallies=tuple(each for each in told if isinstance(each, Tally)),
        wholes=tuple(each for each in told if isinstance(each, Whole)),
        unforetold=tuple(each for each in told if isinstance(each, Unforetold)),
        series=series,
    )


def _with_needs(wanted: Sequence[Experiment], registered: Mapping[str, Experiment]) -> dict[str, Experiment]:
    """The wanted experiments and all they need, needs first."""
    ordered: dict[str, Experiment] = {}

    def add(experiment: Experiment) -> None:
        for need in experiment.needs:
            add(registered[need])
        ordered.setdefault(experiment.name, experiment)

    for experiment in wanted:
        add(experiment)
    return ordered
