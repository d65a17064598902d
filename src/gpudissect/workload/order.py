"""Orders: the sequence of byte offsets that one lap of a chase visits.

An order is a closed chain: the first offset follows the last. Every offset occurs once, because a link in memory has
one successor; to visit a cache line twice in a lap, use another word of it. `Sequential` and `Shuffled` are computed,
so that a device can write chains of millions of links without receiving them; `Explicit` holds any other sequence.
"""

import hashlib
from dataclasses import dataclass, fields
from functools import cache, cached_property
from operator import index
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import WorkloadError

FEISTEL_ROUNDS = 4
MAX_OFFSETS = 2**31
MIN_NARROWED = 1024  # numbers: narrower types of fewer save too little memory for the time


def convert_whole_numbers(record: object) -> None:
    """Convert whole numbers of any kind (numpy's too) to Python's, which digests are made of.

    Raises `WorkloadError` if a field of a whole number holds something else.
    """
    kind: Any = type(record)
    for name in _whole_number_fields(kind):
        value = getattr(record, name)
        if value is not None and type(value) is not int:
            try:
                object.__setattr__(record, name, index(value))
            except TypeError:
                problem = f"{name} of a {kind.__name__.lower()} must be a whole number, got {value!r:.60}"
                raise WorkloadError(problem) from None


@cache
def _whole_number_fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.type in (int, int | None))


def narrowed(values: NDArray[np.int64]) -> NDArray[Any]:
    """Integers in the narrowest of three types that holds them: a copy, or `values` itself, also if they are few."""
    if values.size >= MIN_NARROWED:
        low, high = int(values.min()), int(values.max())
        for kind, limit in ((np.int16, 2**15), (np.int32, 2**31)):
            if -limit <= low and high < limit:
                return values.astype(kind)
    return values


def has_equal(values: NDArray[Any]) -> bool:
    """Whether a number occurs twice."""
    ordered = np.sort(values)  # several times faster than np.unique
    return bool((ordered[1:] == ordered[:-1]).any())


class _Grid:
    """`count` offsets, `stride` bytes apart from byte `start` on, in some order."""

    count: int
    stride: int
    start: int

    def __post_init__(self) -> None:
        convert_whole_numbers(self)
        if not 1 <= self.count <= MAX_OFFSETS:
            raise WorkloadError(f"an order has 1 to {MAX_OFFSETS} offsets, got count {self.count}")
        if self.stride < 1 or self.start < 0:
            raise WorkloadError(f"an order needs stride >= 1 and start >= 0 bytes, got {self.stride} and {self.start}")

    @property
    def span(self) -> int:
        """Bytes from offset 0 to the end of the last stride."""
        return self.start + self.count * self.stride


@dataclass(frozen=True)
class Sequential(_Grid):
    """`count` offsets, `stride` bytes apart, rising from byte `start`."""

    count: int
    stride: int
    start: int = 0

    def offsets(self) -> NDArray[np.int64]:
        """Byte offsets in visiting order, shape (count,)."""
        return self.offsets_at(np.arange(self.count))

    def offsets_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those at some positions of a lap, in their shape."""
        return self.start + positions.astype(np.int64) * self.stride


@dataclass(frozen=True)
class Shuffled(_Grid):
    """The offsets of `Sequential` in a random order determined by `seed` (a Feistel permutation with cycle walking)."""

    count: int
    stride: int
    seed: int
    start: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.seed < 2**32:
            raise WorkloadError(f"seed of a shuffled order must be in [0, 2^32), got {self.seed}")

    def offsets(self) -> NDArray[np.int64]:
        """Byte offsets in visiting order, shape (count,)."""
        return self.offsets_at(np.arange(self.count))

    def offsets_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those at some positions of a lap, in their shape."""
        return self.start + permuted(positions, self.count, self.seed) * self.stride


@dataclass(frozen=True, eq=False)
class Explicit:
    """Any sequence of byte offsets, each at most once. Holds a read-only copy, in the narrowest fitting type."""

    sequence: NDArray[np.integer[Any]]

    def __post_init__(self) -> None:
        given = np.asarray(self.sequence)
        if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
            raise WorkloadError(f"an explicit order is a flat list of whole byte offsets, got shape {given.shape}")
        self._keep(given.astype(np.int64, copy=False))
        if self.start < 0:
            raise WorkloadError(f"an offset is negative: {self.start}")
        if has_equal(self.sequence):
            raise WorkloadError("an offset occurs twice in one lap; visit the line again through another word of it")

    @classmethod
    def of_distinct(cls, offsets: NDArray[np.int64]) -> Self:
        """The same without the check, which sorts: of offsets that are distinct and not negative by construction."""
        order = cls.__new__(cls)
        order._keep(offsets)
        return order

    def _keep(self, given: NDArray[np.int64]) -> None:
        offsets = given.copy() if (narrow := narrowed(given)) is given else narrow
        offsets.flags.writeable = False
        object.__setattr__(self, "sequence", offsets)

    @cached_property
    def start(self) -> int:
        """The lowest offset."""
        return int(self.sequence.min())

    @cached_property
    def bits(self) -> int:
        """The address bits that are set in any offset: a power of two divides all offsets if it divides this."""
        return int(np.bitwise_or.reduce(self.sequence))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the sequence, hexadecimal."""
        return hashlib.sha256(self.offsets().data).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explicit) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def count(self) -> int:
        """Offsets visited in a lap."""
        return int(self.sequence.size)

    @cached_property
    def span(self) -> int:
        """Bytes from offset 0 to the end of the last 4-byte word (round up to 8 for words of 8 bytes)."""
        return int(self.sequence.max()) + 4

    def offsets(self) -> NDArray[np.int64]:
        """Byte offsets in visiting order, shape (count,)."""
        return self.sequence.astype(np.int64)

    def offsets_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those at some positions of a lap, in their shape."""
        return self.sequence[positions].astype(np.int64)


Order = Sequential | Shuffled | Explicit


def feistel_half_bits(count: int) -> int:
    """Bits of one Feistel half so that two halves cover [0, count)."""
    return max(1, ((count - 1).bit_length() + 1) // 2)


def permutation(count: int, seed: int) -> NDArray[np.int64]:
    """A permutation of range(count) that depends on the seed only; a device can compute it point by point.

    Four rounds of a balanced Feistel network over the smallest even number of bits that covers `count`; values outside
    the range go through it again until they fall inside (cycle walking; Black & Rogaway 2002, "Ciphers with arbitrary
    finite domains", section 3).
    """
    return permuted(np.arange(count), count, seed)


def permuted(positions: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """`permutation(count, seed)` at some positions, in their shape."""
    half = feistel_half_bits(count)
    values = _feistel(positions.astype(np.uint32), half, seed)
    outside = np.flatnonzero(values >= count)
    while outside.size:
        values[outside] = _feistel(values[outside], half, seed)
        outside = outside[values[outside] >= count]
    return values.astype(np.int64)


def _feistel(values: NDArray[np.uint32], half: int, seed: int) -> NDArray[np.uint32]:
    mask = np.uint32((1 << half) - 1)
    left, right = values >> np.uint32(half), values & mask
    for number in range(FEISTEL_ROUNDS):
        key = np.uint32((seed + 0x9E3779B9 * (number + 1)) & 0xFFFFFFFF)
        mixed = right ^ key  # round function: murmur3's finaliser in wrapping 32-bit arithmetic
        mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        mixed ^= mixed >> np.uint32(16)
        left, right = right, left ^ (mixed & mask)
    return (left << np.uint32(half)) | right
