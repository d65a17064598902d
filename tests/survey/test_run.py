"""The survey: orders, merges, survives failures, keeps what was measured when interrupted."""

import pytest

from gpudissect.errors import OutOfMemory, UsageError
from gpudissect.estimate import Status
from gpudissect.measure.plan import Study
from gpudissect.survey.registry import experiments, measured_elements
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.measure.conftest import bits, gpu_with, plain_l2  # noqa: F401 (a fixture)


class Troubled:
    """A device that fails as it is told."""

    def __init__(self, inner, trouble):
        self.inner, self.trouble, self.batches = inner, trouble, []

    @property
    def info(self):
        return self.inner.info

    def run(self, batch):
        self.batches.append(list(batch))
        self.trouble(batch, len(self.batches))
        return self.inner.run(batch)


@pytest.fixture
def gpu(gpu_with):  # noqa: F811
    from gpudissect.simulation.cache.geometry import Cache, Policy, PolicyKind

    l1 = Cache(ways=(4,) * 8, line=64, sector=64, index=bits(6, 3), policy=Policy(PolicyKind.LRU))
    return gpu_with(l1, plain_l2())


def test_every_need_names_an_experiment_that_exists():
    for experiment in experiments(Study.COMPARE_METHODS).values():
        assert experiment.element in measured_elements()
        assert {need.name for need in experiment.needs} <= set(experiments(Study.DISCOVER))


def test_independent_experiments_share_a_batch(gpu):
    watched = Troubled(gpu, lambda *_: None)
    run_survey(watched, elements=["l1", "l2"])
    assert any({chase.path for chase in batch} >= {Path.GLOBAL, Path.GLOBAL_L2} for batch in watched.batches)


def test_a_failing_experiment_takes_along_only_what_needs_it(gpu):
    def no_global(batch, _):
        if any(chase.path is Path.GLOBAL for chase in batch):
            raise OutOfMemory("no room")

    survey = run_survey(Troubled(gpu, no_global), elements=["l1", "l2"])
    assert [failure.experiment for failure in survey.failures] == ["levels.global"]
    status = {(each.element, each.attribute): each.status for each in survey.findings}
    assert status["l1", "capacity"] is Status.SKIPPED
    assert status["l2", "capacity"] is Status.FOUND
    assert any("no room" in each.reason for each in survey.findings)


def test_an_interrupt_keeps_what_was_measured(gpu):
    def interrupt(_, turn):
        if turn == 12:
            raise KeyboardInterrupt

    survey = run_survey(Troubled(gpu, interrupt), elements=["l1", "l2", "dram"])
    assert survey.interrupted
    assert {Status.FOUND, Status.SKIPPED} <= {each.status for each in survey.findings}


def test_progress_ends_with_everything_done(gpu):
    steps = []
    run_survey(gpu, elements=["l2"], progress=lambda done, total, what: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1]
    assert steps == sorted(steps)


def test_unknown_elements_are_refused(gpu):
    with pytest.raises(UsageError, match="no such element: l9"):
        run_survey(gpu, elements=["l9"])


def test_the_same_seed_gives_the_same_findings(gpu):
    first, second = (run_survey(gpu, elements=["l1"], seed=5).findings for _ in range(2))
    assert first == second


def test_a_quick_survey_runs_less_and_says_what_it_left_out(gpu):
    surveys = [run_survey(gpu, elements=["l1", "l2", "dram"], quick=quick) for quick in (False, True)]
    full, quick = ({(each.element, each.attribute): each for each in survey.findings} for survey in surveys)
    assert surveys[1].workloads < surveys[0].workloads
    assert full.keys() == quick.keys()
    left_out = {name for name, each in quick.items() if each.status is Status.SKIPPED}
    slow = {
        (each.element, attribute)
        for each in experiments(Study.DISCOVER).values()
        if not each.quick
        for attribute in each.emits
    }
    assert left_out == slow & full.keys()
    assert all("--quick" in quick[name].reason for name in left_out)
    assert all(quick[name] == full[name] for name in quick.keys() - left_out)


@pytest.mark.parametrize("spec", ["gtx280", "gtx780", "840m", "a100"])
def test_every_experiment_answers_for_the_attributes_it_names_and_no_others(spec):
    from gpudissect.device.find import open_device

    with open_device(f"sim:{spec}") as device:
        found = [(each.element, each.attribute) for each in run_survey(device, quick=True).findings]
    named = [(each.element, attribute) for each in experiments(Study.DISCOVER).values() for attribute in each.emits]
    assert sorted(found) == sorted(named)


@pytest.mark.parametrize("turn", [2, 4, 6])
def test_latency_hiding_that_is_broken_off_has_an_answer(turn):
    """The coarse grid runs first: what is known then is enough for models, and says how little of it there was."""
    from gpudissect.device.find import open_device

    def interrupt(_, now):
        if now == turn:
            raise KeyboardInterrupt

    with open_device("sim:gtx980") as device:
        survey = run_survey(Troubled(device, interrupt), Study.HIDE, elements=["hiding_rsq"])
    assert survey.interrupted and not survey.failures
    found = {each.attribute: each for each in survey.findings}
    if turn == 2:
        assert {each.status for each in survey.findings} == {Status.SKIPPED}, "the coarse grid was under way"
        assert survey.series == ()
        return
    assert found["access_rate"].value == pytest.approx(32, rel=0.05)
    assert any("mixes were run" in caveat for caveat in found["access_rate"].caveats)
    (curves,) = [each.columns for each in survey.series if each.name == "throughput against warps and alpha"]
    most = {alpha: max(n for a, n in zip(curves["alpha"], curves["warps"], strict=True) if a == alpha)
            for alpha in set(curves["alpha"])}  # fmt: skip
    assert set(most.values()) == {64.0}, "what ran with few warps only is left out"
    assert {each.name for each in survey.series} >= {
        "throughput against warps and alpha",
        "worst estimate over measurement",
    }


def test_latency_hiding_that_fails_half_way_has_an_answer_and_says_so():
    from gpudissect.device.find import open_device

    def break_down(batch, now):
        if now > 3:
            raise OutOfMemory("no room")

    with open_device("sim:gtx980") as device:
        survey = run_survey(Troubled(device, break_down), Study.HIDE, elements=["hiding_rsq"])
    assert not survey.interrupted
    assert [(each.experiment, each.reason) for each in survey.failures] == [("loops.hiding_rsq", "no room")]
    found = {each.attribute: each for each in survey.findings}
    assert found["access_rate"].value == pytest.approx(32, rel=0.05)
