"""Sets, ways and index functions of random caches: what is found is the truth; an index without a name is not found."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache import plan_sets
from gpudissect.measure.cache.plan_line import Lines
from gpudissect.measure.cache.plan_sets import _with_spare
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Route
from gpudissect.simulation.cache.index import canonical, reduced, set_numbers
from gpudissect.workload import Path
from tests.measure.conftest import bits, plain_l2
from tests.support.driving import estimates
from tests.support.geometries import orders

SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
PATIENT = settings(max_examples=24, deadline=None, derandomize=True, suppress_health_check=SUPPRESSED)
LRU = Policy(PolicyKind.LRU)


def fitting_bytes(cache):
    """Bytes in one piece that just fit: what the capacity experiment finds."""
    filled = np.zeros(cache.sets, dtype=int)
    numbers = set_numbers(cache.index, cache.line, cache.sets, np.arange(1 << 16) * cache.line)
    for line, number in enumerate(numbers.tolist()):
        filled[number] += 1
        if filled[number] > cache.ways[number]:
            return line * cache.line
    raise AssertionError("it never overflows")


def found_and_true(gpu, cache, seed=0):
    """Sets, ways (sorted) and index as found, None if not found; and the truth."""
    known = {"line.l1": Lines(cache.line, None), "capacity.l1": fitting_bytes(cache)}
    found = estimates(gpu, ["sets.l1"], seed, known)
    structure = [found["l1", attribute] for attribute in ("sets", "ways", "index_function")]
    assert len({estimate.status for estimate in structure}) == 1
    ways = cache.ways[0] if len(set(cache.ways)) == 1 else tuple(sorted(cache.ways))
    truth = [cache.sets, ways, canonical(cache.index, cache.line, cache.sets)]
    if structure[0].status is not Status.FOUND:
        assert all(estimate.reason for estimate in structure)
        return None, truth
    values = [estimate.value for estimate in structure]
    return [tuple(sorted(value)) if isinstance(value, tuple) else value for value in values], truth


noises = st.builds(
    Noise,
    seed=st.integers(0, 999),
    jitter=st.sampled_from([0.0, 0.1, 0.3]),
    outliers=st.sampled_from([0.0, 0.001, 0.005, 0.01]),
    drift=st.sampled_from([0.0, 0.002]),
)


@st.composite
def random_caches(draw, kinds):
    """A cache with at least two lines in a set of several, and an index of one of these kinds."""
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
        high = draw(st.lists(st.integers(0, 15), min_size=width, max_size=width))  # bits above the tested block
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
    ways_of_sets = (ways,) * sets
    if policy not in (PolicyKind.PLRU, PolicyKind.WEIGHTED) and draw(st.booleans()):
        ways_of_sets = tuple(max(1, ways + draw(st.sampled_from([-1, 0, 0, 1, 9]))) for _ in range(sets))
    weights = range(1, ways + 1) if policy is PolicyKind.WEIGHTED else ()
    shares = tuple(weight / sum(weights) for weight in weights)
    order = draw(orders(min(ways_of_sets))) if policy is PolicyKind.ORDER else ()
    assume(sum(ways_of_sets) >= 4)  # fewer cannot be distinguished from the L2
    return Cache(ways_of_sets, line, sector, index, Policy(policy, shares, order))


@given(cache=random_caches(["bits", "xor", "modulo", "granule"]), noise=noises)
@PATIENT
def test_a_structure_with_a_name_is_found_exactly(gpu_with, cache, noise):
    found, truth = found_and_true(gpu_with(cache, plain_l2(), noise), cache, noise.seed)
    assert found == truth


def has_simpler_name(table, sets):
    """Whether a remainder or a linear index puts the same lines together as a table."""
    line = np.arange(4 * len(table) * 64)
    by_table, by_remainder = np.array(table)[line % len(table)], line % sets
    pairs = (numbers[:, None] == numbers[None, :256] for numbers in (by_table, by_remainder))
    return np.array_equal(*pairs) or len(table) & (len(table) - 1) == 0


@given(cache=random_caches(["table"]), noise=noises)
@PATIENT
def test_a_table_is_never_taken_for_a_simpler_index(gpu_with, cache, noise):
    """Two sets taken for one fit and miss by chance; halves of one fit and miss just as it does."""
    assume(not has_simpler_name(cache.index.table, cache.sets))
    found, _ = found_and_true(gpu_with(cache, plain_l2(), noise), cache, noise.seed)
    assert found is None


NEARLY_PERIODIC = [(0, 1, 2, 0, 1, 3), (0, 1, 2, 3, 0, 1, 3, 2), (0, 1, 0, 2, 0, 1, 0, 3), (0, 1, 0, 2)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("table", NEARLY_PERIODIC)
def test_tables_that_are_nearly_periodic(gpu_with, table, seed):
    cache = Cache((8,) * (max(table) + 1), 32, 32, Index(IndexKind.TABLE, table=table), LRU)
    assert found_and_true(gpu_with(cache, plain_l2(), Noise(seed=seed)), cache, seed)[0] is None


@pytest.mark.parametrize("index_bits", [(16, 17, 18), (5, 6, 17), (15,)])
def test_bits_far_above_the_tested_lines_are_not_missed(gpu_with, index_bits):
    cache = Cache((8,) * (1 << len(index_bits)), 32, 32, Index(IndexKind.BITS, bits=index_bits), LRU)
    found, truth = found_and_true(gpu_with(cache, plain_l2()), cache)
    assert found in (None, truth)


def test_a_cache_that_conflicts_early_in_one_piece_is_not_misread(gpu_with):
    """Seven sets by blocks of 2 KiB: 8 lines of 56 fit in one piece, and twice as many scattered ones do."""
    cache = Cache((8,) * 7, 32, 32, Index(IndexKind.MODULO, granule=2048), LRU)
    found = estimates(gpu_with(cache, plain_l2()), ["sets.l1"])
    assert found["l1", "capacity"].value == 8 * 32
    assert found["l1", "sets"].status is Status.AMBIGUOUS


@pytest.mark.parametrize(
    "cache",
    [
        pytest.param(Cache((96,) * 4, 32, 32, bits(7, 2), LRU), id="texture cache of Kepler, MC16 table 5"),
        pytest.param(Cache((7, 5) * 16, 128, 32, bits(7, 5), LRU), id="sets of five and seven ways"),
    ],
)
def test_published_structures(gpu_with, cache):
    found, truth = found_and_true(gpu_with(cache, plain_l2()), cache)
    assert found == truth


XOR_ABOVE = Index(IndexKind.XOR, masks=(1 << 7 | 1 << 9, 1 << 8 | 1 << 10))


@pytest.mark.parametrize(
    ("cache", "line", "ways", "fit"),
    [
        (Cache((96,) * 4, 32, 32, bits(7, 2), LRU), 128, 96, 24),  # the texture cache of Kepler, MC16 figure 7
        (Cache((16,) * 4, 32, 32, XOR_ABOVE, LRU), 128, 16, 4),
        (Cache((8,) * 3, 64, 64, Index(IndexKind.MODULO, granule=128), LRU), 128, 8, 4),
        (Cache((24,) * 4, 128, 32, bits(7, 2), LRU), None, 24, None),  # the same as MC16 figure 4 shows it
        (Cache((6,) * 4, 32, 32, bits(7, 2), LRU), None, 6, None),  # no whole number of lines of 128 B
        (Cache((128,) * 4, 32, 32, bits(11, 2), LRU), None, 128, None),  # no line has 64 sectors
        (Cache((64,), 32, 32, bits(5, 0), LRU), None, 64, None),
    ],
)
def test_what_distinguishes_lines_from_sectors_of_larger_ones(gpu_with, cache, line, ways, fit):
    known = {"line.l1": Lines(cache.line, None), "capacity.l1": fitting_bytes(cache)}
    found = estimates(gpu_with(cache, plain_l2()), ["sets.l1"], known=known)
    assert found["l1", "ways"].value == ways
    caveats = [found["l1", name].caveats for name in ("sets", "ways")]
    if line is None:
        assert not any("sectors" in text for texts in caveats for text in texts)
        return
    text = f"not {fit} ways of {line} B lines in sectors of {cache.line} B: {ways} random addresses fit in a set"
    assert all(text in texts for texts in caveats)


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(
            Index(IndexKind.XOR, masks=(*(1 << b | 1 << b + 10 for b in range(5, 9)), 512, 1024, 2048)), id="xor"
        ),
        pytest.param(Index(IndexKind.MODULO), id="remainder"),
    ],
)
def test_a_set_of_which_the_first_block_has_hardly_a_line(gpu_with, monkeypatch, index):
    """With 64 lines to test one by one instead of 16384; no cache of a test needs as many sets."""
    monkeypatch.setattr(plan_sets, "MAX_BLOCK_BITS", 6)
    cache = Cache((2,) * (128 if index.masks else 61), 32, 32, index, LRU)
    found, truth = found_and_true(gpu_with(cache, plain_l2()), cache)
    assert found == truth


def test_the_capacity_of_unequal_sets_is_exact_where_all_their_lines_stay_resident(gpu_with):
    """Some 500 lines fit in one piece and 512 in all: too close for the residency of random lines."""
    cache = Cache((16,) * 30 + (15, 17), 64, 64, Index(IndexKind.MODULO), LRU)
    capacity = estimates(gpu_with(cache, plain_l2()), ["sets.l1"])["l1", "capacity"]
    assert capacity.low == capacity.value == capacity.high == 512 * 64


def test_a_structure_that_cannot_be_tested_is_not_found(gpu_with):
    cache = Cache((16,) * 4, 32, 32, bits(5, 2), LRU)
    assert found_and_true(gpu_with(None, plain_l2()), cache)[0] is None
    for capacity in (1 << 29, None):
        known = {"line.l1": Lines(32, None), "capacity.l1": capacity}
        found = estimates(gpu_with(cache, plain_l2()), ["sets.l1"], known=known)
        assert found["l1", "sets"].status is found["l1", "ways"].status is Status.NOT_FOUND


def test_lines_that_a_full_set_has_already_are_replaced_by_one_spare_line():
    exact, others = np.array([3, 8, 11]), np.array([8, 20, 3, 21])
    assert _with_spare(exact, others, 99).tolist() == [3, 8, 11, 99, 20, 21]
    assert _with_spare(exact, np.array([20, 8]), 99).tolist() == [3, 8, 11, 20, 99]


def test_paths_into_one_array_have_their_own_index_functions():
    indices = {
        Path.GLOBAL: (None, "bits 7 8 9 10"),
        Path.READONLY: (Index(IndexKind.BITS, bits=(8, 9, 10, 11)), "bits 8 9 10 11"),
        Path.TEXTURE: (Index(IndexKind.XOR, masks=(0x1080, 1 << 8, 1 << 9, 1 << 10)), "xor 7^12 8 9 10"),
    }
    caches = {"l1": Cache((4,) * 16, 128, 32, bits(7, 4), Policy(PolicyKind.LRU)), "l2": plain_l2()}
    routes = {path: Route(("l1", "l2"), (40, 230), 500, timer=12, index=index) for path, (index, _) in indices.items()}
    routes[Path.GLOBAL_L2] = Route(("l2",), (230,), 500, timer=12)
    device = SimulatedGpu(Hierarchy(caches, routes), spec="sim:test", name="test", noise=Noise(seed=1))
    found = estimates(device, ["sets.l1", "sets.readonly", "sets.texture"])
    for element, (_, name) in zip(("l1", "readonly", "texture"), indices.values(), strict=True):
        assert found[element, "sets"].value == 16 and found[element, "ways"].value == 4
        assert found[element, "index_function"].value == name
