"""The rules for the data storage of the L1 of an H200, in a bank with room for four lines."""

from pathlib import Path

import l1_storage
import numpy as np
import pytest
from l1_storage import GLOBAL, LINEAR, ROOMS, SECTORS, SEQUENCE, SETS, TEXTURE, WAYS, Bank, Run, linear, predict

from gpudissect.results.files import load
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind, Room
from gpudissect.simulation.cache.models import CacheModel

ROOM = 4


def full_bank(sets=range(ROOM + 1), is_texture=False):
    """A bank with one line more than its room, a line in each of these sets."""
    bank = Bank(ROOM)
    for number in sets:
        bank.access(number, number * SECTORS, is_texture)
    return bank


def present(bank, lines):
    """Which of these lines, by the number of a line, are stored."""
    return [line for line in lines if any(line in each.lines for each in bank._sets)]


def test_one_line_more_than_the_room_is_stored():
    assert present(full_bank(), range(5)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("unit", "place", "left"),
    [(4 * SECTORS, 4, [1, 2, 3, 4]), (4 * SECTORS + 1, 4, [1, 2, 3, 4]), (7 * SECTORS, 7, [7])],
    ids=["a hit evicts one line", "and so does a sector miss", "a fill of a free way evicts five"],
)
def test_evictions(unit, place, left):
    bank = full_bank()
    bank.access(place, unit, is_texture=False)
    assert present(bank, range(8)) == left


def test_a_replacement_evicts_its_victim_and_two_lines():
    bank = Bank(ROOM)
    for line in (0, 1, 8, 16, 24):  # four of them in set 3
        bank.access(3 if line % 8 == 0 else line, line * SECTORS, is_texture=False)
    bank.access(3, 32 * SECTORS, is_texture=False)
    assert present(bank, [0, 1, 8, 16, 24, 32]) == [16, 24, 32]


@pytest.mark.parametrize(("is_texture", "left"), [(False, [1, 2, 3, 4]), (True, [0, 1, 2, 3, 4])])
def test_only_loads_that_hit_may_lose_their_line(is_texture, left):
    bank = full_bank(is_texture=is_texture)
    bank.access(0, 0, is_texture)
    assert present(bank, range(5)) == left


def test_a_miss_passes_over_its_own_line_once():
    bank = full_bank(range(1, 6))
    bank.access(0, 6 * SECTORS, is_texture=False)  # the first set is its own
    assert present(bank, range(7)) == [6]
    bank = full_bank((1, 3, 4, 5, 6))
    bank.access(2, 2 * SECTORS, is_texture=False)  # the second set is its own
    assert present(bank, range(7)) == [2, 6]


def test_a_sector_miss_whose_line_is_met_first_evicts_nothing():
    bank = full_bank()
    bank.access(0, 1, is_texture=False)
    assert present(bank, range(5)) == [0, 1, 2, 3, 4]


def test_hits_of_an_evicted_line_do_not_count():
    one = l1_storage.Set()
    for line in (1, 2, 2):
        one.access(line)
    one.lines.reverse()
    one.evict()
    one.access(2)
    one.access(3)
    assert one.lines == [3, 2, 1]


def test_the_sequence_has_every_set_once():
    assert sorted(linear(SEQUENCE).tolist()) == sorted(linear(LINEAR).tolist()) == list(range(SETS))


def test_the_constant_is_found_from_runs():
    rng, runs = np.random.default_rng(1), []
    kib, constant = max(ROOMS), 77
    for _ in range(3):
        units = rng.permutation(np.repeat(rng.permutation(8192)[:400], 2)) * SECTORS
        missed = predict(Run(kib, GLOBAL, 0, units, np.empty(0, bool)), constant, ROOMS[kib])
        runs.append(Run(kib, GLOBAL, 0, units, missed))
    found = l1_storage.fitted_constant(runs)
    assert all(np.array_equal(predict(run, found, ROOMS[kib]), run.missed) for run in runs)


def test_texture_fetches_need_no_constant():
    units = np.arange(400) * SECTORS
    run = Run(max(ROOMS), TEXTURE, 0, units, np.empty(0, bool))
    assert np.array_equal(predict(run, 0, 42), predict(run, 77, 42))


@pytest.mark.parametrize("room", ROOMS.values())
def test_a_simulated_cache_follows_the_same_rules(room):
    sets, rng = 128, np.random.default_rng(room)
    cache = Cache((WAYS,) * sets, 128, 32, Index(IndexKind.MODULO), Policy(PolicyKind.LAST_TWO_HITS), room=Room(room))
    units = rng.integers(2 * room, size=3000) * SECTORS + rng.integers(2, size=3000)
    bank = Bank(room)
    expected = [bank.access(unit // SECTORS % sets, unit, is_texture=False) for unit in units.tolist()]
    assert CacheModel(cache).access_many(units * 32).tolist() == expected


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_the_page_has_the_numbers_of_held_out_accesses_in_the_results(gpu):
    docs = Path(__file__).parents[2] / "docs"
    prediction = load(docs / "results" / f"{gpu}.json").prediction
    caches = [each for each in prediction.elements if each.element in ("l1", "readonly", "texture")]
    paths = [each for each in prediction.paths if each.path in ("global", "readonly", "texture")]
    assert {each.agreement for each in (*caches, *paths)} == {1.0}
    page = (docs / "l1.md").read_text(encoding="utf-8")
    for each in (caches, paths):
        assert f"0 of {sum(one.accesses for one in each):,} wrong" in page
