"""Sets, ways and index functions of random caches: what is found is the truth, and what has no name is not found."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_line import Lines
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.index import canonical, reduced, set_numbers
from tests.measure.conftest import bits, plain_l2
from tests.support.driving import estimates

PATIENT = settings(
    max_examples=24, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
LRU = Policy(PolicyKind.LRU)


def conflict_onset(cache):
    """Bytes in one piece that just fit: what the capacity experiment finds."""
    filled = np.zeros(cache.sets, dtype=int)
    numbers = set_numbers(cache.index, cache.line, cache.sets, np.arange(1 << 16) * cache.line)
    for line, number in enumerate(numbers.tolist()):
        filled[number] += 1
        if filled[number] > cache.ways[number]:
            return line * cache.line
    raise AssertionError("it never overflows")


def structure(gpu, cache, seed=0):
    """What is said of sets, ways (in order of size) and index, and the truth of it; the first None if not found."""
    known = {"line.l1": Lines(cache.line, None), "capacity.l1": conflict_onset(cache)}
    found = estimates(gpu, ["sets.l1"], seed, known)
    said = [found["l1", attribute] for attribute in ("sets", "ways", "index_function")]
    assert len({each.status for each in said}) == 1
    ways = cache.ways[0] if len(set(cache.ways)) == 1 else tuple(sorted(cache.ways))
    truth = [cache.sets, ways, canonical(cache.index, cache.line, cache.sets)]
    if said[0].status is not Status.FOUND:
        assert all(each.reason for each in said)
        return None, truth
    return [tuple(sorted(v)) if isinstance(v, tuple) else v for v in (each.value for each in said)], truth


noises = st.builds(
    Noise,
    seed=st.integers(0, 999),
    jitter=st.sampled_from([0.0, 0.1, 0.3]),
    outliers=st.sampled_from([0.0, 0.001, 0.005, 0.01]),
    drift=st.sampled_from([0.0, 0.002]),
)


@st.composite
def shapes(draw, kinds):
    """A cache with at least two lines in a set of several, of these kinds of index."""
    sector = draw(st.sampled_from([32, 64]))
    line = sector * draw(st.sampled_from([1, 1, 2, 4]))
    low, width = line.bit_length() - 1, draw(st.integers(0, 5))
    sets, kind = 1 << width, draw(st.sampled_from(kinds))
    if kind == "bits":
        chosen = draw(st.lists(st.integers(low, low + 7), min_size=width, max_size=width, unique=True))
        index = Index(IndexKind.BITS, bits=tuple(chosen))
    elif kind == "xor":
        masks = draw(st.lists(st.integers(1, (1 << 9) - 1), min_size=width, max_size=width))
        assume(len(reduced(masks)) == width)
        high = draw(st.lists(st.integers(0, 15), min_size=width, max_size=width))  # bits above the block looked at
        index = Index(IndexKind.XOR, masks=tuple((m | h << 9) * line for m, h in zip(masks, high, strict=True)))
    elif kind == "modulo":
        sets = draw(st.sampled_from([3, 5, 6, 7, 12, 20, 33]))
        index = Index(IndexKind.MODULO)
    elif kind == "granule":
        sets = draw(st.sampled_from([2, 3, 5, 6, 7]))
        index = Index(IndexKind.MODULO, granule=line * draw(st.sampled_from([2, 3, 4, 8])))
    else:
        sets = draw(st.integers(2, 8))
        table = list(range(sets)) + draw(st.lists(st.integers(0, sets - 1), min_size=1, max_size=sets))
        index = Index(IndexKind.TABLE, table=tuple(draw(st.permutations(table))))
    policy = draw(st.sampled_from(list(PolicyKind)))
    ways = draw(st.sampled_from([2, 4, 8, 16] if policy is PolicyKind.PLRU else [2, 3, 4, 5, 6, 8, 12, 16]))
    of_sets = (ways,) * sets
    if policy not in (PolicyKind.PLRU, PolicyKind.WEIGHTED) and draw(st.booleans()):
        of_sets = tuple(max(1, ways + draw(st.sampled_from([-1, 0, 0, 1, 9]))) for _ in range(sets))
    weights = tuple(range(1, ways + 1)) if policy is PolicyKind.WEIGHTED else ()
    shares = tuple(weight / sum(weights) for weight in weights)
    assume(sum(of_sets) >= 4)  # less is not told from the L2
    return Cache(of_sets, line, sector, index, Policy(policy, shares))


@given(cache=shapes(["bits", "xor", "modulo", "granule"]), noise=noises)
@PATIENT
def test_what_has_a_name_is_found_exactly(gpu_with, cache, noise):
    said, truth = structure(gpu_with(cache, plain_l2(), noise), cache, noise.seed)
    assert said == truth


def is_a_name_for(table, ways):
    """Whether a remainder or a linear index puts the same lines together as a table."""
    line = np.arange(4 * len(table) * 64)
    own = np.array(table)[line % len(table)]
    sets = len(ways)
    if np.array_equal(own[:, None] == own[None, :256], (line % sets)[:, None] == (line % sets)[None, :256]):
        return True
    return len(table) & (len(table) - 1) == 0


@given(cache=shapes(["table"]), noise=noises)
@PATIENT
def test_a_table_is_never_taken_for_something_simpler(gpu_with, cache, noise):
    """Two sets that look like one fit and miss by chance; halves of one fit and miss just as it does."""
    assume(not is_a_name_for(cache.index.table, cache.ways))
    said, _ = structure(gpu_with(cache, plain_l2(), noise), cache, noise.seed)
    assert said is None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "table", [(0, 1, 2, 0, 1, 3), (0, 1, 2, 3, 0, 1, 3, 2), (0, 1, 0, 2, 0, 1, 0, 3), (0, 1, 0, 2)]
)
def test_tables_that_are_nearly_periodic(gpu_with, table, seed):
    cache = Cache((8,) * (max(table) + 1), 32, 32, Index(IndexKind.TABLE, table=table), LRU)
    assert structure(gpu_with(cache, plain_l2(), Noise(seed=seed)), cache, seed)[0] is None


@pytest.mark.parametrize("bits_", [(16, 17, 18), (5, 6, 17), (15,)])
def test_bits_far_above_the_lines_looked_at_are_not_overlooked(gpu_with, bits_):
    cache = Cache((8,) * (1 << len(bits_)), 32, 32, Index(IndexKind.BITS, bits=bits_), LRU)
    said, truth = structure(gpu_with(cache, plain_l2()), cache)
    assert said in (None, truth)


def test_a_cache_whose_first_piece_conflicts_early_is_not_read_wrongly(gpu_with):
    """Seven sets chosen by blocks of 2 KiB: 8 lines of 56 fit in one piece, and twice as many scattered ones do."""
    cache = Cache((8,) * 7, 32, 32, Index(IndexKind.MODULO, granule=2048), LRU)
    found = estimates(gpu_with(cache, plain_l2()), ["sets.l1"])
    assert found["l1", "capacity"].value == 8 * 32
    assert found["l1", "sets"].status is Status.AMBIGUOUS


def test_kepler_texture(gpu_with):
    """MC16 table 5: 4 sets of 96 ways by bits 7 and 8, lines of 32 B."""
    cache = Cache((96,) * 4, 32, 32, Index(IndexKind.BITS, bits=(7, 8)), LRU)
    said, truth = structure(gpu_with(cache, plain_l2()), cache)
    assert said == truth == [4, 96, "bits 7 8"]


def test_fermi_l2_of_sets_of_five_and_seven_ways(gpu_with):
    cache = Cache((7, 5) * 16, 128, 32, bits(7, 5), LRU)
    said, truth = structure(gpu_with(cache, plain_l2()), cache)
    assert said == truth


def test_what_no_cache_can_answer_is_not_found(gpu_with):
    gpu = gpu_with(Cache((16,) * 4, 32, 32, bits(5, 2), LRU), plain_l2())
    assert structure(gpu_with(None, plain_l2()), replace(gpu.hierarchy.caches["l1"]))[0] is None
    short = estimates(gpu, ["sets.l1"], known={"line.l1": Lines(32, None), "capacity.l1": 1 << 29})
    assert short["l1", "sets"].status is Status.NOT_FOUND
    unknown = estimates(gpu, ["sets.l1"], known={"line.l1": Lines(32, None), "capacity.l1": None})
    assert unknown["l1", "ways"].status is Status.NOT_FOUND
