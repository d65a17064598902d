"""Chains over scattered blocks visit no word twice; most are made without the check of `Explicit`."""

import numpy as np
import pytest

from gpudissect.errors import WorkloadError
from gpudissect.measure.access_patterns import Blocks, probed_chain, scattered_offsets
from gpudissect.workload import Explicit, Path


@pytest.mark.parametrize("path", [Path.TEXTURE, Path.GLOBAL])
@pytest.mark.parametrize("fetch", [64, 128])
@pytest.mark.parametrize("count", [1, 3, 60, 1023, 1024, 5000])
def test_no_word_is_visited_twice(count, fetch, path):
    for size, words in ((fetch, (0,)), (fetch, (0, 4 * path.word)), (4 * fetch, (0, fetch)), (2 * fetch, (0, fetch))):
        blocks, rng = Blocks(count, size, words, 8 * count * size), np.random.default_rng(count)
        order = probed_chain(blocks, fetch, path.word, rng).order
        assert Explicit(order.sequence) == order and order.start >= 0


@pytest.mark.parametrize("words", [(0, 8), (0, 0), (0, 64)])
def test_chains_of_too_few_words_are_refused(words):
    with pytest.raises(WorkloadError, match="twice"):
        probed_chain(Blocks(60, 32, words, 60 * 32), 64, 4, np.random.default_rng(0))


@pytest.mark.parametrize("span", [3 * 1000 * 32, 64 * 1000 * 32])
def test_scattered_offsets_are_distinct(span):
    offsets = scattered_offsets(1000, 32, span, np.random.default_rng(0))
    assert offsets.size == np.unique(offsets).size == 1000
    assert not np.any(offsets % 32) and offsets.min() >= 0 and offsets.max() < span
