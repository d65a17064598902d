"""What an explanation says of each instruction, and why there is none."""

from functools import cache
from pathlib import Path

import pytest

from gpudissect.explanation.model.build import explain_profile
from gpudissect.explanation.profile import read_profile
from gpudissect.results.files import load

H200 = load(Path("docs/results/h200.json"))


def recorded(kernel):
    return read_profile(Path("tests/recordings/kernels/h200") / f"{kernel}.json")


@cache
def explained(kernel):
    return explain_profile(recorded(kernel), [H200])


def test_the_latency_of_a_load_is_the_mean_by_where_its_requests_end():
    values = {(each.element, each.attribute): each.value for each in H200.findings}
    l1, l2, memory = (values[level, "hit_latency"] for level in ("l1", "l2", "dram"))
    loads = [line for line in explained("binary_search").lines if line.sectors and line.latency]
    for line in loads:
        behind_l1 = line.l2_hits * l2 + (1 - line.l2_hits) * memory
        assert line.latency == pytest.approx(line.l1_hits * l1 + (1 - line.l1_hits) * behind_l1)
    assert any(0.1 < line.l1_hits < 0.9 for line in loads) and max(line.latency for line in loads) > l1 + 10
