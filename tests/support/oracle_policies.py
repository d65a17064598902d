"""Replacement policies in plain Python, from the definitions, for `oracle.py`."""

from itertools import cycle


class OraclePolicy:
    """The replacement state of one set."""

    def __init__(self, ways, draws, weights, victims=()):
        self.ways, self.draws = ways, draws
        self.victims = cycle(victims)  # of ORDER, numbered from 1
        self.weights = weights or [1 / ways] * ways
        self.order = []  # of use, oldest first
        self.cold_is_upper = {}  # by range of ways
        self.referenced = set()
        self.prediction = {}
        self.probation, self.protected, self.room = [], [], ways // 2  # least recent first
        self.recency, self.hits = [], []  # most recent first

    def use(self, way, hit):
        pass

    def forget(self, way):
        """Its line was evicted, not replaced."""
        self.order = [other for other in self.order if other != way]
        self.recency, self.hits = ([other for other in each if other != way] for each in (self.recency, self.hits))


class Lru(OraclePolicy):
    """The way whose last use is longest ago."""

    def use(self, way, hit):
        if way in self.order:
            self.order.remove(way)
        self.order.append(way)

    def victim(self):
        return self.order[0]


class Lip(Lru):
    """The way whose last hit is longest ago; one that was not hit since its fill before all others."""

    def use(self, way, hit):
        super().use(way, hit)
        if not hit and not self.stays():
            self.order.insert(0, self.order.pop())

    def stays(self):
        return False


class Bip(Lip):
    """As LIP, but one fill in 32 counts as a hit."""

    def stays(self):
        return next(self.draws) < 1 / 32


class Fifo(Lru):
    """The way that was filled longest ago."""

    def use(self, way, hit):
        if not hit:
            super().use(way, hit)


class Plru(OraclePolicy):
    """Halves of halves: each stores which half was used less recently."""

    def use(self, way, hit):
        low, high = 0, self.ways
        while high - low > 1:
            middle = (low + high) // 2
            self.cold_is_upper[low, high] = way < middle
            low, high = (low, middle) if way < middle else (middle, high)

    def victim(self):
        low, high = 0, self.ways
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.cold_is_upper.get((low, high), False) else (low, middle)
        return low


class Nru(OraclePolicy):
    """Reference bits, cleared when a victim is needed and none is clear."""

    def use(self, way, hit):
        self.referenced.add(way)

    def victim(self):
        if len(self.referenced) == self.ways:
            self.referenced = set()
        return min(set(range(self.ways)) - self.referenced)


class Mru(Nru):
    """Reference bits, the others cleared by the use that would set the last."""

    def use(self, way, hit):
        self.referenced.add(way)
        if len(self.referenced) == self.ways:
            self.referenced = {way}

    def victim(self):
        clear = set(range(self.ways)) - self.referenced
        return min(clear) if clear else 0  # no clear bit: one way only


class Srrip(OraclePolicy):
    """Predictions 0 (soon) to 3 (far): filled with 2, a hit sets 0, the first 3 is replaced."""

    def use(self, way, hit):
        self.prediction[way] = 0 if hit else 2

    def victim(self):
        while 3 not in self.prediction.values():
            self.prediction = {way: value + 1 for way, value in self.prediction.items()}
        return min(way for way, value in self.prediction.items() if value == 3)


class Slru(OraclePolicy):
    """Two lists: lines used once, and lines used again, at most half the ways."""

    def use(self, way, hit):
        for segment in (self.probation, self.protected):
            if way in segment:
                segment.remove(way)
        if not hit:
            self.probation.append(way)
            return
        self.protected.append(way)
        if len(self.protected) > self.room:
            self.probation.append(self.protected.pop(0))

    def victim(self):
        return self.probation[0]


class LastTwoHits(OraclePolicy):
    """One list; new lines enter behind those of the last two hits."""

    def use(self, way, hit):
        if way in self.recency:
            self.recency.remove(way)
        if hit:
            self.hits = [way, *self.hits[:1]]
            self.recency.insert(0, way)
        else:
            self.hits = [other for other in self.hits if other != way]
            self.recency.insert(len(set(self.hits)), way)

    def victim(self):
        return self.recency[-1]


class Random(OraclePolicy):
    """A random way."""

    def victim(self):
        return int(next(self.draws) * self.ways)


class Weighted(OraclePolicy):
    """A random way, some more likely."""

    def victim(self):
        number, cumulative = next(self.draws), 0.0
        for way, weight in enumerate(self.weights):
            cumulative += weight / sum(self.weights)
            if number < cumulative:
                return way
        return self.ways - 1


class Order(OraclePolicy):
    """A list of ways, over and over."""

    def victim(self):
        return next(self.victims) - 1


KINDS = (Lru, Fifo, Lip, Bip, Plru, Nru, Mru, Srrip, Slru, LastTwoHits, Random, Weighted, Order)
POLICIES = {kind.__name__.lower(): kind for kind in KINDS} | {"last-two-hits": LastTwoHits}
