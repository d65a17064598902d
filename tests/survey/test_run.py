"""The survey: orders, merges, survives failures, keeps what was measured when interrupted."""

import pytest

from gpudissect.device.base import Device
from gpudissect.errors import OutOfMemory, UsageError
from gpudissect.estimate import Status
from gpudissect.measure.plan import Study
from gpudissect.results.model import Options
from gpudissect.survey.registry import experiments
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.measure.conftest import bits, gpu_with, plain_l2  # noqa: F401 (a fixture)


class Troubled(Device):
    """A device on which `trouble(batch, number)` is called before each batch."""

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


def test_independent_experiments_share_a_batch(gpu):
    device = Troubled(gpu, lambda *_: None)
    run_survey(device, elements=["l1", "l2"], quick=True)
    assert any({chase.path for chase in batch} >= {Path.GLOBAL, Path.GLOBAL_L2} for batch in device.batches)


def test_a_failed_experiment_fails_only_those_that_need_it(gpu):
    def no_global(batch, _):
        if any(chase.path is Path.GLOBAL for chase in batch):
            raise OutOfMemory("no room")

    survey = run_survey(Troubled(gpu, no_global), elements=["l1", "l2"], quick=True)
    assert [failure.experiment for failure in survey.failures] == ["levels.global"]
    status = {(each.element, each.attribute): each.status for each in survey.findings}
    assert status["l1", "capacity"] is Status.SKIPPED
    assert status["l2", "capacity"] is Status.FOUND
    assert any("no room" in each.reason for each in survey.findings)


def test_an_interrupt_keeps_what_was_measured(gpu):
    def interrupt(_, number):
        if number == 12:
            raise KeyboardInterrupt

    survey = run_survey(Troubled(gpu, interrupt), elements=["l1", "l2", "dram"])
    assert survey.interrupted
    assert {Status.FOUND, Status.SKIPPED} <= {each.status for each in survey.findings}


def test_progress_ends_with_everything_done(gpu):
    steps = []
    run_survey(gpu, elements=["l2"], quick=True, progress=lambda done, total, what: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1]
    assert steps == sorted(steps)


def test_unknown_elements_are_refused(gpu):
    with pytest.raises(UsageError, match="no such element: l9"):
        run_survey(gpu, elements=["l9"])


def test_the_same_seed_gives_the_same_findings(gpu):
    first, second = (run_survey(gpu, elements=["l1"], seed=5).findings for _ in range(2))
    assert first == second


def test_a_quick_survey_runs_less_and_reports_what_it_skipped(gpu):
    surveys = [run_survey(gpu, elements=["l1", "l2", "dram"], quick=quick) for quick in (False, True)]
    full, quick = ({(each.element, each.attribute): each for each in survey.findings} for survey in surveys)
    assert surveys[1].workloads < surveys[0].workloads
    assert full.keys() == quick.keys()
    skipped = {name for name, each in quick.items() if each.status is Status.SKIPPED}
    slow = {
        (each.element, attribute)
        for each in experiments(Study.DISCOVER).values()
        if not each.quick
        for attribute in each.emits
    }
    assert skipped == slow & full.keys()
    assert all("--quick" in quick[name].reason for name in skipped)
    assert all(quick[name] == full[name] for name in quick.keys() - skipped)


def test_a_quick_survey_has_sizes_latencies_bandwidths_and_warps():
    quick = {
        f"{each.element}.{name}" for each in experiments(Study.DISCOVER).values() if each.quick for name in each.emits
    }
    latencies = {f"{level}.hit_latency" for level in ("l1", "l2", "dram", "shared")}
    bandwidths = {f"{level}.read_bandwidth" for level in ("l2", "dram")}
    assert quick >= {"l1.capacity", "l2.capacity", "ldg_streaming.warps_needed"} | latencies | bandwidths


@pytest.mark.parametrize(("name", "seed"), [("gtx280", 1), ("gtx780", 0), ("840m", 0), ("h100", 2)])
def test_a_survey_has_a_finding_for_every_emitted_attribute(name, seed, survey_once):
    _, survey = survey_once(f"sim:{name}", Options(seed=seed, quick=True))
    findings = [(each.element, each.attribute) for each in survey.findings]
    emitted = [(each.element, attribute) for each in experiments(Study.DISCOVER).values() for attribute in each.emits]
    assert sorted(findings) == sorted(emitted)


@pytest.mark.parametrize("batch", [2, 4, 6])
def test_interrupted_latency_hiding_has_an_answer(batch):
    """The coarse grid runs first; it is enough for models, and a caveat says how many mixes were run."""
    from gpudissect.device.kinds import open_device

    def interrupt(_, number):
        if number == batch:
            raise KeyboardInterrupt

    with open_device("sim:gtx980") as device:
        survey = run_survey(Troubled(device, interrupt), Study.HIDE, elements=["hiding_rsq"])
    assert survey.interrupted and not survey.failures
    found = {each.attribute: each for each in survey.findings}
    if batch == 2:
        assert {each.status for each in survey.findings} == {Status.SKIPPED}, "the coarse grid was not finished"
        assert survey.series == ()
        return
    assert found["access_rate"].value == pytest.approx(32, rel=0.05)
    assert any("mixes were run" in caveat for caveat in found["access_rate"].caveats)
    (curves,) = [each.columns for each in survey.series if each.name == "throughput against warps and alpha"]
    pairs = list(zip(curves["alpha"], curves["warps"], strict=True))
    max_warps = {alpha: max(warps for other, warps in pairs if other == alpha) for alpha in set(curves["alpha"])}
    assert set(max_warps.values()) == {64.0}, "alphas without a full SM are left out"
    assert {each.name for each in survey.series} >= {
        "throughput against warps and alpha",
        "worst estimate over measurement",
    }


def test_latency_hiding_that_fails_midway_has_an_answer_and_reports_the_failure():
    from gpudissect.device.kinds import open_device

    def fail(_, number):
        if number > 3:
            raise OutOfMemory("no room")

    with open_device("sim:gtx980") as device:
        survey = run_survey(Troubled(device, fail), Study.HIDE, elements=["hiding_rsq"])
    assert not survey.interrupted
    assert [(each.experiment, each.reason) for each in survey.failures] == [("loops.hiding_rsq", "no room")]
    found = {each.attribute: each for each in survey.findings}
    assert found["access_rate"].value == pytest.approx(32, rel=0.05)
