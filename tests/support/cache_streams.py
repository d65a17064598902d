"""Address streams of kernels, and an LRU cache of sectored lines that simulates them request by request."""

from collections import OrderedDict

import numpy as np

from gpudissect.explanation.line_sample import is_sampled
from gpudissect.explanation.reuse import Requests

LINE, SECTOR = 128, 32


class LruCache:
    """A fully associative cache of sectored lines: the reference."""

    def __init__(self, capacity_bytes, line_bytes=LINE, fetch_bytes=SECTOR):
        self.size, self.line_bytes, self.fetch_bytes = capacity_bytes // line_bytes, line_bytes, fetch_bytes
        self.lines = OrderedDict()

    def request(self, *addresses):
        """Whether simultaneous requests of one line hit; it is then the most recently used, and has the sectors."""
        line = addresses[0] // self.line_bytes
        fetched = self.lines.setdefault(line, set())
        self.lines.move_to_end(line)
        if len(self.lines) > self.size:
            self.lines.popitem(last=False)
        hits = [address // self.fetch_bytes in fetched for address in addresses]
        fetched.update(address // self.fetch_bytes for address in addresses)
        return hits


def lru_hits(addresses, capacity_bytes, **options):
    """Whether each request hits in an empty cache."""
    cache = LruCache(capacity_bytes, **options)
    return np.array([cache.request(address)[0] for address in addresses.tolist()], bool)


def whole_stream(addresses, access=None, sm=None, line_bytes=LINE):
    """All requests of a stream."""
    zeros = np.zeros(len(addresses), np.uint32)
    return Requests(addresses, zeros if access is None else access, zeros if sm is None else sm, line_bytes, 1.0)


def sampled_stream(requests, shift):
    """Those of a sample of lines, as the instrumented kernel records them."""
    chosen = is_sampled(requests.address, shift=shift, line_bytes=requests.line_bytes)
    sample = requests.select(chosen)
    return Requests(sample.address, sample.access, sample.sm, sample.line_bytes, 2.0**-shift)


def streaming(footprint_bytes, passes, base):
    """Each sector in order, several times."""
    return np.tile(np.arange(base, base + footprint_bytes, SECTOR, dtype=np.uint64), passes)


def gather(footprint_bytes, count, base, seed):
    """Random sectors."""
    sectors = np.random.default_rng(seed).integers(0, footprint_bytes // SECTOR, count)
    return (sectors * SECTOR + base).astype(np.uint64)


def skewed_gather(footprint_bytes, count, base, seed):
    """Random sectors, of which half of the requests go to the first sixteenth."""
    random = np.random.default_rng(seed)
    span = np.where(random.random(count) < 0.5, footprint_bytes // 16, footprint_bytes) // SECTOR
    return ((random.random(count) * span).astype(np.int64) * SECTOR + base).astype(np.uint64)


def matrix_multiply(size, tile, resident, base):
    """C = A B of single precision in square tiles, `resident` thread blocks at once: addresses, index of the access.

    Accesses 0 and 1 load tiles of A and B, access 2 stores one of C. Thread blocks advance tile by tile in lockstep.
    """
    blocks, matrix_bytes = size // tile, 4 * size * size
    sectors = np.arange(tile * 4 // SECTOR) * SECTOR

    def tile_of(matrix, row, column):
        rows = (row * tile + np.arange(tile)) * 4 * size
        return base + matrix * matrix_bytes + (rows[:, None] + 4 * tile * column + sectors).ravel()

    pieces, accesses = [], []
    places = [divmod(number, blocks) for number in range(blocks * blocks)]
    for first in range(0, len(places), resident):
        wave = places[first : first + resident]
        for k in range(blocks):
            for row, column in wave:
                pieces += [tile_of(0, row, k), tile_of(1, k, column)]
                accesses += [0, 1]
        pieces += [tile_of(2, row, column) for row, column in wave]
        accesses += [2] * len(wave)
    counts = [len(piece) for piece in pieces]
    return np.concatenate(pieces).astype(np.uint64), np.repeat(accesses, counts).astype(np.uint32)
