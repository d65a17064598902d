"""Caches and hierarchies in plain Python, from the definitions: slow, simple, and without code of the package.

A set is a list of ways; a way is None or a line number.
"""

from itertools import pairwise

from tests.support.oracle_policies import POLICIES, LastTwoHits

MASK = 2**64 - 1


def split_mix(seed):
    """SplitMix64 (Steele et al. 2014), as 64-bit numbers."""
    state = seed & MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def set_of(cache, address, index=None):
    index = index or cache.index
    if index.kind == "bits":
        return sum(((address >> bit) & 1) << place for place, bit in enumerate(index.bits))
    if index.kind == "xor":
        return sum((bin(address & mask).count("1") % 2) << place for place, mask in enumerate(index.masks))
    granule = address // (index.granule if index.granule else cache.line)
    if index.kind == "modulo":
        return granule % len(cache.ways)
    return index.table[granule % len(index.table)]


class OracleCache:
    """One cache; `access` fetches the sector of a byte and returns whether it hit."""

    def __init__(self, cache, seed=0):
        self.cache = cache
        draws = ((number >> 11) / 2**53 for number in split_mix(seed))
        self.sets = [[None] * ways for ways in cache.ways]
        policy, kind = cache.policy, POLICIES[cache.policy.kind]
        self.policies = [kind(ways, draws, policy.weights, policy.order) for ways in cache.ways]
        self.present = set()  # set and sector
        self.turn = 0  # set that evicts a line next, where there is room for data
        self.victim = []  # addresses of the sectors that the last replacement evicted

    def access(self, address, index=None):
        line = address // self.cache.line
        number = set_of(self.cache, address, index)
        sector = number, address // self.cache.sector
        ways, policy = self.sets[number], self.policies[number]
        exceeds = self.cache.room is not None and self.lines() > self.cache.room.lines
        if line in ways:
            hit = sector in self.present
            self.present.add(sector)
            policy.use(ways.index(line), True)
            if exceeds:
                self.give_room(1, None if hit else (number, line))
            return hit
        way = ways.index(None) if None in ways else policy.victim()
        turns = 5 if None in ways else 2
        if ways[way] is not None:
            self.evict(number, way)
        ways[way] = line
        self.present.add(sector)
        policy.use(way, False)
        if exceeds:
            self.give_room(turns, (number, line))
        return False

    def evict(self, number, way):
        evicted = number, self.sets[number][way]
        per_line = self.cache.line // self.cache.sector
        gone = sorted(s for n, s in self.present if (n, s // per_line) == evicted)
        self.victim = [sector * self.cache.sector for sector in gone]
        self.present = {(n, s) for n, s in self.present if (n, s // per_line) != evicted}
        self.sets[number][way] = None

    def look_up(self, address, index, moves):
        number = set_of(self.cache, address, index)
        sector = number, address // self.cache.sector
        if sector not in self.present:
            return False
        if not moves:
            return self.access(address, index)
        self.present.remove(sector)
        line = address // self.cache.line
        if not any(n == number and s * self.cache.sector // self.cache.line == line for n, s in self.present):
            self.evict(number, self.sets[number].index(line))
        return True

    def lines(self):
        return sum(line is not None for ways in self.sets for line in ways)

    def give_room(self, turns, kept):
        for number in range(turns):
            for _ in self.sets:
                at, self.turn = self.turn, (self.turn + 1) % len(self.sets)
                way, victim = self.next_victim(at)
                if victim is not None and victim != kept:
                    self.evict(at, way)
                    self.policies[at].forget(way)
                if victim is not None and (victim != kept or number > 0 or turns == 1):
                    break

    def next_victim(self, number):
        """Way, and set and line, of the next victim of a set; None for an empty one."""
        ways, policy = self.sets[number], self.policies[number]
        if not any(line is not None for line in ways):
            return None, None
        way = policy.recency[-1] if isinstance(policy, LastTwoHits) else policy.order[0]
        return way, (number, ways[way])


class OracleHierarchy:
    """`access` returns the level that served a byte, and its latency."""

    def __init__(self, hierarchy, seed=0, end=None):
        self.hierarchy = hierarchy
        self.end = end
        self.caches = {name: OracleCache(c, seed + i) for i, (name, c) in enumerate(hierarchy.caches.items())}
        self.tlbs = [OracleCache(tlb.as_cache(), seed + len(self.caches) + i) for i, tlb in enumerate(hierarchy.tlbs)]
        self.miss_caches = [
            OracleCache(tlb.miss_cache_as_cache()) if tlb.miss_cache else None for tlb in hierarchy.tlbs
        ]
        self.far = []  # by home; the near partition, home 0, is among the caches
        if hierarchy.partition is not None:
            cache = hierarchy.caches[hierarchy.partition.cache]
            first = seed + len(self.caches) + len(self.tlbs) + sum(each is not None for each in self.miss_caches)
            self.far = [None, *(OracleCache(cache, first + i) for i in range(hierarchy.partition.count - 1))]
        self.window = 0
        self.cold_misses = []  # offsets, rising, since the last one that was not cold
        self.highest = None
        self.open_rows = {}

    def access(self, path, address):
        route = self.hierarchy.routes[path]
        if route.memory_latency is None:
            return 0, route.latency[0]
        translation = None
        partition = self.hierarchy.partition
        if partition is not None and partition.cache not in route.caches:
            partition = None
        home = 0
        if partition is not None:
            in_order = partition.granule and address // partition.granule % partition.count
            home = in_order if partition.granule else bin(address & partition.home_mask).count("1") % 2
        far_hit = False
        served = len(route.caches)
        missed = []
        for position in range(len(route.caches) + 1):
            if position == route.translated_from:
                translation = self.translate(address)
            if position == len(route.caches):
                break
            name = route.caches[position]
            cache, index = self.caches[name], route.index if position == 0 else None
            cache.victim = []
            if position and cache.cache.fill != "misses":
                hit = cache.look_up(address, index, cache.cache.fill == "exclusive")
            else:
                hit = cache.access(address, index)
            if hit:
                served = position
                break
            missed.append(name)
            if home and name == partition.cache and self.far[home].access(address):
                served, far_hit = position, True
                break
        for giver, receiver in pairwise(route.caches[: served + 2]):
            if self.caches[receiver].cache.fill != "misses" and giver in missed:
                for victim in self.caches[giver].victim:
                    self.caches[receiver].access(victim)
        cycles = route.latency[served] if served < len(route.caches) else route.memory_latency
        if far_hit:
            cycles += partition.far_penalty
        if translation is not None:
            cycles = self.add_translation(cycles, translation, route, in_memory=served == len(route.caches))
        if home and served == len(route.caches):
            cycles += partition.far_memory_penalty
        rows = self.hierarchy.rows
        if rows and served == len(route.caches):
            bank, row = address // rows.size % rows.banks, address // rows.size
            cycles -= rows.saving * (self.open_rows.get(bank) == row)
            self.open_rows[bank] = row
        prefetch = self.hierarchy.prefetch
        if prefetch and prefetch.cache in missed:
            self.note_miss(address, prefetch)
        return served, cycles

    def translate(self, address):
        """The TLB level that hit (None for none) and whether the window moved."""
        for level, (tlb, miss_cache) in enumerate(zip(self.tlbs, self.miss_caches, strict=True)):
            both = [tlb, *([miss_cache] if miss_cache else [])]
            if any([each.look_up(address, None, False) for each in both]):
                return level, False
            for each in both:
                each.access(address)
        window = self.hierarchy.page_window
        moved = window is not None and address // window.size != self.window
        if moved:
            self.window = address // window.size
        return None, moved

    def add_translation(self, cycles, translation, route, in_memory):
        level, moved = translation
        if level == 0:
            return cycles
        if self.tlbs and route.caches:
            cycles = max(cycles, route.latency[route.tlbs_at])
        if level is not None:
            return cycles + self.hierarchy.tlbs[level - 1].penalty
        walk, cold = self.hierarchy.tlb_walk_penalty, self.hierarchy.tlb_cold_walk_penalty
        cycles += cold if in_memory and cold is not None else walk
        return cycles + (self.hierarchy.page_window.penalty if moved else 0)

    def note_miss(self, address, prefetch):
        if not prefetch.run:
            self.fetch_ahead(address, prefetch)
            return
        if self.highest is not None and address <= self.highest:
            self.cold_misses = [self.highest]  # the next cold miss may continue from here
            return
        self.highest = address
        self.cold_misses.append(address)
        last = self.cold_misses[-(prefetch.run + 1) :]
        steps = {b - a for a, b in pairwise(last)}
        if len(last) <= prefetch.run or len(steps) != 1 or max(steps) > 512:
            return
        self.cold_misses = [address]
        self.fetch_ahead(address, prefetch)

    def fetch_ahead(self, address, prefetch):
        sector = self.hierarchy.caches[prefetch.cache].sector
        ahead = (address // sector + 1) * sector
        stop = min(ahead + prefetch.reach, self.end) if self.end is not None else ahead + prefetch.reach
        while ahead < stop:
            self.caches[prefetch.cache].access(ahead)
            ahead += sector
