"""Drive experiments that need one another on a device, their batches merged into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpudissect.device.base import Device
from gpudissect.errors import GpudissectError
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Bench, Enough, Experiment, Outcome, Plan, without
from gpudissect.trace import Context, Trace
from gpudissect.vocabulary import sort_key
from gpudissect.workload import Workload

Progress = Callable[[int, int, str], None]

LEFT_OUT = "left out by --quick"


@dataclass(frozen=True)
class Failure:
    """An experiment that did not finish, and why (one line)."""

    experiment: str
    reason: str


def _said(error: Exception) -> str:
    """One line of an error; of one that nobody raised on purpose, with its kind."""
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

    Attributes:
        experiments: by name, each after all that it needs.
        progress: called with how many ended, how many there are, and what runs or ended.
        outcomes, failed: what came of those that ended, or why nothing did.
        failures: those that stumbled themselves.

    """

    device: Device
    bench: Bench
    experiments: Mapping[str, Experiment]
    progress: Progress
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    running: list[_Running] = field(default_factory=list)
    under_way: list[_Running] = field(default_factory=list)
    workloads: int = 0
    contexts: list[Context] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)

    def leave_out(self) -> None:
        """Pass over the experiments that do not belong to a quick survey, and those that need them."""
        for name, experiment in self.experiments.items():  # needs come first
            if not experiment.quick or any(need in self.left_out for need in experiment.needs):
                self.left_out.add(name)

    def until_done(self) -> None:
        """Start what can start, run what all of them ask for at once, hand out the traces, and again."""
        waiting = {name: each for name, each in self.experiments.items() if name not in self.left_out}
        while waiting or self.running:
            for name in [n for n, each in waiting.items() if all(need in self._ended() for need in each.needs)]:
                self._start(waiting.pop(name))
            if self.running:
                self._round()

    def conclude(self) -> None:
        """Broken off: take from those under way what they make of the traces they had, and what follows from that."""
        for each in dict.fromkeys((*self.under_way, *self.running)):
            self._enough(each)
        for experiment in self.experiments.values():  # needs come first
            if experiment.afterwards and experiment.name not in self._ended():
                known = {need: self.outcomes[need].knowledge for need in experiment.needs if need in self.outcomes}
                if len(known) == len(experiment.needs):
                    each = _Running(experiment, experiment.plan(self.bench, known), [])
                    self._advance(each, None)
                    self._enough(each)

    def _enough(self, each: _Running) -> None:
        """Let an experiment end with what it has; most cannot do without the rest, and are as if they had not begun."""
        try:
            each.plan.throw(Enough())
        except StopIteration as stop:
            self.outcomes[each.experiment.name] = stop.value
        except Enough:
            return
        except Exception as error:  # it could, and stumbled
            self._fail(each.experiment, _said(error))

    @property
    def _total(self) -> int:
        return len(self.experiments) - len(self.left_out)

    def _ended(self) -> set[str]:
        return set(self.outcomes) | set(self.failed)

    def _start(self, experiment: Experiment) -> None:
        lost = [need for need in experiment.needs if need in self.failed]
        if lost:
            self._fail(experiment, f"it needs {lost[0]}, which failed: {self.failed[lost[0]]}", consequence=True)
            return
        known: dict[str, Any] = {need: self.outcomes[need].knowledge for need in experiment.needs}
        plan = experiment.plan(self.bench, known)
        self._advance(_Running(experiment, plan, []), None)

    def _round(self) -> None:
        """One batch for all that run. If the device refuses it, each is tried alone: one must not sink the rest."""
        running, self.running = self.running, []
        self.under_way = running
        self.progress(len(self._ended()), self._total, ", ".join(r.experiment.name for r in running))
        try:
            traces = self._measure([chase for each in running for chase in each.batch])
        except Exception:
            for each in running:
                try:
                    own = self._measure(each.batch)
                except Exception as error:
                    self._fail_or_conclude(each, _said(error))
                else:
                    self._advance(each, own)
            return
        for each in running:
            own, traces = traces[: len(each.batch)], traces[len(each.batch) :]
            self._advance(each, own)

    def _measure(self, batch: Sequence[Workload]) -> list[Trace]:
        traces = self.device.run(batch)
        self.workloads += len(batch)
        self.contexts += [trace.context for trace in traces]
        return traces

    def _advance(self, each: _Running, traces: list[Trace] | None) -> None:
        try:
            each.batch = next(each.plan) if traces is None else each.plan.send(traces)
        except StopIteration as stop:
            self.outcomes[each.experiment.name] = stop.value
            self.progress(len(self._ended()), self._total, each.experiment.name)
        except Exception as error:  # whatever an experiment stumbles over must not cost the findings of the others
            self._fail(each.experiment, _said(error))
        else:
            self.running.append(each)

    def _fail_or_conclude(self, each: _Running, reason: str) -> None:
        """What was measured before may do for an answer; that it failed is said all the same."""
        self._enough(each)
        if each.experiment.name in self.outcomes:
            self.failures.append(Failure(each.experiment.name, reason))
        elif each.experiment.name not in self.failed:
            self._fail(each.experiment, reason)

    def _fail(self, experiment: Experiment, reason: str, consequence: bool = False) -> None:
        self.failed[experiment.name] = reason
        if not consequence:
            self.failures.append(Failure(experiment.name, reason))

    def _reason(self, name: str) -> str:
        """Why an experiment has no outcome."""
        return LEFT_OUT if name in self.left_out else self.failed.get(name, "interrupted")

    def findings(self, elements: set[str]) -> tuple[Estimate, ...]:
        """Every estimate of the elements asked for, in a fixed order; what did not finish stands as skipped."""
        estimates: dict[tuple[str, str], Estimate] = {}
        for name, experiment in self.experiments.items():  # needs come first: who knows more has the last word
            if experiment.element not in elements:
                continue
            if name in self.outcomes:
                own = self.outcomes[name].estimates
            else:
                own = without(Status.SKIPPED, experiment.element, self._reason(name), *experiment.attributes)
            estimates.update({(each.element, each.attribute): each for each in own})
        return tuple(sorted(estimates.values(), key=lambda each: sort_key(each.element, each.attribute)))
