"""Barriers in shared memory (``mbarrier``): which one each operation of the sampled warps uses, and with which number.

A phase of a barrier ends when as many arrivals have come as it was initialised with, and all bytes that these expect. A
warp waits for the phase of a parity, and polls until then; repeated polls are one wait here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.packing import Trace
from gpudissect.machine_code.instructions import Instruction

Ints = NDArray[np.int64]
COPY = "UBLKCP"
_ARRIVALS = {"A1T0": (1, 0), "ART0": (None, 0), "A0TR": (0, 1), "A0TX": (0, 1)}
"""Arrivals of a lane (None: as many as its value), and whether it adds its value to the expected bytes."""


@dataclass(frozen=True)
class Events:
    """Operations on barriers: those of operation `o` of warp `w` are ``begins[w, o]`` to ``ends[w, o]``, in order.

    Of each: its barrier, its arrivals, and its value: arrivals of a phase (prepare), bytes to come (arrive) or that
    come (bulk), parity (wait). `operations`: that of each instruction, `sizes`: its mean value.
    """

    begins: Ints = field(repr=False)  # (warps, operations)
    ends: Ints = field(repr=False)
    barrier: Ints = field(repr=False)  # (events,)
    arrivals: Ints = field(repr=False)
    value: Ints = field(repr=False)
    barriers: int = 0
    operations: Mapping[int, int] = field(default_factory=dict)
    sizes: Mapping[int, float] = field(default_factory=dict)


def no_events() -> Events:
    """No operations."""
    none = np.zeros(0, dtype=np.int64)
    return Events(none.reshape(1, 0), none.reshape(1, 0), none, none, none)


def kind_of(instruction: Instruction) -> str | None:
    """Barrier operation of an instruction: prepare, arrive, wait, bulk; None for any other."""
    if instruction.opcode == COPY and instruction.modifiers[:2] == ("S", "G"):
        return "bulk"
    kinds = {"EXCH": "prepare", "ARRIVE": "arrive", "PHASECHK": "wait"}
    return kinds.get(instruction.modifiers[0]) if instruction.opcode == "SYNCS" and instruction.modifiers else None


def events_of(
    instructions: Sequence[Instruction], accesses: Sequence[tuple[int, str]], warps: Sequence[Trace]
) -> Events:
    """The operations of warps; `accesses`: number of the PTX instruction and kind of each access of their traces.

    The trace of an operation has the address of its barrier (an atomic of shared memory), then its number (``value``).
    """
    of_line: dict[int, dict[str, int]] = {}
    for index, (line, kind) in enumerate(accesses):
        of_line.setdefault(line, {})[kind] = index
    rows: list[list[Ints]] = []
    places: dict[int, int] = {}
    for place, instruction in enumerate(instructions):
        name, found = kind_of(instruction), of_line.get(instruction.line or -1, {})
        if name is not None and "barrier" in found:
            places[place] = len(rows)
            rows.append([_events(each, found["barrier"], found.get("value"), name, instruction) for each in warps])
    if not rows or not warps:
        return no_events()
    lengths = np.array([[len(each) for each in row] for row in rows]).T
    ends = np.cumsum(lengths.T.ravel()).reshape(len(rows), -1).T.copy()
    events = np.concatenate([each for row in rows for each in row])
    addresses, barrier = np.unique(events[:, 0], return_inverse=True)
    sizes = {place: float(np.concatenate(rows[number])[:, 2].mean()) for place, number in places.items()}
    arrivals, values = events[:, 1].copy(), events[:, 2].copy()
    return Events(ends - lengths, ends, barrier.ravel(), arrivals, values, len(addresses), places, sizes)


def _events(trace: Trace, barrier: int, value: int | None, kind: str, instruction: Instruction) -> Ints:
    """Rows of address, arrivals and value of an operation of one warp, shape (events, 3)."""
    at = np.flatnonzero(trace.accessed == barrier)
    lanes = np.bitwise_count(trace.access_lanes[at]).astype(np.int64)
    first = [int(mask & -mask).bit_length() - 1 for mask in trace.access_lanes[at].tolist()]
    addresses = trace.offsets[at, first]
    numbers = np.zeros(len(at), dtype=np.int64)
    if value is not None:
        of = np.flatnonzero(trace.accessed == value)[: len(at)]
        numbers[: len(of)] = trace.offsets[of, first[: len(of)]]
    arrivals, share = next((_ARRIVALS[text] for text in instruction.modifiers if text in _ARRIVALS), (1, 1))
    if kind == "arrive":
        return np.stack([addresses, numbers if arrivals is None else arrivals * lanes, share * numbers * lanes], axis=1)
    found = np.stack([addresses, 0 * lanes, numbers], axis=1)
    if kind == "wait" and len(found):
        found = found[np.append(True, (found[1:] != found[:-1]).any(axis=1))]
    return found
