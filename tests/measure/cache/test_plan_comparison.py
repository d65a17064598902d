"""The two classic readings of Kepler's texture cache contradict each other (MC16 s4.1, figures 4 and 5)."""

from gpudissect.measure.plan import Study
from gpudissect.simulation.cache.geometry import Cache, Policy, PolicyKind
from gpudissect.survey.run import run_survey
from tests.measure.conftest import bits, plain_l2

LRU = Policy(PolicyKind.LRU)


def read(gpu):
    survey = run_survey(gpu, Study.COMPARE_METHODS, elements=["l1"], quick=True)
    readings = {(reading.method.split()[0], reading.attribute): reading.value for reading in survey.comparisons}
    return readings, {finding.attribute: finding.value for finding in survey.findings}


def test_wong_reads_128_byte_lines_from_a_set_index_above_them(gpu_with):
    readings, found = read(gpu_with(Cache((96,) * 4, 32, 32, bits(7, 2), LRU), plain_l2()))
    assert [readings["Wong", attribute] for attribute in ("line_size", "sets", "ways")] == [128, 4, 24]
    assert readings["Saavedra", "line_size"] == 32
    assert (found["capacity"], found["line_size"]) == (12288, 32)


def test_both_published_readings_are_those_of_a_sectored_cache(gpu_with):
    """MC16 fig 4 reads 32 B, 16 sets, 24 ways and fig 5 128 B, 4 sets, 24 ways: what 4 sets of 24 lines of 128 B
    in sectors of 32 B show. MC16's own structure, 4 sets of 96 lines of 32 B, would not show figure 4."""
    readings, found = read(gpu_with(Cache((24,) * 4, 128, 32, bits(7, 2), LRU), plain_l2()))
    assert [readings["Saavedra", attribute] for attribute in ("line_size", "sets", "ways")] == [32, 16, 24]
    assert [readings["Wong", attribute] for attribute in ("line_size", "sets", "ways")] == [128, 4, 24]
    assert (found["capacity"], found["line_size"], found["fetch_granularity"]) == (12288, 128, 32)
