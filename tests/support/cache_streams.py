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


class Partitions:
    """Two such caches: a load that misses the near one goes to the home of its line, and both keep the sector."""

    def __init__(self, lines, home_of):
        self.lines, self.home_of = lines, home_of
        self.caches = [OrderedDict(), OrderedDict()]

    def touch(self, cache, line):
        """The sectors of a line, which is now the most recently used one."""
        sectors = cache.setdefault(line, {})
        cache.move_to_end(line)
        if len(cache) > self.lines:
            cache.popitem(last=False)
        return sectors

    def request(self, address, near, *, is_load):
        """Whether the near partition has the sector, and whether the far one has. Stores have it if it is unwritten."""
        line, sector = address // LINE, address % LINE // SECTOR
        home = int(self.home_of(np.array([line], np.uint64), 2)[0])
        if not is_load:
            at_home = self.touch(self.caches[home], line)
            was_written = at_home.get(sector) == "written"
            at_home[sector] = "written"
            self.caches[1 - home].get(line, {}).pop(sector, None)
            return was_written and near == home, was_written and near != home
        is_near = sector in self.caches[near].get(line, {})
        is_far = not is_near and near != home and sector in self.caches[home].get(line, {})
        for cache in {home, near} if not is_near else {near}:
            self.touch(self.caches[cache], line).setdefault(sector, "read")
        return is_near, is_far


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


def gather(footprint_bytes, count, base, seed):
    """Random sectors."""
    sectors = np.random.default_rng(seed).integers(0, footprint_bytes // SECTOR, count)
    return (sectors * SECTOR + base).astype(np.uint64)
