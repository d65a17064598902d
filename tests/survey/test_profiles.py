"""The profile ``health``: what it measures, and where it ends early."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from gpudissect.cli.discover import ProfileName
from gpudissect.device.kinds import open_device
from gpudissect.errors import RecordingError, UsageError
from gpudissect.estimate import Status
from gpudissect.fleet.readings import run_of
from gpudissect.measure.plan import Study
from gpudissect.results.build import build
from gpudissect.results.check import concerns
from gpudissect.results.model import Options
from gpudissect.study import Request
from gpudissect.survey import profiles
from gpudissect.survey.profiles import PROFILES
from gpudissect.survey.registry import experiments
from gpudissect.survey.run import run_survey
from gpudissect.workload import Stream

H200 = f"rec:{Path(__file__).parents[1] / 'recordings' / 'h200'}"
MAX_STREAM_BYTES = 10 << 30


def health(spec):
    with open_device(spec) as device:
        return device.info, run_survey(device, profile="health")


def values(survey):
    return {f"{each.element}.{each.attribute}": each for each in survey.findings if each.status is Status.FOUND}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_a_profile_names_experiments_that_exist(profile):
    assert not set(profile.experiments) - experiments(Study.DISCOVER).keys()


def test_health_of_a_recorded_h200_has_what_a_whole_survey_found():
    with open_device(H200) as device:
        whole = values(run_survey(device, elements=["dram"]))
    found = values(health(H200)[1])
    for name in ("dram.read_bandwidth", "dram.write_bandwidth", "dram.copy_bandwidth", "dram.hit_latency"):
        assert (found[name].value, found[name].low, found[name].high) == (
            whole[name].value,
            whole[name].low,
            whole[name].high,
        ), name
    for name in ("dram.read_bandwidth", "dram.write_bandwidth", "dram.copy_bandwidth", "l2.read_bandwidth"):
        assert found[name].low < found[name].value < found[name].high, name
    assert found["ffma.gpu_rate"].value > 3e13 and found["mma_f16.gpu_rate"].value > 3e14
    assert len(found["l2.partition_by_sm"].value) == 132


def test_health_uses_bounded_memory(monkeypatch):
    with open_device(H200) as device:
        batches, run = [], device.run
        monkeypatch.setattr(device, "run", lambda batch: batches.append(batch) or run(batch))
        run_survey(device, profile="health")
    streams = [each for batch in batches for each in batch if isinstance(each, Stream)]
    assert max(each.footprint for each in streams) < MAX_STREAM_BYTES


def test_health_gives_way_to_other_processes():
    info, survey = health("sim:gtx980?other_users=100")
    (failure,) = survey.failures
    assert failure.experiment == "health" and "other processes" in failure.reason and not survey.interrupted
    assert len(values(survey)) < 5  # of the first batch
    result = build(info, survey, Options(profile="health"))
    assert any("the profile health ended early: it gave way" in each.what for each in concerns([result]))


def test_what_was_measured_before_the_limit_is_kept(monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr("gpudissect.survey.run.time.perf_counter", lambda: next(clock))
    monkeypatch.setitem(profiles.PROFILES, "health", replace(PROFILES["health"], max_seconds=30))
    with open_device("sim:gtx980") as device:
        ran, run = [], device.run
        monkeypatch.setattr(device, "run", lambda batch: ran.extend(batch) or run(batch))
        survey = run_survey(device, profile="health")
    assert "allowed: 30 s" in survey.failures[0].reason
    assert 0 < len(values(survey)) < len(survey.findings)
    assert survey.workloads == len(ran), "no trace was discarded"
    assert all("allowed" in each.reason for each in survey.findings if each.status is Status.SKIPPED)


@pytest.mark.parametrize("other", [{"elements": ("l1",)}, {"quick": True}, {"methods": ("wong",)}])
def test_a_profile_excludes_other_selections(other):
    with pytest.raises(UsageError, match="a profile chooses the experiments"):
        Request(profile="health", **other)


def test_an_unknown_profile_is_refused():
    with pytest.raises(UsageError, match="no such profile: 'sick'"):
        Request(profile="sick")


def test_a_profile_replaces_the_recorded_selection():
    options = Request(profile="health").options({"seed": 3, "quick": True, "elements": ["l1"]})
    assert (options.profile, options.seed, options.quick, options.elements) == ("health", 3, False, None)


def test_a_selection_replaces_the_recorded_profile():
    options = Request(elements=("l2",)).options({"seed": 3, "profile": "health"})
    assert (options.profile, options.seed, options.elements) == (None, 3, ("l2",))
    assert Request().options({"profile": "health"}).profile == "health"


def test_a_recording_of_latency_hiding_has_no_health():
    with pytest.raises(RecordingError, match="gpudissect hide"):
        Request(profile="health").options({"elements": ["hiding"]})


def test_the_names_of_profiles_agree():
    (names,) = {get_args(each) for each in get_args(Options.model_fields["profile"].annotation) if get_args(each)}
    assert set(names) == set(PROFILES) == {each.value for each in ProfileName}


def test_runs_of_a_profile_are_compared_with_one_another_only():
    info, survey = health("sim:gtx980")
    groups = [run_of(build(info, survey, Options(profile=each)), "x").group for each in ("health", None)]
    assert groups[0] != groups[1] and "health" in groups[0]
