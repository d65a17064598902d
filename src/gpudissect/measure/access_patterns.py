"""Access patterns of experiments: footprints, scattered blocks with probes, cold pairs of accesses.

One thread follows a chain of a million lines of an L2 for 0.2 to 0.7 s. A thousand threads visit them in milliseconds,
and the cache holds as many of them afterwards: of random lines of an H200's L2, single accesses find 0.974 of 28 MiB
after laps of one thread and 0.968 after a lap of many threads, 0.917 and 0.916 of 32 MiB, 0.730 and 0.732 of 40 MiB.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.measure.cache.infer_line import SecondAccesses
from gpudissect.trace import Array, Trace
from gpudissect.workload import Chase, Explicit, Order, Path, PriorAccesses, Shuffled, Timing
from gpudissect.workload.order import narrowed

ELEMENTS_PER_PROBE = 24  # fewer would displace the lines of an LRU cache faster than the chain alone
MAX_PROBES = 4096  # per lap; bounds the size of a trace
MIN_LONG_CHAIN_BLOCKS = 1024  # with fewer blocks, several sets of them share a chain
MIN_FILLED_BLOCKS = 4096  # from which on many threads visit the blocks of an L2
FILLING_THREADS, FILLING_LAPS = 1024, 2  # the second lap displaces what the first left of other data
BLOCKS_PER_PROBE = 48  # so that probed blocks, which are resident afterwards, are few


def footprint(size: int, stride: int, seed: int) -> Shuffled:
    """One access every `stride` bytes of `size` bytes, in random order."""
    return Shuffled(count=max(1, size // stride), stride=stride, seed=seed)


@dataclass(frozen=True)
class Blocks:
    """Aligned blocks of a probed chain, scattered over `span` bytes; a probe visits the word behind the first one."""

    count: int
    size: int  # bytes
    words: tuple[int, ...]  # byte offsets visited in each block, in turn
    span: int


def filled(path: Path, order: Order) -> PriorAccesses:
    """Laps of many threads over a footprint that they share with the timed thread."""
    return PriorAccesses(path=path, order=order, laps=FILLING_LAPS, threads=min(FILLING_THREADS, order.count))


def next_accesses(prior: PriorAccesses, samples: int) -> Explicit:
    """The first accesses of another lap, each to the word behind the one visited."""
    return Explicit.of_distinct(prior.first_offsets(samples) + prior.path.word)


def random_probes(path: Path, blocks: Blocks, rng: np.random.Generator, max_probes: int = MAX_PROBES) -> Chase:
    """Single accesses to random blocks of an L2 after many threads have visited all of them, at most `max_probes`."""
    bases = scattered_offsets(blocks.count, blocks.size, blocks.span, rng)
    words = np.array(blocks.words, np.int64)
    order = Explicit.of_distinct(np.add.outer(bases, words).ravel())
    probed = bases[rng.choice(blocks.count, min(max_probes, blocks.count // BLOCKS_PER_PROBE), replace=False)]
    return Chase(
        path=path,
        order=Explicit.of_distinct(probed + words[0] + path.word),
        timing=Timing.EACH,
        warmup=0,
        alone=True,
        before=(filled(path, order),),
    )


@dataclass(frozen=True)
class ProbedChain:
    """A chain over scattered blocks that probes some of them at random."""

    order: Explicit
    picks: tuple[int, ...]  # positions of the probes
    warmup: int  # laps before the probes are meaningful


def probed_chain(blocks: Blocks, fetch: int, word: int, rng: np.random.Generator) -> ProbedChain:
    """A chain over scattered blocks with probes at random moments, at most `MAX_PROBES` per lap over them.

    A probe visits another word of its granule of `fetch` bytes, so that no word occurs twice. Many blocks: a lap over
    them, then one over other words of them, with probes; if granules have too few words for that, one lap with probes,
    run twice. (Then the same lines are probed twice, and a cache that protects lines accessed again holds them for just
    that: a segmented LRU seems to hold nearly twice too many.) Few blocks: as many sets of them as make a long chain,
    each visited three times before the next, for one set would allow one probe only.
    """
    count, last_word = blocks.count, max(offset % fetch for offset in blocks.words)
    shift = last_word + 2 * word  # behind the last visited word there is one for the probe
    many, sets, first_words = count >= MIN_LONG_CHAIN_BLOCKS, 1, range(1)
    if many and shift + last_word + 2 * word <= fetch:
        plain_laps, probed_lap = [0], shift
    elif many or fetch < 4 * word:
        plain_laps, probed_lap = [], 0
    else:
        plain_laps, probed_lap = [0, word], 2 * word
        first_words = range(0, fetch - last_word - 3 * word, last_word + 4 * word)
        sets = min(blocks.span // blocks.size // count, -(-MIN_LONG_CHAIN_BLOCKS * 8 // count))
    words = np.array(blocks.words, np.int64)
    probes = max(1, min(count // ELEMENTS_PER_PROBE, MAX_PROBES))
    plain_size, probed_size = len(plain_laps) * count * words.size, count * words.size + probes
    laps: list[Array] = []
    picks: list[Array] = []
    for first_word in first_words:
        bases = scattered_offsets(sets * count, blocks.size, blocks.span, rng).reshape(sets, count) + first_word
        probed, moments = np.moveaxis(_samples(count, probes, (sets, 2), rng), 1, 0)
        positions = (np.sort(moments, axis=1) + 1) * words.size + np.arange(probes)
        part = np.empty((sets, plain_size + probed_size), np.int64)
        visits = np.add.outer(bases, words).reshape(sets, -1)
        for lap, shift in enumerate(plain_laps):
            np.add(visits, shift, out=part[:, lap * count * words.size : (lap + 1) * count * words.size])
        rows = np.arange(sets)[:, None]
        probe_places = (positions + rows * probed_size).ravel()
        probed_part, is_visit = np.empty(sets * probed_size, np.int64), np.ones(sets * probed_size, dtype=bool)
        is_visit[probe_places] = False
        probed_part[probe_places] = (bases.ravel()[probed + rows * count] + (words[0] + word)).ravel()
        probed_part[is_visit] = visits.ravel()
        np.add(probed_part.reshape(sets, probed_size), probed_lap, out=part[:, plain_size:])
        picks.append((np.arange(sets)[:, None] + len(laps) * sets) * part.shape[1] + plain_size + positions)
        laps.append(part)
    sequence, pick = (np.concatenate(parts).ravel() for parts in (laps, picks))
    in_block = [lap + each for lap in (*plain_laps, probed_lap) for each in blocks.words]
    places = [first + each for first in first_words for each in (*in_block, probed_lap + blocks.words[0] + word)]
    return ProbedChain(_chain_of_blocks(sequence, places, blocks.size), tuple(pick.tolist()), 0 if plain_laps else 1)


def _chain_of_blocks(offsets: Array, places: Sequence[int], size: int) -> Explicit:
    """A chain over different blocks of `size` bytes, one word at each of `places` in all of them or some."""
    is_distinct = len(set(places)) == len(places) and max(places) < size
    return Explicit.of_distinct(offsets) if is_distinct else Explicit(offsets)  # which sorts them


def _samples(count: int, size: int, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Samples of `size` distinct numbers below `count`, shape (`*shape`, size)."""
    if size == 1:  # `choice` draws the same number, one call each
        return rng.integers(0, count, size=(*shape, 1))
    if shape[0] == 1:
        return np.stack([rng.choice(count, size=size, replace=False) for _ in range(shape[1])])[None]
    return np.argpartition(rng.random((*shape, count)), size - 1, axis=-1)[..., :size]


