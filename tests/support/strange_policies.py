"""Replacement policies that are none of the package's, in the form of `tests/support/oracle.py`."""

from __future__ import annotations

from tests.support.oracle import Fifo, Lru, Slru, Srrip


class _Own:
    """What all of them take: so many ways, and a source of randomness (Python's)."""

    def __init__(self, ways, rng):
        self.ways, self.rng = ways, rng
        self.order = []  # of use, oldest first

    def use(self, way, hit):
        if way in self.order:
            self.order.remove(way)
        self.order.append(way)


class MruEviction(_Own):
    """The line used last goes."""

    def victim(self):
        return self.order[-1]


class Lip(_Own):
    """LRU insertion (Qureshi et al. 2007): as LRU, but a line enters as the next to go."""

    def use(self, way, hit):
        if hit:
            super().use(way, hit)
        else:
            self.order = [way, *(each for each in self.order if each != way)]

    def victim(self):
        return self.order[0]


class Clock(_Own):
    """Second chance: a hand goes round and passes over lines that were used since it came by."""

    def __init__(self, ways, rng):
        super().__init__(ways, rng)
        self.hand, self.used = 0, [False] * ways

    def use(self, way, hit):
        self.used[way] = hit

    def victim(self):
        while self.used[self.hand]:
            self.used[self.hand] = False
            self.hand = (self.hand + 1) % self.ways
        way, self.hand = self.hand, (self.hand + 1) % self.ways
        return way


class Rotation(_Own):
    """Ways 2, 3, 2, 1, 2, 4 in turns, numbered from 1 (what MC16 fig 11 shows, if it were no chance)."""

    TURNS = (1, 2, 1, 0, 1, 3)

    def __init__(self, ways, rng):
        super().__init__(ways, rng)
        self.turn = 0

    def victim(self):
        self.turn += 1
        return self.TURNS[(self.turn - 1) % len(self.TURNS)] % self.ways


class Lfu(_Own):
    """The line hit least often, of these the first."""

    def __init__(self, ways, rng):
        super().__init__(ways, rng)
        self.count = [0] * ways

    def use(self, way, hit):
        self.count[way] = self.count[way] + 1 if hit else 0

    def victim(self):
        return self.count.index(min(self.count))


class LittleProtected(Slru):
    """Segmented LRU that protects a quarter of its ways."""

    def __init__(self, ways, rng):
        super().__init__(ways, None, None)
        self.room = max(1, ways // 4)


class LruWithAQuirk(Lru):
    """LRU that forgets every 64th use."""

    def __init__(self, ways, rng):
        super().__init__(ways, None, None)
        self.uses = 0

    def use(self, way, hit):
        self.uses += 1
        if not hit or self.uses % 64:
            super().use(way, hit)


class Rrip3(Srrip):
    """SRRIP with three bits: filled with 6, first 7 goes."""

    def __init__(self, ways, rng):
        super().__init__(ways, None, None)

    def use(self, way, hit):
        self.prediction[way] = 0 if hit else 6

    def victim(self):
        while 7 not in self.prediction.values():
            self.prediction = {way: value + 1 for way, value in self.prediction.items()}
        return min(way for way, value in self.prediction.items() if value == 7)


DETERMINISTIC = (MruEviction, Lip, Clock, Rotation, Lfu, LittleProtected, LruWithAQuirk, Rrip3)


class NotTheLast(_Own):
    """Any line but the one used last."""

    def victim(self):
        return self.rng.choice(self.order[:-1])


class OldHalf(_Own):
    """Any of the half used longest ago."""

    def victim(self):
        return self.rng.choice(self.order[: -(-self.ways // 2)])


class Bip(Lip):
    """LIP, but one line in 32 enters as the last to go."""

    def use(self, way, hit):
        if hit or self.rng.random() < 1 / 32:
            _Own.use(self, way, hit)
        else:
            super().use(way, hit)


class MostlyLru(_Own):
    """LRU nine times in ten, else any."""

    def victim(self):
        return self.order[0] if self.rng.random() < 0.9 else self.rng.randrange(self.ways)


class RandomFifo(Fifo):
    """The line filled longest ago, or the one after it."""

    def __init__(self, ways, rng):
        super().__init__(ways, None, None)
        self.rng = rng

    def victim(self):
        return self.order[self.rng.randrange(min(2, self.ways))]


CHANCE = (NotTheLast, OldHalf, Bip, MostlyLru, RandomFifo)
