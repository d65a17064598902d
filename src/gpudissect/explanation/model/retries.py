"""Atomics on shared memory that the assembler replaces by a loop: load, compute, store if the word is unchanged.

These are atomics that shared memory does not support, such as 64-bit additions. No count of a PTX block shows how many
attempts such a loop makes. In each attempt one of the lanes that access the same word succeeds; all warps of a block
are assumed to be in the loop at once.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import lgamma, log, sqrt

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.counts import Count
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.requests import Requests, concentration
from gpudissect.explanation.rows import distinct_rows
from gpudissect.machine_code.instructions import Instruction
from gpudissect.machine_code.loops import Loop
from gpudissect.machine_code.program import Program

FLOATING_POINT = ("FADD", "FMNMX", "DADD", "DMNMX", "HADD", "HFMA", "HMNMX")  # what such a loop may compute
LATER_CONFLICTS = 0.3  # of the conflicts of the first attempt: few lanes are left


@dataclass(frozen=True)
class Contention:
    """Means over the requests of an atomic: active lanes, and the largest number of lanes that access the `same` word.

    `others`: mean number of lanes of another warp that access the word of a lane.
    """

    lanes: float
    same: float
    others: float


def is_retried(instruction: Instruction) -> bool:
    """Whether an instruction is the compare-and-store of such a loop."""
    return instruction.opcode == "ATOMS" and "CAST" in instruction.modifiers


def contention_of(
    addresses: NDArray[np.uint64], is_active: NDArray[np.bool_], size: int, warps: NDArray[np.int64]
) -> Contention:
    """The contention of requests of shape (requests, 32). `warps`: number of the warp of each, shape (requests,)."""
    rows = np.nonzero(is_active)[0]
    first, of = distinct_rows(rows, (addresses[is_active] // np.uint64(size)).astype(np.int64))
    max_lanes = np.zeros(len(addresses), dtype=np.int64)
    np.maximum.at(max_lanes, rows[first], np.bincount(of))
    lanes = is_active.sum(axis=1)
    together = concentration(addresses, is_active, warps, size)
    return Contention(float(lanes.mean()), float(max_lanes.mean()), float(together * lanes.mean()))


def mean_attempts(contention: Contention, warps: int) -> float:
    """Mean attempts of a warp in the loop, in a block of this number of warps.

    The number of lanes of other warps that access the word of a lane has a Poisson distribution. The lane waits for a
    random number of them, and the warp for its last lane.
    """
    mean = contention.others * (warps - 1)
    if mean <= 0:
        return contention.same
    others = np.arange(int(mean + 8 * sqrt(mean)) + 16)
    shares = np.exp(others * log(mean) - mean - np.array([lgamma(count + 1) for count in others.tolist()]))
    ahead = np.cumsum((shares / (others + 1))[::-1])[::-1]  # probability that exactly so many are ahead
    at_most = np.minimum(np.cumsum(ahead), 1.0)
    return contention.same + float((1 - at_most**contention.lanes).sum())


def with_retries(
    program: Program, counts: MachineCounts, accessed: Mapping[int, int], found: Mapping[int, Contention], warps: int
) -> tuple[MachineCounts, dict[int, float]]:
    """Counts with all attempts of such loops, and the attempts of each of their instructions that has requests.

    `accessed`: index of the access of each instruction; `found`: by access; `warps`: of a block.
    """
    threads, by_warps, edges = list(counts.threads), list(counts.warps), dict(counts.edges)
    attempts = dict[int, float]()
    for loop, places in _loops(program):
        own = [accessed[i] for i in places if i in accessed and is_retried(program.instructions[i])]
        if not own or own[0] not in found or not all(threads[latch].value for latch in loop.latches):
            continue
        factor = max(1.0, mean_attempts(found[own[0]], warps))
        for block in loop.blocks:  # it has no loop inside
            threads[block], by_warps[block] = _times(threads[block], factor), _times(by_warps[block], factor)
        for latch in loop.latches:
            around = threads[loop.header].value * (1 - 1 / factor) / len(loop.latches)
            edges[latch, loop.header] = Count(around, around, around)
        attempts |= {place: factor for place in places if place in accessed}
    return replace(counts, threads=tuple(threads), warps=tuple(by_warps), edges=edges), attempts


def with_one_attempt(program: Program, counts: MachineCounts, attempts: Mapping[int, float]) -> MachineCounts:
    """Counts if the first attempt of each such loop succeeds; `attempts`: as `with_retries` returns them."""
    threads, by_warps, edges = list(counts.threads), list(counts.warps), dict(counts.edges)
    for loop, places in _loops(program):
        factor = next((attempts[place] for place in places if place in attempts), None)
        if factor is not None:
            for block in loop.blocks:
                threads[block], by_warps[block] = (_times(each[block], 1 / factor) for each in (threads, by_warps))
            edges |= {(latch, loop.header): Count(0.0, 0.0, 0.0) for latch in loop.latches}
    return replace(counts, threads=tuple(threads), warps=tuple(by_warps), edges=edges)


def retried_atomics(program: Program) -> dict[int, str]:
    """The atomics that such loops replace, ``64-bit floating-point atomics``, by index of the compare-and-store."""
    found = dict[int, str]()
    for _, places in _loops(program):
        is_float = any(program.instructions[place].opcode.startswith(FLOATING_POINT) for place in places)
        for place in places:
            if is_retried(program.instructions[place]):
                size = "64-bit " if "64" in program.instructions[place].modifiers else ""
                found[place] = f"{size}{'floating-point ' if is_float else ''}atomics"
    return found


def _loops(program: Program) -> Iterator[tuple[Loop, list[int]]]:
    """Each loop, and the instructions in it that no loop inside has."""
    for number, loop in enumerate(program.loops.loops):
        blocks = [program.flow.blocks[block] for block in loop.blocks if program.loops.innermost[block] == number]
        yield loop, [place for block in blocks for place in range(block.start, block.end)]


def mean_passes(requests: Requests, attempts: float) -> Requests:
    """The requests of an instruction in such a loop: few lanes are left in later attempts."""
    later = 1 + LATER_CONFLICTS * (requests.passes - 1)
    return replace(requests, passes=(requests.passes + (attempts - 1) * later) / attempts)


def retried_accesses(program: Program, numbers: Collection[int]) -> frozenset[int]:
    """Indices of the accesses in such loops, from the number of the PTX instruction of each."""
    lines = {each.line for each in program.instructions if is_retried(each)}
    return frozenset(index for index, number in enumerate(numbers) if number in lines)


def _times(count: Count, factor: float) -> Count:
    return Count(count.value * factor, count.low * factor, count.high * factor)
