"""Asynchronous operations of a warp: copies to shared memory and matrix instructions of warpgroups.

``LDGDEPBAR`` ends a group of copies (``LDGSTS``), which a barrier of the scoreboard counts until they are done;
``DEPBAR.LE SB0, n`` waits until it counts n or fewer. The last matrix instruction of a group names ``gsb0``.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from gpudissect.machine_code.instructions import BARRIERS, Instruction

COPIES, MATRICES = range(2)  # queues
MATRIX_OPCODES = frozenset(("HGMMA", "IGMMA", "QGMMA"))
_MATRIX_COUNTER = BARRIERS  # behind those of the scoreboard
_LIMIT = re.compile(r"(?:SB(\d)|gsb0), 0x([0-9a-f]+).*")


class Asynchronous(NamedTuple):
    """The queue that an instruction joins, the counter it joins or waits for, and how many may remain pending."""

    queue: int | None
    counter: int | None
    pending: int | None


SYNCHRONOUS = Asynchronous(None, None, None)


@lru_cache(8)
def asynchronous_of(instructions: tuple[Instruction, ...]) -> tuple[Asynchronous, ...]:
    """The asynchronous operations of a program. A fence of the whole GPU waits for copies too (H200)."""
    waits = [_wait(instruction) for instruction in instructions]
    counters = {wait.counter for wait in waits if wait is not None}
    pairs = enumerate(pairwise(instructions))
    first = {index for index, (each, after) in pairs if str(each) == "MEMBAR.ALL.GPU" and after.opcode == "FENCE"}
    fences = first | {index + 1 for index in first}
    found = []
    for index, (instruction, wait) in enumerate(zip(instructions, waits, strict=True)):
        is_copy = instruction.opcode in ("LDGSTS", "LDGDEPBAR") or index in fences
        is_matrix = instruction.opcode in MATRIX_OPCODES
        queue = COPIES if is_copy else MATRICES if is_matrix else None
        counter = _MATRIX_COUNTER if is_matrix and "gsb0" in instruction.operands else instruction.write_barrier
        found.append(wait or Asynchronous(queue, counter if counter in counters else None, None))
    return tuple(found)


def _wait(instruction: Instruction) -> Asynchronous | None:
    """What an instruction waits for by number."""
    if instruction.opcode != "DEPBAR" and instruction.modifiers[:1] != ("DEPBAR",):
        return None
    limit = _LIMIT.fullmatch(", ".join(instruction.operands))
    return limit and Asynchronous(None, int(limit[1]) if limit[1] else _MATRIX_COUNTER, int(limit[2], 16))
