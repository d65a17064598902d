"""Run a plan, or some experiments and what they need, without a survey."""

from __future__ import annotations

from gpudissect.device.kinds import open_device
from gpudissect.measure.plan import Bench, Known, Study
from gpudissect.survey.registry import experiments
from gpudissect.survey.run import run_survey


def survey_of(spec, options):
    """What a device states, and its survey with the `Options` of a result."""
    with open_device(spec, seed=options.seed) as device:
        return device.info, run_survey(device, elements=options.elements, quick=options.quick, seed=options.seed)


def outcome(plan, device):
    """The outcome of a plan on a device."""
    try:
        batch = next(plan)
        while True:
            batch = plan.send(device.run(batch))
    except StopIteration as end:
        return end.value


def estimates(device, names, seed=0, known=None):
    """Estimates of experiments and of all they need, by element and attribute; `known` is knowledge by name."""
    return learned(device, names, seed, known)[0]


def learned(device, names, seed=0, known=None):
    """The same, and the knowledge of every experiment by its name."""
    known = dict(known or {})
    found = {}

    def run(name):
        experiment = experiments(Study.DISCOVER)[name]
        for need in experiment.needs:
            if need.name not in known:
                run(need.name)
        if name not in known:
            result = outcome(experiment.plan(Bench(device.info, seed), Known(known)), device)
            known[name] = result.knowledge
            estimates = {(estimate.element, estimate.attribute): estimate for estimate in result.estimates}
            declared = {*(f"{experiment.element}.{each}" for each in experiment.emits), *experiment.revises}
            assert {".".join(key) for key in estimates} <= declared, f"{name} emits or revises more than it declares"
            found.update(estimates)

    for name in names:
        run(name)
    return found, known