def scattered_offsets(count: int, granule: int, span: int, rng: np.random.Generator) -> Array:
    """`count` distinct multiples of `granule` below `span`, in random order."""
    available = span // granule
    if count * 4 > available:
        return rng.permutation(available)[:count].astype(np.int64) * granule
    sampled = narrowed(rng.integers(0, available, size=count + count // 2 + 16))
    sampled.sort()  # in the narrow type, much faster than np.unique
    distinct = sampled[np.append(True, sampled[1:] != sampled[:-1])].astype(np.int64)
    return rng.permutation(distinct)[:count] * granule


@dataclass(frozen=True)
class ColdPairs:
    """Pairs of accesses to cold blocks: positions of the second ones by distance (bytes) from the first."""

    order: Explicit
    after: dict[int, Array]
    before: dict[int, Array]

    def second_accesses(self, trace: Trace) -> SecondAccesses:
        """Cycles of the second accesses, from a trace of this chain with every access timed."""
        sides = ({d: trace.cycles[at] for d, at in side.items()} for side in (self.after, self.before))
        return SecondAccesses(*sides)


def cold_pairs(path: Path, limit: int, rng: np.random.Generator) -> ColdPairs:
    """Access a word of a cold aligned block, then one at a power-of-two distance, in random order of blocks.

    Half of the pairs go from the block's start on, half back to it.
    """
    block = 4096 if limit >= 1 << 20 else 1024
    distances = [d for d in (path.word << i for i in range(12)) if path.word < d < block]
    repeats = max(1, min(16, limit // block // len(distances) // 2))
    steps = rng.permutation(np.repeat([*distances, *(-d for d in distances)], repeats))
    places = rng.permutation(min(limit // block, 4 * steps.size))[: steps.size].astype(np.int64) * block
    sequence = np.empty(2 * steps.size, np.int64)
    sequence[0::2] = places + np.maximum(-steps, 0)
    sequence[1::2] = places + np.maximum(steps, 0)
    after, before = ({d: 2 * np.flatnonzero(steps == sign * d) + 1 for d in distances} for sign in (1, -1))
    return ColdPairs(Explicit(sequence), after, before)
