"""A lower bound on the latency of one warp: its instructions issued one after the other, alone (VV16 s3.7, 3.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Issue:
    """One instruction of a program, in the order of the program.

    Attributes:
        text: for people.
        latency: register dependency latency, cycles until what it writes can be used.
        reads: registers.
        writes: register, or None.
        load: whether it loads from memory: two loads are not issued together (VV16 s3.8).

    """

    text: str
    latency: float
    reads: tuple[str, ...] = ()
    writes: str | None = None
    load: bool = False


@dataclass(frozen=True)
class Timeline:
    """When each instruction is issued.

    Attributes:
        cycles: of each instruction.
        pairs: indices of instructions that are issued together with the one before.
        end: when the warp is replaced.

    """

    cycles: tuple[float, ...]
    pairs: tuple[int, ...]
    end: float


def timeline(program: Sequence[Issue], *, reissue: float, width: int = 1, replacement: float = 0.0) -> Timeline:
    """The longest paths through the graph of VV16 figure 3.5: issue times of a warp that runs alone.

    Args:
        program: instructions in order.
        reissue: ILP latency, cycles from one issue of the warp to the next (VV16 s3.7).
        width: 2 if two independent neighbours may be issued at once; that latency is then 0 between them (VV16 s3.8).
        replacement: cycles until a block that ended is replaced (VV16 s3.7).

    Raises `ValueError` for an empty program or another width.

    """
    if not program or width not in (1, 2):
        raise ValueError(f"a schedule needs instructions, issued one or two at once, got {len(program)} and {width}")
    ready: dict[str, float] = {}
    cycles: list[float] = []
    pairs: list[int] = []
    for place, each in enumerate(program):
        together = width == 2 and place > 0 and place - 1 not in pairs and _independent(program[place - 1], each)
        earliest = cycles[-1] + (0.0 if together else reissue) if cycles else 0.0
        at = max([earliest, *(ready.get(register, 0.0) for register in each.reads)])
        # A pair is one issue event: an operand that is late takes it apart.
        if together and at == cycles[-1]:
            pairs.append(place)
        elif together:
            at = max(at, cycles[-1] + reissue)
        cycles.append(at)
        if each.writes is not None:
            ready[each.writes] = at + each.latency
    return Timeline(tuple(cycles), tuple(pairs), cycles[-1] + replacement)


def after_barrier(arrivals: Sequence[float], latency: float) -> float:
    """When all warps of a block go on: the last arrival and the barrier's own latency (VV16 s3.7, listing 3.3)."""
    return max(arrivals) + latency


def _independent(first: Issue, second: Issue) -> bool:
    clash = first.writes is not None and first.writes == second.writes
    return first.writes not in second.reads and not clash and not (first.load and second.load)
