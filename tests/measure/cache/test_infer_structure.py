"""Index functions from lines of one set, against brute force over all lines; sampling lines by their sets."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_structure import (
    LinesBySet,
    Structure,
    index_from_rows,
    null_space,
    period,
    rows_from,
)
from gpudissect.simulation.cache.geometry import Index, IndexKind, Policy, PolicyKind, Room
from gpudissect.simulation.cache.index import canonical, reduced, set_numbers

BITS = 8
LINES = np.arange(1 << BITS, dtype=np.int64)
rows = st.lists(st.integers(1, (1 << BITS) - 1), max_size=5)
line_numbers = st.integers(0, (1 << BITS) - 1)
thorough = settings(max_examples=150)


def number_sets(masks):
    """Set numbers of all lines under some rows over line numbers."""
    number = np.zeros_like(LINES)
    for place, mask in enumerate(masks):
        number |= (np.bitwise_count(LINES & mask).astype(np.int64) & 1) << place
    return number


def together(numbers):
    """Which lines share a set, whatever the numbers of the sets: (n, n)."""
    return numbers[:, None] == numbers[None, :]


def span(masks):
    sums = {0}
    for mask in masks:
        sums |= {total ^ mask for total in sums}
    return sums


@thorough
@given(rows, st.randoms(use_true_random=False))
def test_reduced_rows_span_the_same_and_are_unique(masks, random):
    form = reduced(masks)
    assert span(form) == span(masks)
    pivots = [row & -row for row in form]
    assert pivots == sorted(set(pivots))
    assert all(bool(other & pivot) == (row is other) for pivot, row in zip(pivots, form, strict=True) for other in form)
    another = [*masks, *random.choices(masks, k=2)] if masks else []
    random.shuffle(another)
    another = [row ^ another[i - 1] if i and random.random() < 0.5 else row for i, row in enumerate(another)]
    assume(span(another) == span(masks))
    assert reduced(another) == form


@thorough
@given(rows, line_numbers)
def test_a_set_of_a_linear_index_gives_its_rows(masks, line):
    numbers = number_sets(masks)
    members = np.flatnonzero(numbers == numbers[line])
    null = null_space(members, 1 << BITS)
    assert null is not None
    assert span(null) == {int(xor) for xor in members ^ members[0]}
    assert rows_from(null, BITS) == reduced(masks)
    assert np.array_equal(together(number_sets(rows_from(null, BITS))), together(numbers))


@thorough
@given(st.sets(line_numbers, min_size=1))
def test_other_sets_of_lines_have_no_null_space(chosen):
    members = np.array(sorted(chosen), dtype=np.int64)
    differences = {int(xor) for xor in members ^ members[0]}
    is_coset = all(one ^ two in differences for one in differences for two in differences)
    assert (null_space(members, 1 << BITS) is not None) == is_coset


@thorough
@given(st.integers(2, 40), st.integers(1, 9), st.integers(0, 39))
def test_the_period_of_a_remainder(sets, granule, number):
    assume(2 * sets * granule <= LINES.size)
    members = np.flatnonzero(LINES // granule % sets == number % sets)
    assert period(members, LINES.size) == (sets * granule, granule)


@thorough
@given(st.lists(st.booleans(), min_size=1, max_size=60), st.one_of(st.none(), line_numbers))
def test_a_period_is_the_smallest(pattern, flipped):
    """Compared with every shift: lines repeat, no shorter shift does, and runs are whole granules."""
    present = np.resize(np.array(pattern), LINES.size)
    if flipped is not None:
        present[flipped] ^= True
    members = np.flatnonzero(present)
    assume(members.size)
    found = period(members, LINES.size)
    repeats = [shift for shift in range(1, LINES.size) if np.array_equal(present[shift:], present[:-shift])]
    if found is None:
        gaps = np.flatnonzero(~present[members[0] :])
        run = int(gaps[0]) if gaps.size else LINES.size - int(members[0])
        assert not [shift for shift in repeats if shift > run and present[members[0] + shift :][:1].any()]
        return
    distance, granule = found
    assert distance in repeats
    assert distance % granule == 0
    assert not [shift for shift in repeats if granule < shift < distance and present[members[0] + shift]]


@thorough
@given(rows, rows, st.sampled_from([16, 32, 128]))
def test_canonical_words_are_equal_exactly_if_the_same_lines_go_together(one, two, line):
    first, second = (index_from_rows(reduced(masks), line) for masks in (one, two))
    equal = np.array_equal(together(number_sets(one)), together(number_sets(two)))
    words = [canonical(index, line, 1 << len(reduced(masks))) for index, masks in ((first, one), (second, two))]
    assert (words[0] == words[1]) == equal
    numbers = set_numbers(first, line, 1 << len(reduced(one)), LINES * line)
    assert np.array_equal(together(numbers), together(number_sets(one)))


@pytest.mark.parametrize(
    ("index", "sets", "words"),
    [
        (Index(IndexKind.MODULO), 1, "one set"),
        (Index(IndexKind.MODULO), 8, "bits 7 8 9"),
        (Index(IndexKind.MODULO, granule=1024), 4, "bits 10 11"),
        (Index(IndexKind.BITS, bits=(8, 7)), 4, "bits 7 8"),
        (Index(IndexKind.XOR, masks=(1 << 7, 1 << 7 | 1 << 9)), 4, "bits 7 9"),
        (Index(IndexKind.XOR, masks=(1 << 7 | 1 << 13, 1 << 8)), 4, "xor 7^13 8"),
        (Index(IndexKind.MODULO), 1792, "line mod 1792"),
        (Index(IndexKind.MODULO, granule=512), 7, "(address / 512) mod 7"),
        (Index(IndexKind.TABLE, table=(0, 1, 0)), 2, "not linear, table of 3"),
    ],
)
def test_canonical_words(index, sets, words):
    assert canonical(index, 128, sets) == words


set_lists = st.lists(st.integers(0, 6), min_size=1, max_size=200)
quota_lists = st.lists(st.integers(0, 12), min_size=7, max_size=7)


@settings(max_examples=100)
@given(set_lists, quota_lists, st.integers(0, 99))
def test_sampled_lines_are_distinct_and_fill_the_quotas_as_far_as_possible(set_of, quotas, seed):
    set_of = np.array(set_of)
    lines = LinesBySet(set_of, 7, np.random.default_rng(seed)).sample(quotas, np.random.default_rng(seed + 1))
    assert len(set(lines.tolist())) == lines.size
    sizes = np.bincount(set_of, minlength=7)
    assert np.array_equal(np.bincount(set_of[lines], minlength=7), np.minimum(quotas, sizes))
    assert np.all(np.diff(set_of[lines]) >= 0)


def test_every_line_is_sampled_eventually_and_samples_differ():
    structure = Structure(32, Index(IndexKind.MODULO), (2, 2, 2), 300)
    samples = [tuple(structure.sample((0, 2, 0), np.random.default_rng(seed)).tolist()) for seed in range(2000)]
    assert len(set(samples)) > 50
    assert {line for pair in samples for line in pair} == set(range(1, 300, 3))


ROOM = Room(20)


@pytest.mark.parametrize(
    ("room", "kind", "lines"),
    [
        (ROOM, "lru", None),
        (ROOM, "last-two-hits", None),
        (ROOM, "slru", 20),
        (None, "lru", 20),
    ],
)
def test_a_cache_is_predictable_up_to_its_room_unless_that_is_simulated(room, kind, lines):
    structure = Structure(32, Index(IndexKind.MODULO), (4,) * 8, 300, room=room, guaranteed_lines=20)
    assert structure.predictable_lines(Policy(PolicyKind(kind))) == lines
