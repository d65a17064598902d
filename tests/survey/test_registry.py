"""Experiments as they are declared beside their plans."""

import pytest

from gpudissect.measure.plan import Experiment, Key, Outcome, Study
from gpudissect.survey import registry
from gpudissect.survey.registry import experiments, measured_elements

DECLARED = {study: experiments(study) for study in Study}
EVERY = [experiment for declared in DECLARED.values() for experiment in declared.values()]
EMITTED = {f"{each.element}.{attribute}" for each in EVERY for attribute in each.emits}


@pytest.mark.parametrize("study", Study)
def test_every_need_names_an_experiment_of_the_study(study):
    for experiment in DECLARED[study].values():
        assert {need.name for need in experiment.needs} <= DECLARED[study].keys()


def test_every_revision_is_of_an_emitted_finding():
    for experiment in EVERY:
        assert set(experiment.revises) <= EMITTED


def test_every_experiment_of_discover_is_of_a_measured_element():
    elements = {each.element for each in DECLARED[Study.DISCOVER].values()}
    assert elements == set(measured_elements())


def test_two_experiments_cannot_emit_the_same_finding(monkeypatch):
    one, two = (
        Experiment(Key(f"test.{name}"), lambda *_: iter([Outcome()]), ("capacity",), element="l1") for name in "ab"
    )
    module = type("Module", (), {"EXPERIMENTS": (one, two)})
    monkeypatch.setattr(registry, "import_module", lambda _: module)
    with pytest.raises(ValueError, match=r"test\.b and test\.a both emit l1\.capacity"):
        list(registry._declared())
