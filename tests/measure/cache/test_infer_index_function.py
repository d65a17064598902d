"""Index functions from lines of one set, against brute force over all lines."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_index_function import as_index, null_space, period, rows_from
from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.simulation.cache.index import canonical, reduced, set_numbers

BITS = 8
LINES = np.arange(1 << BITS, dtype=np.int64)
rows = st.lists(st.integers(1, (1 << BITS) - 1), max_size=5)
MANY = settings(max_examples=150)


def labels(masks):
    """Set numbers of all lines under some rows over line numbers."""
    number = np.zeros_like(LINES)
    for place, mask in enumerate(masks):
        number |= (np.bitwise_count(LINES & mask).astype(np.int64) & 1) << place
    return number


def together(numbers):
    """Which lines share a set, whatever the sets are called: (n, n)."""
    return numbers[:, None] == numbers[None, :]


def span(masks):
    sums = {0}
    for mask in masks:
        sums |= {each ^ mask for each in sums}
    return sums


@MANY
@given(rows, st.randoms(use_true_random=False))
def test_reduced_rows_tell_the_same_lines_apart_and_are_unique(masks, random):
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


@MANY
@given(rows, st.integers(0, (1 << BITS) - 1))
def test_a_set_of_a_linear_index_gives_its_rows(masks, line):
    numbers = labels(masks)
    members = np.flatnonzero(numbers == numbers[line])
    null = null_space(members, 1 << BITS)
    assert null is not None
    assert span(null) == {int(each) for each in members ^ members[0]}
    assert rows_from(null, BITS) == reduced(masks)
    assert np.array_equal(together(labels(rows_from(null, BITS))), together(numbers))


@MANY
@given(st.sets(st.integers(0, (1 << BITS) - 1), min_size=1))
def test_other_sets_of_lines_have_no_null_space(chosen):
    members = np.array(sorted(chosen), dtype=np.int64)
    differences = {int(each) for each in members ^ members[0]}
    is_coset = all(one ^ two in differences for one in differences for two in differences)
    assert (null_space(members, 1 << BITS) is not None) == is_coset


@MANY
@given(st.integers(2, 40), st.integers(1, 9), st.integers(0, 39))
def test_the_period_of_a_remainder(sets, granule, number):
    assume(2 * sets * granule <= LINES.size)
    members = np.flatnonzero(LINES // granule % sets == number % sets)
    assert period(members, LINES.size) == (sets * granule, granule)


@MANY
@given(st.lists(st.booleans(), min_size=1, max_size=60), st.data())
def test_a_period_is_the_smallest_there_is(pattern, data):
    """Against every shift: lines repeat, nothing shorter does, and neighbours go together only in whole granules."""
    present = np.resize(np.array(pattern), LINES.size)
    if data.draw(st.booleans()):
        present[data.draw(st.integers(0, LINES.size - 1))] ^= True
    members = np.flatnonzero(present)
    assume(members.size)
    found = period(members, LINES.size)
    repeats = [shift for shift in range(1, LINES.size) if np.array_equal(present[shift:], present[:-shift])]
    if found is None:
        together_first = np.flatnonzero(~present[members[0] :])
        run = int(together_first[0]) if together_first.size else LINES.size - int(members[0])
        assert not [shift for shift in repeats if shift > run and present[members[0] + shift :][:1].any()]
        return
    distance, granule = found
    assert distance in repeats
    assert distance % granule == 0
    assert not [shift for shift in repeats if granule < shift < distance and present[members[0] + shift]]


@MANY
@given(rows, rows, st.sampled_from([16, 32, 128]))
def test_canonical_words_are_equal_exactly_if_the_same_lines_go_together(one, two, line):
    first, second = (as_index(reduced(masks), line) for masks in (one, two))
    alike = np.array_equal(together(labels(one)), together(labels(two)))
    words = [canonical(index, line, 1 << len(reduced(m))) for index, m in ((first, one), (second, two))]
    assert (words[0] == words[1]) == alike
    assert np.array_equal(
        together(set_numbers(first, line, 1 << len(reduced(one)), LINES * line)), together(labels(one))
    )


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
def test_words(index, sets, words):
    assert canonical(index, 128, sets) == words
