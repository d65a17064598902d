"""Fingerprints: equal maps under other names, misjudged SMs, cards that were replaced."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.fleet.fingerprint import count_moved, has_changed, identity, letters_of
from gpudissect.fleet.readings import run_of
from gpudissect.fleet.report import FINGERPRINT, report
from gpudissect.fleet.sentences import has_other_fingerprint, sentence
from gpudissect.results.files import load
from tests.support.fleet import over_time, readings

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200.json"
MAP = letters_of([0, 0, 1, 1] * 33)  # 132 SMs


def moved(partitions, sms):
    """The map with these SMs near the other partition, named again by SM 0."""
    return letters_of([("ab".index(letter) + (sm in sms)) % 2 for sm, letter in enumerate(partitions)])


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=160).filter(lambda each: len(set(each)) == 2))
def test_the_names_of_partitions_do_not_matter(numbers):
    assert letters_of(numbers) == letters_of([1 - each for each in numbers])
    assert letters_of(numbers)[0] == "a" and len(letters_of(numbers)) == len(numbers)


@pytest.mark.parametrize("numbers", [[], [0.0] * 132, [0.0, 1.0] * 600, [0.0, 1.0, 2.0, 3.0, 4.0]])
def test_what_is_no_map(numbers):
    assert letters_of(numbers) == "" and identity("") == ""


def test_an_id_is_short_and_stable():
    assert identity("aabb") == sha256(b"aabb").hexdigest()[:8] == "486b3425"


@pytest.mark.parametrize(
    ("sms", "is_changed"),
    [((), False), (range(6), False), (range(7), True), ((0,), False), ((0, 50, 99), False), (range(0, 132, 3), True)],
)
def test_a_map_has_changed_if_more_than_5_percent_of_the_sms_differ(sms, is_changed):
    """6 of 132 are 4.5 %, 7 are 5.3 %. SM 0 gives the names of all."""
    other = moved(MAP, sms)
    assert count_moved(MAP, other) == len(sms) and has_changed(MAP, other) is has_changed(other, MAP) is is_changed


def test_of_few_sms_at_least_three_must_differ():
    small = letters_of([0, 1] * 8)
    assert [has_changed(small, moved(small, range(1, 1 + count))) for count in (1, 2, 3)] == [False, False, True]


def test_a_missing_map_is_no_change_and_another_number_of_sms_is():
    assert not has_changed("", MAP) and not has_changed(MAP, "") and has_changed(MAP, MAP[:-1])
    with pytest.raises(ValueError, match="132 and 131 SMs"):
        count_moved(MAP, MAP[:-1])


def test_random_misjudgements_of_1_percent_are_no_change():
    """7 or more of 132 in 4 of 10,000 measurements."""
    rng = np.random.default_rng(0)
    others = [moved(MAP, np.flatnonzero(rng.random(132) < 0.01)) for _ in range(200)]
    assert not any(has_changed(MAP, other) for other in others)


def test_four_partitions():
    four = letters_of([0, 1, 2, 3] * 8)
    assert set(four) == set("abcd") and not has_changed(four, letters_of([3, 1, 0, 2] * 8))
    assert has_changed(four, letters_of([0, 1, 3, 2] * 4 + [0, 1, 2, 3] * 4))


def test_the_map_of_a_result_is_read():
    result = load(H200)
    value = result.finding("l2", "partition_by_sm").value
    run = run_of(result, "h200.json")
    assert run.partitions == letters_of(value) and len(run.partitions) == 132
    fewer = result.model_copy(update={"device": result.device.model_copy(update={"sm_count": 131})})
    assert run_of(fewer, "h200.json").partitions == ""


@pytest.mark.parametrize(("sms", "is_changed"), [((0, 1, 2), False), (range(60), True)])
def test_another_map_is_a_change_and_no_deviation(sms, is_changed):
    """The third run lacks the finding: the fourth is compared with the second."""
    maps = [MAP, MAP, "", moved(MAP, sms)]
    runs = over_time([replace(run, partitions=each) for run, each in zip(readings([4.6] * 4), maps, strict=True)])
    (card,) = report(runs).cards
    assert not card.is_out and has_other_fingerprint(card) is is_changed and card.partitions == maps[-1]
    assert [each.name for each in card.changes] == [FINGERPRINT] * is_changed
    assert ("replaced" in sentence(card) and identity(MAP) in sentence(card)) is is_changed


def test_cards_of_different_maps_are_alike():
    cards = [replace(run, partitions=moved(MAP, range(9 * n))) for n, run in enumerate(readings([4.6] * 6))]
    found = report(cards)
    assert not found.out and not any(card.differences or card.changes for card in found.cards)
