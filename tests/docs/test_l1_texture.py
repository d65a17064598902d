"""The rules for lines of texture fetches in the L1 of an H200, on short runs."""

import l1_texture
import numpy as np
import pytest
from l1_storage import GLOBAL, LINEAR, LINES, READONLY, SETS, TEXTURE, linear, sets_of
from l1_texture import Step, predict

LAPS = 3
MAP = linear(LINEAR)


def lines_of_set(kind, number, count):
    """Lines in the same set, for either kind of access."""
    lines = np.arange(LINES)
    sets = sets_of(kind, lines)
    return lines[(sets if kind == TEXTURE else MAP[sets]) == number][:count]


def kernel(kind, count, laps=LAPS):
    return Step(kind, lines_of_set(kind, 5, count), laps, 0, np.empty(0, bool))


def misses(*run, texture_stays=True):
    """Misses of the last kernel in its last lap."""
    return int(predict(list(run), MAP, texture_stays)[-1][-1].sum())


@pytest.mark.parametrize("kind", [GLOBAL, READONLY])
@pytest.mark.parametrize("fetched", [1, 2, 3, 4])
def test_two_lines_of_texture_fetches_at_most_keep_their_ways(kind, fetched):
    free = 4 - min(fetched, 2)
    assert misses(kernel(TEXTURE, fetched), kernel(kind, free)) == 0
    assert misses(kernel(TEXTURE, fetched), kernel(kind, free + 1)) == free + 1


@pytest.mark.parametrize(
    "between", [[None], [kernel(TEXTURE, 1, laps=1)]], ids=["change of the carve-out", "texture fetches"]
)
def test_what_frees_the_ways(between):
    assert misses(kernel(TEXTURE, 4), *between, kernel(GLOBAL, 4)) == 0


def test_lines_without_a_hit_are_evicted():
    assert misses(kernel(TEXTURE, 4, laps=1), kernel(GLOBAL, 4)) == 0


def test_loads_leave_nothing():
    assert misses(kernel(GLOBAL, 4), kernel(READONLY, 4)) == 0


def test_an_empty_l1_is_the_rival():
    assert misses(kernel(TEXTURE, 4), kernel(GLOBAL, 4), texture_stays=False) == 0


def test_the_map_is_found_from_runs():
    """On misses as the rules predict them, with a constant."""
    of_loads, runs = MAP ^ 77, []
    numbers, rng = np.arange(SETS), np.random.default_rng(1)
    for bit in range(l1_texture.SET_BITS):
        held = np.concatenate([lines_of_set(TEXTURE, n, 2) for n in numbers[numbers >> bit & 1 == 1]])
        for half in np.split(numbers, 2):
            lines = np.arange(LINES)
            loaded = np.concatenate([lines[sets_of(GLOBAL, lines) == n][:3] for n in half])
            run = [
                Step(TEXTURE, held, LAPS, 0, np.empty(0, bool)),
                Step(GLOBAL, rng.permutation(loaded), LAPS, 0, None),
            ]
            missed = predict(run, of_loads, texture_stays=True)[-1]
            runs.append([run[0], Step(GLOBAL, run[1].lines, LAPS, 0, missed[None])])
    assert np.array_equal(l1_texture.observed_map(runs), of_loads)
