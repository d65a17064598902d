"""Access patterns of experiments: footprints, scattered blocks with probes, cold pairs of accesses."""

from dataclasses import dataclass

import numpy as np

from gpudissect.measure.cache.infer_line import SecondAccesses
from gpudissect.trace import Array, Trace
from gpudissect.workload import Explicit, Path, Shuffled

ELEMENTS_PER_PROBE = 24  # fewer would displace the lines of an LRU cache faster than the chain alone
MAX_PROBES = 4096  # per lap; bounds the size of a trace
MIN_LONG_CHAIN_BLOCKS = 1024  # with fewer blocks, several sets of them share a chain


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


@dataclass(frozen=True)
class ProbedChain:
    """A chain over scattered blocks that probes some of them at random."""

    order: Explicit
    picks: tuple[int, ...]  # positions of the probes
    warmup: int  # laps before the probes are meaningful


def probed_chain(
    blocks: Blocks, fetch: int, word: int, rng: np.random.Generator, max_probes: int = MAX_PROBES
) -> ProbedChain:
    """A chain over scattered blocks with probes at random moments, at most `max_probes` per lap over them.

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
        plain_laps, probed_lap, first_words = [0, word], 2 * word, range(0, fetch - 3 * word, 4 * word)
        sets = min(blocks.span // blocks.size // count, -(-MIN_LONG_CHAIN_BLOCKS * 8 // count))
    laps: list[Array] = []
    picks: list[Array] = []
    length = 0
    for first_word in first_words:
        offsets = scattered_offsets(sets * count, blocks.size, blocks.span, rng) + first_word
        for bases in offsets.reshape(sets, count):
            laps += [_visits(bases + shift, blocks.words) for shift in plain_laps]
            last, positions = _with_probes(bases + probed_lap, blocks.words, word, rng, max_probes)
            picks.append(positions + length + len(plain_laps) * count * len(blocks.words))
            laps.append(last)
            length += len(plain_laps) * count * len(blocks.words) + last.size
    return ProbedChain(Explicit(np.concatenate(laps)), tuple(np.concatenate(picks).tolist()), 0 if plain_laps else 1)


def _visits(bases: Array, words: tuple[int, ...]) -> Array:
    return np.add.outer(bases, np.array(words, np.int64)).ravel()


def _with_probes(
    bases: Array, words: tuple[int, ...], word: int, rng: np.random.Generator, max_probes: int
) -> tuple[Array, Array]:
    """A lap over the blocks with probes of some, one word further on, and the positions of the probes."""
    probes = max(1, min(bases.size // ELEMENTS_PER_PROBE, max_probes))
    probed = rng.choice(bases, size=probes, replace=False) + words[0] + word
    positions = np.sort(rng.choice(bases.size, size=probes, replace=False)) * len(words) + len(words)
    return np.insert(_visits(bases, words), positions, probed), positions + np.arange(probes)


def scattered_offsets(count: int, granule: int, span: int, rng: np.random.Generator) -> Array:
    """`count` distinct multiples of `granule` below `span`, in random order."""
    available = span // granule
    if count * 4 > available:
        return rng.permutation(available)[:count].astype(np.int64) * granule
    sampled = np.sort(rng.integers(0, available, size=count + count // 2 + 16))
    distinct = sampled[np.flatnonzero(np.diff(sampled, prepend=-1))]  # sorting is much faster than np.unique
    return rng.permutation(distinct)[:count].astype(np.int64) * granule


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
