"""What the requests of a memory instruction need: passes through the pipe of loads and stores, bytes of each level."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.model.card import Card
from gpudissect.explanation.reuse import SECTOR_BYTES
from gpudissect.explanation.rows import distinct_in_rows, distinct_rows, numbered
from gpudissect.units import WARP_SIZE

SECTOR, LINE = SECTOR_BYTES, 128
"""Bytes of a sector and of a line of the L1 and L2 of every GPU from Volta on (measured: l1.fetch_granularity)."""
BANKS, BANK_BYTES = 32, 4
TAG_BANKS = 0b11010111101101111, 0b101101010111011010
"""Bits of the number of a line whose parities select one of four banks of tags of the L1: those of an H200, measured
with loads of up to 32 lines that hit (ADR 23). They are sums of the bits of `l1.index_function`."""
MERGED_BYTES = 48.0  # per cycle from the L2 to an SM if others read the same lines: matrix multiplications (ADR 23)
LOOKUP_BYTES = 60.0  # that the L2 returns while it looks up a line: an H200 looks up 152 random lines in a ns
PART_OF_LINE, PART_OF_SECTOR = 18.0, 42.0  # bytes per line and per partial sector of a store, without a far partition
STORE_LOOKUPS = 2.5  # that a store to a far line takes after the first: fitted to a naive transpose on an H200
UNIT, MAX_SHARE = 256, 1 / 250
"""Bytes with one place in the L2, and the largest share of the lookups that a sector takes: waiting requests for one
sector are served together. Random sectors of a table (`ld.cg`, all SMs): 107 in a ns of 64 KiB, which have 64 places,
on an H100 and an H200; half as many of 16 KiB, 31 of 8, 36 of 4, 21 of 1 KiB, 40 of 512 bytes."""
SLICES, HASHES, MULTIPLIER = 64, 8, 0x9E3779B1  # of the L2; over which the busiest slice is averaged
REGION = 8  # parts of 16 KiB in which even ones have one half of the places and odd ones the other
FLOAT_INTERVAL = 2.42  # times that of an integer atomic at one sector, at which floats take 3.5 cycles: H100
MIN_SCATTERED_LINES, MAX_SPAN = 4, 4  # lines of a scattered request, and their span relative to their number
_LANES = np.arange(WARP_SIZE)

Bools = NDArray[np.bool_]
Addresses = NDArray[np.uint64]


@dataclass(frozen=True)
class Requests:
    """Means over the requests of one instruction, a request being one access of a warp.

    `passes`: cycles of the data banks of the L1 and shared memory; distinct addresses of a constant load. `tags`:
    cycles of the tag banks of the L1, which overlap with data cycles of other requests. `in_sm`: share that ends
    in the SM, `in_l2`: in the SM or the L2. `l2_bytes`: moved between SM and L2 by a request that goes there;
    `dram_bytes`: by one that goes on to memory. `covered`: share of the bytes of its sectors that its lanes access.
    `lines`: different lines of a request; `scattered`: share of them in requests whose lines lie far apart; `random`:
    time of such a line in memory, relative to a load of it; `operations`: of an atomic in the L2; `hot`: share of them
    at the busiest slice, `hottest`: at the busiest sector. `crossing`: share of the lines that go to the far partition
    of the L2; `far`: of those that hit; `merged`: share of the requests to the L2 that it merges with one of another
    SM. `from_memory`: share of all sectors, also of those that hit the L1; `new`: share that is new to their block;
    `crowded`: time of the L2 for a line that misses the L1 if no line hits it, relative to lines in all slices alike.
    `sector_dram_bytes`: bytes that each sector from memory moves. `predicated_on`: share of the executions whose
    predicate is true: only these make a request. `access`: index in the sample, None once the simulated L1 has
    determined the hits; `is_whole`: the sample has all requests that a warp makes.
    """

    lanes: float
    passes: float
    sectors: float
    tags: float = 0.0
    in_sm: float = 1.0
    in_l2: float = 1.0
    l2_bytes: float = 0.0
    dram_bytes: float = 0.0
    covered: float = 1.0
    lines: float = 1.0
    scattered: float = 0.0
    random: float = 1.0
    operations: float = 0.0
    hot: float = 0.0
    hottest: float = 0.0
    crossing: float = 0.0
    far: float = 0.0
    merged: float = 0.0
    crowded: float = 1.0
    from_memory: float = 0.0
    new: float = 1.0
    sector_dram_bytes: float = 0.0
    predicated_on: float = 1.0
    access: int | None = None
    is_whole: bool = False

    @property
    def l1_hits(self) -> float:
        """Share of the requested sectors that hit the L1."""
        return max(0.0, 1 - self._to_l2 / self.sectors) if self.sectors else 1.0

    @property
    def l2_hits(self) -> float | None:
        """Share of the sectors that miss the L1 which hit the L2; None if none does."""
        return max(0.0, 1 - self.from_memory * self.sectors / self._to_l2) if self._to_l2 else None

    @property
    def memory_bytes(self) -> float:
        """Bytes that a request moves between the L2 and memory, on average."""
        return (1 - self.in_l2) * self.dram_bytes / self.random

    @property
    def _to_l2(self) -> float:
        return (1 - self.in_sm) * self.l2_bytes / SECTOR


def active(lanes: NDArray[np.uint32]) -> Bools:
    """Lanes of each request from their masks, shape (requests, 32)."""
    return (lanes[:, None] >> _LANES & 1).astype(bool)


def bank_passes(
    addresses: Addresses, is_active: Bools, size: int, *, merged: bool = True, paired: bool = False
) -> NDArray[np.int64]:
    """Passes of shared memory for each request of shape (requests, 32).

    Each pass reads one word of every bank; lanes that want the same word share it if `merged` (loads; atomics do not).
    Accesses of 8 and 16 bytes are served for half and quarter warps (CUDA C++ Programming Guide, Shared Memory). If
    `paired` (loads from shared memory) two neighbouring groups are served together where neighbouring lanes, or those
    two apart, have one address: an H200 takes 1 and 2 passes for 8 and 16 bytes if all lanes do.
    """
    words = max(1, size // BANK_BYTES)
    group = WARP_SIZE // words
    total = np.zeros(len(addresses), dtype=np.int64)
    for first in range(0, WARP_SIZE, 2 * group):
        pair = slice(first, min(WARP_SIZE, first + 2 * group))
        apart = sum(
            _group_passes(addresses[:, start : start + group], is_active[:, start : start + group], words, merged)
            for start in range(first, pair.stop, group)
        )
        if words > 1 and paired:
            part, on = addresses[:, pair], is_active[:, pair]
            apart = np.where(_is_paired(part, on), _group_passes(part, on, words, merged), apart)
        total += apart
    return np.maximum(total, 1)


def _group_passes(addresses: Addresses, on: Bools, words: int, merged: bool) -> NDArray[np.int64]:
    part = addresses // np.uint64(BANK_BYTES)
    each = (part[:, :, None] + np.arange(words)).astype(np.uint64).reshape(len(addresses), -1)
    return _max_words_per_bank(each, np.repeat(on, words, axis=1), merged)


def _is_paired(addresses: Addresses, on: Bools) -> Bools:
    """Whether all lanes of each request share their address with the next lane, or all with the one two apart."""
    lanes = np.arange(addresses.shape[1])
    found = np.zeros(len(addresses), dtype=bool)
    for distance in (1, 2):
        other = lanes ^ distance
        found |= ((addresses == addresses[:, other]) | ~on | ~on[:, other]).all(axis=1)
    return found


def _max_words_per_bank(words: Addresses, on: Bools, merged: bool, banks: int = BANKS) -> NDArray[np.int64]:
    """The largest number of words (of different ones, if merged) that one bank must serve, for each request."""
    served, counts = distinct_in_rows(words, on) if merged else (words, on)
    bank = np.arange(len(words))[:, None] * banks + (served % np.uint64(banks)).astype(np.int64)
    return np.asarray(np.bincount(bank[counts], minlength=len(words) * banks).reshape(-1, banks).max(axis=1))


def tag_passes(addresses: Addresses, is_active: Bools) -> NDArray[np.int64]:
    """Passes through the tags of the L1 for each request of shape (requests, 32): one line of each bank at a time."""
    lines = addresses // np.uint64(LINE)
    bank = np.zeros(lines.shape, dtype=np.int64)
    for mask in TAG_BANKS:
        bank = 2 * bank + (np.bitwise_count(lines & np.uint64(mask)) & 1)
    return _max_words_per_bank(lines * np.uint64(4) + bank.astype(np.uint64), is_active, merged=True, banks=4)


def atomic_operations(addresses: Addresses, is_active: Bools, size: int) -> NDArray[np.int64]:
    """Operations of the L2 for each atomic request of shape (requests, 32).

    Lanes with different words of a sector share one, lanes with one word are serialized: on an H200, 32 lanes of one
    word take as long as 32 lanes of different sectors.
    """
    rows = np.repeat(np.arange(len(addresses)), addresses.shape[1]).reshape(addresses.shape)[is_active]
    words = (addresses[is_active] // np.uint64(size)).astype(np.int64)
    first, word = distinct_rows(rows, words)
    lanes = np.bincount(word)
    sector, of = distinct_rows(rows[first], words[first] * size // SECTOR)
    max_lanes = np.zeros(len(sector), dtype=np.int64)
    np.maximum.at(max_lanes, of, lanes)
    return np.bincount(rows[first][sector], max_lanes, minlength=len(addresses)).astype(np.int64)


def concentration(addresses: Addresses, is_active: Bools, of: NDArray[np.int64], unit: int) -> float:
    """Probability that lanes of two blocks, or warps, access the same `unit` bytes; at most the share of the hottest.

    `of`: number of the block or warp of each request.
    """
    rows, _ = np.nonzero(is_active)
    pairs = numbered(addresses[is_active] // np.uint64(unit))
    blocks = numbered(of)[rows]
    together = np.bincount(pairs).astype(np.float64)
    alone = np.bincount(distinct_rows(pairs, blocks)[1]).astype(np.float64)
    different = len(rows) ** 2 - (np.bincount(blocks).astype(np.float64) ** 2).sum()
    return float(((together**2).sum() - (alone**2).sum()) / different) if different else 0.0


def shared_units(addresses: Addresses, is_active: Bools, of: NDArray[np.int64], unit: int) -> NDArray[np.float64]:
    """Share of all accesses by lanes, of each `unit` bytes that several blocks access; `of`: block of each request."""
    rows, _ = np.nonzero(is_active)
    units = numbered(addresses[is_active] // np.uint64(unit))
    first, _ = distinct_rows(units, numbered(of)[rows])
    return np.bincount(units)[np.bincount(units[first]) > 1] / max(1, len(rows))


def crowded(sectors: NDArray[np.int64], blocks: NDArray[np.int64]) -> float:
    """Time of the L2 to look up lines relative to lines in `SLICES` places alike; of each, a sector and the block.

    The busiest place according to half of the blocks is compared with the mean of all places in the other half, less
    one standard error, so that the noise of a sample does not count. Large arrays have more than `SLICES` places, which
    is left out: with it, tables of kernels that also load other arrays would be too slow.
    """
    halves = [sectors[numbered(blocks) % 2 == half] for half in (0, 1)]
    if not min(half.size for half in halves):
        return 1.0
    distinct_sectors = [np.unique(half, return_counts=True) for half in halves]
    shares = [np.minimum(n / n.sum(), max(MAX_SHARE, 2 / n.sum())) for _, n in distinct_sectors]
    found = []
    for seed in range(HASHES):
        places = [_place(each * SECTOR // UNIT, seed) for each, _ in distinct_sectors]
        counts = [np.bincount(*each, minlength=SLICES) for each in zip(places, shares, strict=True)]
        found += [counts[1 - half][counts[half].argmax()] for half in (0, 1)]
    share = float(np.mean(found))
    return max(1.0, SLICES * (share - math.sqrt(share / (HASHES * sectors.size))))


def busiest_slice(shares: NDArray[np.float64]) -> float:
    """Share of the atomics at the busiest slice of the L2, the mean over several hashes; `shares`: see `shared_units`.

    On an H100, reductions at random words of 32 lines take as long as if they had 7.4 slices. `SLICES` is about
    `redg.random_rate` / `redg.word_rate`, 66. Real hashes spread contiguous words more evenly: on an H200, random words
    of 16 KiB take as long as if they had 26 slices, here 16.
    """
    slices = np.random.default_rng(0).integers(SLICES, size=(HASHES, len(shares)))
    return float(np.mean([np.bincount(each, shares, SLICES).max() for each in slices]))


def _place(units: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The place of each unit. Of four neighbours, every other one has the same (atomics at two words of an H200).

    16 KiB have half of the places, the next 16 KiB the other half; the order, and what is distant, is hashed.
    """
    group, unit = np.divmod(units, SLICES)
    factor, half = (2 * seed + 1) * MULTIPLIER % (1 << 31), SLICES // 2
    place = (unit >> 2 << 1 | unit & 1) ^ (group * factor >> 13) % half
    return np.asarray(((group // REGION * factor >> 13) + group % 2 * half + place) % SLICES)


def of_floats(requests: Requests) -> Requests:
    """Requests of floating-point atomics: those at one sector wait for one another."""
    return replace(requests, hot=max(requests.hot, FLOAT_INTERVAL * requests.hottest))


def is_scattered(addresses: Addresses, is_active: Bools, lines: NDArray[np.int64]) -> Bools:
    """Which requests touch many lines that do not lie side by side."""
    units = addresses // LINE
    span = np.where(is_active, units, 0).max(axis=1) - np.where(is_active, units, np.uint64(2**63)).min(axis=1)
    return np.asarray((lines >= MIN_SCATTERED_LINES) & (span > MAX_SPAN * lines.astype(np.uint64)))


def distinct(addresses: Addresses, is_active: Bools, size: int, unit: int) -> NDArray[np.int64]:
    """How many different units of `unit` bytes each request of shape (requests, 32) touches."""
    first, last = addresses // unit, (addresses + np.uint64(size - 1)) // unit
    pieces = min(int((last - first)[is_active].max(initial=0)), (size - 1) // unit + 1) + 1
    each = first[:, :, None] + np.arange(pieces, dtype=np.uint64)
    on = is_active[:, :, None] & (each <= last[:, :, None])
    each, on = each.reshape(len(addresses), -1), on.reshape(len(addresses), -1)
    return np.asarray(distinct_in_rows(each.astype(np.int64), on)[1].sum(axis=1))


def l2_load(requests: Requests, access: str, card: Card) -> float:
    """Bytes at the read bandwidth of the L2 that take as long as a request that misses the L1.

    A slice of the L2 looks up a line in the time in which it returns two sectors, or a little less. What goes to the
    other partition is looked up there and when it comes back, an atomic only there. Atomics of all SMs at one slice are
    serialized.
    """
    if access in ("atomic", "reduction"):
        word_rate = card.values.get(("redg", "word_rate"), math.inf)
        serialized = card.bytes_per_cycle("l2", "read_bandwidth") * card.sms / word_rate
        return requests.operations * max((1 + card.far_homes) * LOOKUP_BYTES, requests.hot * serialized)
    if access == "store":
        return max(requests.l2_bytes, requests.lines * (1 + STORE_LOOKUPS * card.far_homes) * LOOKUP_BYTES)
    longer = 1 + (requests.crowded - 1) * (1 - requests.in_sm)  # the L1 holds lines that are requested most
    read = max(requests.l2_bytes, requests.lines * (1 + 2 * requests.crossing) * LOOKUP_BYTES * longer)
    if requests.l2_bytes < requests.lines * LINE:
        return read
    delivered = requests.l2_bytes * card.bytes_per_cycle("l2", "read_bandwidth") / MERGED_BYTES
    return max(min(read, delivered), read * (1 - requests.merged))


def written_load(requests: Requests, access: str, card: Card) -> float:
    """Bytes at the read bandwidth of the L2 that take as long as the transfer of a store to it.

    Whole sectors have the measured write bandwidth. Partial sectors take longer: on an H100, with all SMs storing, a
    line takes 4.2 cycles of an SM with words in one of its sectors, and 6.2 with words in two.
    """
    if access != "store":
        return 0.0
    read = card.value("l2", "read_bandwidth")
    whole = requests.l2_bytes * read / card.values.get(("l2", "write_bandwidth"), read)
    partial = min(1.0, 2 * (1 - requests.covered))
    sectors = requests.l2_bytes / SECTOR
    parts = PART_OF_LINE * requests.lines + PART_OF_SECTOR * (sectors + min(sectors, 2 * requests.lines)) / 2
    return whole + partial * max(0.0, parts * (1 + STORE_LOOKUPS * card.far_homes) - whole)
