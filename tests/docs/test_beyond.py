"""The fixed GPUs beyond the generator, and the page about them."""

import re
from pathlib import Path

from beyond_gpus import FEATURES, GPU_COUNT, beyond_gpus

PAGE = (Path(__file__).parents[2] / "docs" / "beyond.md").read_text(encoding="utf-8")
MIN_PAIRS = 3  # of a feature with others
MAX_WRONG_SHARE = 1 / 1000  # of the confident answers
NAMES = [name for name, _ in beyond_gpus()]


def test_every_feature_occurs_alone_and_in_pairs():
    used = [name.partition(", ")[2].split(" + ") for name in NAMES]
    assert len(set(NAMES)) == GPU_COUNT
    for feature in FEATURES:
        assert [feature] in used
        assert sum(feature in each and len(each) == 2 for each in used) >= MIN_PAIRS


def test_features_of_a_pair_are_both_there():
    by_name = {name: gpu.hierarchy for name, gpu in beyond_gpus()}
    for name, hierarchy in by_name.items():
        features = name.partition(", ")[2].split(" + ")
        if "partition: three" in features:
            assert hierarchy.partition.count == 3
        if "rows of DRAM" in features:
            assert hierarchy.rows is not None
        if "lines: 96 B in the L1" in features:
            assert hierarchy.caches["l1"].line == 96
        if "fill: exclusive L2" in features:
            assert hierarchy.caches["l2"].fill == "exclusive"


def test_the_page_is_about_these_gpus():
    rows = [line.split(" | ")[0].removeprefix("| ") for line in PAGE.partition("## By GPU")[2].splitlines()]
    assert rows[4:] == NAMES


def test_few_confident_answers_are_wrong():
    count, wrong = map(int, re.search(r"or more: (\d+), (\d+) of them wrong", PAGE).groups())
    assert count > 1000 and wrong <= MAX_WRONG_SHARE * count
