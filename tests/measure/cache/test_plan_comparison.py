"""Older methods run alone: the classic readings contradict each other (MC16 s4.1, figures 4 and 5), MT22's search."""

import pytest

from gpudissect.measure.plan import Study
from gpudissect.simulation.cache.geometry import Cache, Policy, PolicyKind
from gpudissect.survey.registry import experiments
from gpudissect.survey.run import run_survey
from gpudissect.vocabulary import OLDER_METHODS
from tests.measure.conftest import bits, plain_l2

LRU = Policy(PolicyKind.LRU)
KEPLER_TEXTURE = Cache((96,) * 4, 32, 32, bits(7, 2), LRU)


def read(gpu, *methods):
    """Readings by method and attribute."""
    survey = run_survey(gpu, Study.COMPARE_METHODS, elements=["l1"], methods=methods, quick=True)
    assert not survey.findings and not survey.failures, "none of ours"
    return {(reading.method, reading.attribute): reading.value for reading in survey.comparisons}, survey


def of(readings, method):
    return [readings[OLDER_METHODS[method], name] for name in ("capacity", "line_size", "sets", "ways")]


def test_wong_reads_128_byte_lines_from_a_set_index_above_them(gpu_with):
    readings, _ = read(gpu_with(KEPLER_TEXTURE, plain_l2()), "saavedra", "wong")
    assert of(readings, "wong") == [12288, 128, 4, 24]
    assert of(readings, "saavedra")[:2] == [12288, 32]


def test_both_published_readings_are_those_of_a_sectored_cache(gpu_with):
    """MC16 fig 4 reads 32 B, 16 sets, 24 ways and fig 5 128 B, 4 sets, 24 ways: what 4 sets of 24 lines of 128 B
    in sectors of 32 B show. MC16's own structure, 4 sets of 96 lines of 32 B, would not show figure 4."""
    readings, _ = read(gpu_with(Cache((24,) * 4, 128, 32, bits(7, 2), LRU), plain_l2()), "saavedra", "wong")
    assert of(readings, "saavedra") == [12288, 32, 16, 24]
    assert of(readings, "wong") == [12288, 128, 4, 24]


def test_mt22_finds_the_window_by_itself_and_reads_one_step_more_than_fits(gpu_with):
    readings, survey = read(gpu_with(KEPLER_TEXTURE, plain_l2()), "mt22")
    sizes = {method.rpartition(", ")[2]: value for (method, _), value in readings.items()}
    assert sizes == {"distance": pytest.approx(12288 + 128, abs=16), "angle": pytest.approx(12288, abs=16)}
    (series,) = survey.series
    assert list(series.columns) == ["size", "distance", "angle"]
    assert min(series.columns["size"]) < 12288 < max(series.columns["size"])


def test_a_method_without_a_change_reads_nothing(gpu_with):
    readings, survey = read(gpu_with(Cache((1 << 14,), 128, 128, bits(0, 0), LRU), plain_l2()), *OLDER_METHODS)
    assert set(readings.values()) == {None}
    assert {reading.note for reading in survey.comparisons} == {"no change up to the largest array"}


def test_older_methods_need_nothing_that_we_find():
    older = [each for each in experiments(Study.COMPARE_METHODS).values() if each.study is Study.COMPARE_METHODS]
    assert {each.name.partition(".")[0] for each in older} == set(OLDER_METHODS)
    assert not any(each.needs or each.emits for each in older)
