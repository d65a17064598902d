"""Lays what the chains of a mix go through in global memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.driver import Board, Kernel
from gpudissect.device.cuda.mix.bodies import TILE
from gpudissect.errors import UnsupportedWorkload
from gpudissect.units import format_bytes
from gpudissect.workload import Access, Instruction, Mix
from gpudissect.workload.mix import RANDOM_LINE_BYTES
from gpudissect.workload.order import feistel_half_bits

_BLOCKS, _THREADS = 2048, 256
_PATIENCE = 60.0  # seconds
_REACH = 1 << 31
_EDGE = 1 << 23  # at either end of every `_REACH`: as a single, 32 bits of there are tiny or no number at all

_MOST = _REACH - 2 * _EDGE


@dataclass(frozen=True)
class Links:
    """Words in memory that lead to one another.

    Attributes:
        memory: address of the first.
        count: tiles or lines; 0 where every lane has one word that leads to itself.
        half: LINES: bits of half a Feistel network, see ``kernels/permutation.cuh``.

    """

    memory: int
    count: int = 0
    half: int = 0


def lay(mix: Mix, chains: int, board: Board, kernel: Callable[..., Kernel], arena: Arena) -> Links:
    """Lay the links of a mix whose warps have `chains` chains in all.

    Raises `DeviceError` if not every chain can have a place of its own, and `OutOfMemory`.
    """
    width = f"WIDTH={mix.width}"
    pure = mix.width > 4 and all(step.instruction is Instruction.LDG for step in mix.body)
    room = arena.reserve if pure and mix.footprint > _MOST else partial(_room, arena)
    if mix.access is Access.RESIDENT:
        memory = room(31 * mix.stride * 4 + mix.width)
        board.launch(kernel("mix_lay.cu", "lay_words", width), (1, 1), TILE, 0, memory, mix.stride * 4)
        links = Links(memory)
    elif mix.access is Access.STREAMING:
        tiles = mix.footprint // (TILE * mix.stride * 4)
        _check_room(mix, tiles, chains)
        memory = room(tiles * TILE * mix.stride * 4)
        filler = kernel("mix_lay.cu", "lay_tiles", width)
        board.launch(filler, (_BLOCKS, 1), _THREADS, 0, memory, tiles, chains, mix.stride * 4)
        links = Links(memory, tiles)
    else:
        lines = mix.footprint // RANDOM_LINE_BYTES
        _check_room(mix, lines, chains * TILE)
        memory = room(lines * RANDOM_LINE_BYTES)
        links = Links(memory, lines, feistel_half_bits(lines))
        filler = kernel("mix_lay.cu", "lay_lines", width)
        board.launch(filler, (_BLOCKS, 1), _THREADS, 0, memory, lines, links.half)
    board.wait(_PATIENCE)
    return links


def _check_room(mix: Mix, places: int, wanted: int) -> None:
    if places < wanted:
        raise UnsupportedWorkload(
            f"a footprint of {format_bytes(mix.footprint)} has {places} places for {wanted} chains that "
            "each need their own: ask for more"
        )
    if places >= 1 << 31:
        raise UnsupportedWorkload(
            f"a footprint of {format_bytes(mix.footprint)} has more than 2^31 places: ask for less"
        )


def _room(arena: Arena, size: int) -> int:
    """Address of `size` bytes of which only the lower half changes, and is a normal number as a single.

    So far, and no further, links of 4 bytes reach; and so additions leave every address as it is (VV16 s5.1).
    """
    if size > _MOST:
        raise UnsupportedWorkload(f"links of 4 bytes, and any that arithmetic works on, reach no further than "
                          f"{format_bytes(_MOST)}: ask for less")  # fmt: skip
    memory = arena.reserve(size)
    if _normal_from(memory, size) != memory:
        memory = arena.reserve(2 * size + 2 * _EDGE)
    return _normal_from(memory, size)


def _normal_from(memory: int, size: int) -> int:
    """The first address from this one on where so much fits between two edges."""
    part = memory // _REACH * _REACH
    start = max(memory, part + _EDGE)
    return start if start + size <= part + _REACH - _EDGE else part + _REACH + _EDGE
