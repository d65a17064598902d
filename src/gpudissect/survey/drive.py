"""Run interdependent experiments on a device, with one batch of each in flight."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpudissect.device.queue import BatchQueue
from gpudissect.errors import GpudissectError, NotRecorded
from gpudissect.estimate import Estimate, Status
from gpudissect.interrupts import interruptible
from gpudissect.measure.plan import Bench, Experiment, Known, Outcome, Plan, StopEarly, without
from gpudissect.trace import Context, Trace
from gpudissect.vocabulary import sort_key
from gpudissect.workload import Workload

Progress = Callable[[int, int, str], None]

MAX_RUNNING = 16
"""Experiments of a whole survey in flight, at most, so that the GPU has work while the survey infers. Surveys of an
H200 with priorities took 16.6 s with 8, 14.8 and 15.0 s with 14; on another host 13.5 and 14.0 s with 16, 13.9 s with
24, 13.4 and 14.0 s with 40. A quick survey has no limit: before priorities 4.2 and 4.3 s, with 8 4.5 and 4.7 s."""
MAX_STOPS = 100  # of one experiment after an interrupt
SKIPPED_BY_QUICK = "left out by --quick"


@dataclass(frozen=True)
class Failure:
    """An experiment that did not finish, and why (one line)."""

    experiment: str
    reason: str


@dataclass(frozen=True)
class Statement:
    """What one experiment says of an attribute: an emitted estimate, or a revision of another experiment's."""

    experiment: str
    estimate: Estimate


def _describe(error: Exception) -> str:
    """One line of an error; an unexpected one is preceded by its class."""
    text = " ".join(str(error).split())
    return text if isinstance(error, GpudissectError) else f"{type(error).__name__}: {text}"


@dataclass(eq=False)
class _Running:
    """A started experiment and the batch it waits for."""

    experiment: Experiment
    plan: Plan
    batch: Sequence[Workload]


