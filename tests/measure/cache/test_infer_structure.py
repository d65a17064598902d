"""Drawing lines by their sets."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_structure import Deck, Structure
from gpudissect.simulation.cache.geometry import Index, IndexKind


@settings(max_examples=100)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=200), st.lists(st.integers(0, 12), min_size=7, max_size=7),
       st.integers(0, 99))  # fmt: skip
def test_a_deck_gives_distinct_lines_so_many_of_each_set_or_all_it_has(labels, quotas, seed):
    labels = np.array(labels)
    deck = Deck(labels, 7, np.random.default_rng(seed))
    lines = deck.draw(quotas, np.random.default_rng(seed + 1))
    assert len(set(lines.tolist())) == lines.size
    sizes = np.bincount(labels, minlength=7)
    assert np.array_equal(np.bincount(labels[lines], minlength=7), np.minimum(quotas, sizes))
    assert np.all(np.diff(labels[lines]) >= 0)


def test_every_line_is_drawn_sooner_or_later_and_not_always_the_same():
    structure = Structure(32, Index(IndexKind.MODULO), (2, 2, 2), 300)
    drawn = [tuple(structure.draw((0, 2, 0), np.random.default_rng(seed)).tolist()) for seed in range(2000)]
    assert len(set(drawn)) > 50
    assert {line for pair in drawn for line in pair} == set(range(1, 300, 3))
