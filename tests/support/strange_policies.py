"""Replacement policies that the package does not know, with the interface of `tests/support/oracle_policies.py`."""

from __future__ import annotations

from tests.support.oracle_policies import Lru, Slru, Srrip


class _OrderOfUse(Lru):
    """A policy of so many ways, with a `random.Random`, that remembers the order of use."""

    def __init__(self, ways, rng):
        super().__init__(ways, None, None)
        self.ways, self.rng = ways, rng


class MruEviction(_OrderOfUse):
    """Evicts the line used last."""

    def victim(self):
        return self.order[-1]


class Clock(_OrderOfUse):
    """Second chance: a hand passes over lines used since it came by last."""

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


class Lfu(_OrderOfUse):
    """Evicts the line hit least often, of these the first."""

    def __init__(self, ways, rng):
        super().__init__(ways, rng)
        self.count = [0] * ways

    def use(self, way, hit):
        self.count[way] = self.count[way] + 1 if hit else 0

    def victim(self):
        return self.count.index(min(self.count))


class SmallSlru(Slru):
    """Segmented LRU that protects a quarter of its ways."""

    def __init__(self, ways, rng):
        super().__init__(ways, None, None)
        self.room = max(1, ways // 4)


class ForgetfulLru(_OrderOfUse):
    """LRU that ignores every 64th use."""

    uses = 0

    def use(self, way, hit):
        self.uses += 1
        if not hit or self.uses % 64:
            super().use(way, hit)


class Rrip3(Srrip):
    """SRRIP with three bits: filled with 6, evicts the first 7."""

    def __init__(self, ways, rng):
        super().__init__(ways, None, None)

    def use(self, way, hit):
        self.prediction[way] = 0 if hit else 6

    def victim(self):
        while 7 not in self.prediction.values():
            self.prediction = {way: value + 1 for way, value in self.prediction.items()}
        return min(way for way, value in self.prediction.items() if value == 7)


DETERMINISTIC = (MruEviction, Clock, Lfu, SmallSlru, ForgetfulLru, Rrip3)


class TurnsFifo(_OrderOfUse):
    """LRU that ignores hits after 2,000 uses."""

    def __init__(self, ways, rng):
        super().__init__(ways, rng)
        self.uses = 0

    def use(self, way, hit):
        self.uses += 1
        if not hit or self.uses < 2000:
            super().use(way, hit)


class Bypassed(_OrderOfUse):
    """LRU, but the line of every 64th miss is replaced next."""

    def __init__(self, ways, rng):
        super().__init__(ways, rng)
        self.misses = 0

    def use(self, way, hit):
        super().use(way, hit)
        self.misses += not hit
        if not hit and self.misses % 64 == 0 and len(self.order) == self.ways:
            self.order.remove(way)
            self.order.insert(0, way)


class NotTheLast(_OrderOfUse):
    """Evicts any line but the one used last."""

    def victim(self):
        return self.rng.choice(self.order[:-1])


class OldHalf(_OrderOfUse):
    """Evicts any of the half used longest ago."""

    def victim(self):
        return self.rng.choice(self.order[: -(-self.ways // 2)])


class MostlyLru(_OrderOfUse):
    """LRU nine times in ten, else evicts any line."""

    def victim(self):
        return self.order[0] if self.rng.random() < 0.9 else self.rng.randrange(self.ways)


class RandomFifo(_OrderOfUse):
    """Evicts the line filled longest ago, or the one after it."""

    def use(self, way, hit):
        if not hit:
            super().use(way, hit)

    def victim(self):
        return self.order[self.rng.randrange(min(2, self.ways))]


PARTLY_RANDOM = (NotTheLast, OldHalf, MostlyLru, RandomFifo)
