"""Experiments return what they observed as series."""

import numpy as np
import pytest

from gpudissect.device.kinds import open_device
from gpudissect.survey.run import run_survey


@pytest.fixture(scope="module")
def series():
    with open_device("sim:gtx980?noise=none") as gpu:
        survey = run_survey(gpu, elements=("constant_l1",), quick=True)
    return {each.name: each for each in survey.series if each.element == "constant_l1"}


def test_latency_rises_with_the_footprint(series):
    curve = series["latency against footprint"]
    footprint, latency = (np.array(curve.columns[name]) for name in ("footprint", "latency"))
    assert latency[footprint <= 2048].max() < latency[footprint > 8192].min()
    assert len(curve.evidence) == len(footprint)


def test_misses_begin_where_the_cache_ends(series):
    columns = series["misses against footprint"].columns
    misses = dict(zip(columns["footprint"], columns["misses"], strict=True))
    assert misses[2048] == 0 < misses[2048 + 64] <= 100
    assert list(misses) == sorted(misses)