@dataclass
class Drive:
    """The state of some experiments on a device.

    Of those that can start, up to `MAX_RUNNING` at a time, the one that begins the longest chain of others goes first
    (list scheduling by critical path: Graham 1969). The device runs batches in the same order of priority. Scheduling
    depends on the traces, on the order of the answers, and on `can_simulate`: a recording, which answers in the order
    in which it was made and is made without the latter, replays exactly.

    Attributes:
        queue: the batch queue of the device.
        experiments: by name, each after all that it needs.
        progress: called with the number of ended experiments, their total, and the names of those that run.
        outcomes, failed: outcomes of those that ended, or why there is none.
        failures: experiments that failed themselves, not for want of another.
        running: experiments with a batch in flight, by its number, in the order of submission.
        check_limits: called before traces are awaited; what it raises ends the run.
        can_simulate: whether the cache simulator is not being compiled now.

    """

    queue: BatchQueue
    bench: Bench
    experiments: Mapping[str, Experiment]
    progress: Progress
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    running: dict[int, _Running] = field(default_factory=dict)
    workloads: int = 0
    contexts: list[Context] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)
    check_limits: Callable[[], None] = lambda: None
    can_simulate: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        self._held = False  # whether experiments wait until the cache simulator is compiled
        self._max_running = len(self.experiments) if self.bench.quick else MAX_RUNNING
        if self.bench.quick:
            for name, experiment in self.experiments.items():  # needs come first
                if not experiment.quick or any(need.name in self.skipped for need in experiment.needs):
                    self.skipped.add(name)
        self._ranks = _ranks({name: each for name, each in self.experiments.items() if name not in self.skipped})

    def run(self) -> None:
        """Start every experiment whose needs are known; collect a batch; repeat until none is left."""
        waiting = {name: each for name, each in self.experiments.items() if name not in self.skipped}
        ended_count = -1
        while waiting or self.running:
            with interruptible():  # for each batch: a compiler may lose the exception of a signal
                # An experiment may end at its start, without a batch. Those that need it can then start, too.
                while ended_count < len(self._ended()) or not self.running or (self._held and self.can_simulate()):
                    ended_count = len(self._ended())
                    for name in self._startable(waiting):
                        if len(self.running) == self._max_running:
                            break
                        self._start(waiting.pop(name))
                    if not (waiting or self.running):
                        return
                self._collect()

    def _startable(self, waiting: Mapping[str, Experiment]) -> list[str]:
        """Those whose needs are known, without those that must wait for others.

        Those that change the clock or come last wait until no other is left, and those that run the cache simulator,
        while that is being compiled, until no other can start and none runs.
        """
        ended = self._ended()
        known = [name for name, each in waiting.items() if all(need.name in ended for need in each.needs)]
        known.sort(key=lambda name: -self._ranks[name])
        others = [name for name in known if not (waiting[name].changes_clock or waiting[name].last)]
        first = [name for name in others if not waiting[name].simulates or self.can_simulate()]
        self._held = len(first) < len(others)
        return first if first or self.running else others or known

    def conclude(self) -> None:
        """After an interrupt: end the running experiments with the traces they have, then those that follow from it."""
        self.progress = lambda *_: None  # it may raise KeyboardInterrupt again
        for each in self.running.values():
            self._stop_early(each)
        for experiment in self.experiments.values():  # needs come first
            if not experiment.after_interrupt or experiment.name in self._ended():
                continue
            if all(need.name in self.outcomes for need in experiment.needs):
                each = _Running(experiment, experiment.plan(self.bench, self._known(experiment)), [])
                if self._advance(each, None):
                    self._stop_early(each)

    def statements(self, elements: set[str]) -> dict[tuple[str, str], tuple[Statement, ...]]:
        """All estimates of each attribute, the emitted one first, revisions after it; skipped if it did not finish."""
        statements: dict[tuple[str, str], tuple[Statement, ...]] = {}
        for name, experiment in self.experiments.items():  # needs come first
            if experiment.element not in elements:
                continue
            if name in self.outcomes:
                estimates = self.outcomes[name].estimates
            else:
                estimates = without(Status.SKIPPED, experiment.element, self._reason(name), *experiment.emits)
            for estimate in (each for each in estimates if each.element in elements):
                key = (estimate.element, estimate.attribute)
                statements[key] = (*statements.get(key, ()), Statement(name, estimate))
        return dict(sorted(statements.items(), key=lambda item: sort_key(*item[0])))

    def _stop_early(self, each: _Running) -> None:
        """Let an experiment end with the traces it has; most cannot, and count as not begun."""
        try:
            for _ in range(MAX_STOPS):  # one for each part that has what it needs
                each.plan.throw(StopEarly())
        except StopIteration as stop:
            self._end(each.experiment, stop.value)
        except StopEarly:
            return
        except Exception as error:  # its conclusion from some of the traces failed
            self._fail(each.experiment, _describe(error))

    def _ended(self) -> set[str]:
        return set(self.outcomes) | set(self.failed)

    def _known(self, experiment: Experiment) -> Known:
        return Known({need.name: self.outcomes[need.name].knowledge for need in experiment.needs})

    def _start(self, experiment: Experiment) -> None:
        lost = [need.name for need in experiment.needs if need.name in self.failed]
        if lost:
            self.failed[experiment.name] = f"it needs {lost[0]}, which failed: {self.failed[lost[0]]}"
            return
        each = _Running(experiment, experiment.plan(self.bench, self._known(experiment)), [])
        if self._advance(each, None):
            self._submit(each)

    def _submit(self, each: _Running) -> None:
        try:
            number = self.queue.submit(each.batch, self._ranks[each.experiment.name])
        except Exception as error:
            self._fail_or_conclude(each, _describe(error))
        else:
            self.running[number] = each

    def _collect(self) -> None:
        """Collect a batch, send its traces to its experiment, and submit the next batch of that experiment."""
        self.check_limits()
        self._report(", ".join(each.experiment.name for each in self.running.values()))
        number, answer = self.queue.collect()
        each = self.running[number]  # stays there until it has its traces: `conclude` finds it after an interrupt
        has_next_batch = False
        if isinstance(answer, NotRecorded):  # newer than the recording, or left out of it: no failure
            self._stop_early(each)
            if each.experiment.name not in self.outcomes:
                self.failed.setdefault(each.experiment.name, _describe(answer))
        elif isinstance(answer, Exception):
            self._fail_or_conclude(each, _describe(answer))
        else:
            self._count(answer)
            has_next_batch = self._advance(each, answer)
        del self.running[number]
        if has_next_batch:
            self._submit(each)

    def _count(self, traces: Sequence[Trace]) -> None:
        self.workloads += len(traces)
        contexts = [trace.context for trace in traces]
        if any(each.experiment.changes_clock for each in self.running.values()):
            contexts = [replace(context, clock_hz=None) for context in contexts]
        self.contexts += contexts

    def _advance(self, each: _Running, traces: list[Trace] | None) -> bool:
        """Send traces to an experiment (None starts it). Return whether it has another batch."""
        try:
            each.batch = next(each.plan) if traces is None else each.plan.send(traces)
        except StopIteration as stop:
            self._end(each.experiment, stop.value)
            self._report(each.experiment.name)
        except Exception as error:  # a failed experiment must not cost the findings of the others
            self._fail(each.experiment, _describe(error))
        else:
            return True
        return False

    def _end(self, experiment: Experiment, outcome: Outcome) -> None:
        """Take an outcome that keeps what the experiment declares: its estimates and the type of its knowledge."""
        declared = {*(f"{experiment.element}.{attribute}" for attribute in experiment.emits), *experiment.revises}
        names = [f"{each.element}.{each.attribute}" for each in outcome.estimates]
        undeclared = [name for name in names if name not in declared]
        if undeclared:
            self._fail(experiment, f"it gives {', '.join(undeclared)} but neither emits nor revises it")
        elif not isinstance(outcome.knowledge, experiment.key.types):
            types = " or ".join(each.__name__ for each in experiment.key.types)
            self._fail(experiment, f"its knowledge is a {type(outcome.knowledge).__name__}; its key declares {types}")
        else:
            self.outcomes[experiment.name] = outcome

    def _fail_or_conclude(self, each: _Running, reason: str) -> None:
        """End with the traces measured before, if they suffice; the failure is reported all the same."""
        self._stop_early(each)
        if each.experiment.name in self.outcomes:
            self.failures.append(Failure(each.experiment.name, reason))
        elif each.experiment.name not in self.failed:
            self._fail(each.experiment, reason)

    def _fail(self, experiment: Experiment, reason: str) -> None:
        self.failed[experiment.name] = reason
        self.failures.append(Failure(experiment.name, reason))

    def _report(self, names: str) -> None:
        self.progress(len(self._ended()), len(self.experiments) - len(self.skipped), names)

    def _reason(self, name: str) -> str:
        """Why an experiment has no outcome."""
        return SKIPPED_BY_QUICK if name in self.skipped else self.failed.get(name, "interrupted")


def _ranks(experiments: Mapping[str, Experiment]) -> dict[str, int]:
    """For each experiment, the length of the longest chain of those that need it, one after the other, itself first."""
    ranks = dict.fromkeys(experiments, 1)
    for name, experiment in reversed([*experiments.items()]):  # needs come first
        for need in experiment.needs:
            ranks[need.name] = max(ranks[need.name], ranks[name] + 1)
    return ranks
