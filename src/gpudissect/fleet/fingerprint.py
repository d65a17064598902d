"""The fingerprint of a card: which L2 partition is near each SM.

Cards of one model differ in it, as different SMs are enabled on each die. arXiv 2606.22588 identifies cards of one
model by a similar map, the latency of L2 hits of each SM. If the map under a UUID changes, the GPU may have been
replaced, or MIG or a mask enables other SMs.

A map is a text with one letter for each SM. Partitions have no names: which one the measurement calls 0 is arbitrary.
So 'a' is the partition of SM 0, and 'b' the other one.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from itertools import permutations

MAX_PARTITIONS, MAX_SMS = 4, 1024
LETTERS = "abcd"
ID_DIGITS = 8  # hexadecimal
MAX_MISJUDGED_SHARE = 0.05  # of the SMs; up to so many may differ between two measurements of one card (assumed)
MIN_CHANGED_SMS = 3


def letters_of(partition_by_sm: Sequence[float]) -> str:
    """The map of a card; empty if it has fewer than two partitions, or more SMs or partitions than any GPU."""
    partitions = list(dict.fromkeys(partition_by_sm[: MAX_SMS + 1]))
    if len(partition_by_sm) > MAX_SMS or not 2 <= len(partitions) <= MAX_PARTITIONS:
        return ""
    letters = dict(zip(partitions, LETTERS, strict=False))
    return "".join(letters[each] for each in partition_by_sm)


def identity(partitions: str) -> str:
    """A short name of a map: the first 8 hexadecimal digits of its SHA-256; empty for no map."""
    return sha256(partitions.encode()).hexdigest()[:ID_DIGITS] if partitions else ""


def count_moved(before: str, after: str) -> int:
    """SMs in another partition than before, with the names of the partitions that agree best.

    SM 0, which gives the names, may be misjudged as any other. Raises `ValueError` for maps of unequal length.
    """
    if len(before) != len(after):
        raise ValueError(f"maps of {len(before)} and {len(after)} SMs cannot be compared")
    pairs = Counter(zip(before, after, strict=True))
    kept = (sum(pairs[pair] for pair in zip(LETTERS, names, strict=True)) for names in permutations(LETTERS))
    return len(before) - max(kept)


def has_changed(before: str, after: str) -> bool:
    """Whether two maps are of different cards or masks: more SMs differ than a measurement misjudges.

    False if a map is missing, True if the number of SMs differs.
    """
    if not before or not after or len(before) != len(after):
        return bool(before and after)
    moved = count_moved(before, after)
    return moved >= MIN_CHANGED_SMS and moved > MAX_MISJUDGED_SHARE * len(before)
