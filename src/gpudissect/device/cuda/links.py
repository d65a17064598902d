"""Lays what the chains of a mix go through in global memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.bodies import LINE, TILE
from gpudissect.device.cuda.driver import Board, Kernel
from gpudissect.errors import Unfit
from gpudissect.units import format_bytes
from gpudissect.workload import Access, Mix
from gpudissect.workload.order import feistel_half_bits

_BLOCKS, _THREADS = 2048, 256
_PATIENCE = 60.0  # seconds
_REACH = 1 << 31
_NAN = 1 << 23  # at the end of every `_REACH`: what a single of these 32 bits would be is no number


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
    if mix.access is Access.RESIDENT:
        memory = _room(31 * mix.stride * 4 + mix.width, mix.width, arena)
        board.launch(kernel("mix_lay.cu", "lay_words", width), (1, 1), TILE, 0, memory, mix.stride * 4)
        links = Links(memory)
    elif mix.access is Access.STREAMING:
        tiles = mix.footprint // (TILE * mix.width)
        _check_room(mix, tiles, chains)
        memory = _room(tiles * TILE * mix.width, mix.width, arena)
        filler = kernel("mix_lay.cu", "lay_tiles", width)
        board.launch(filler, (_BLOCKS, 1), _THREADS, 0, memory, tiles, chains)
        links = Links(memory, tiles)
    else:
        lines = mix.footprint // LINE
        _check_room(mix, lines, chains * TILE)
        memory = _room(lines * LINE, mix.width, arena)
        links = Links(memory, lines, feistel_half_bits(lines))
        filler = kernel("mix_lay.cu", "lay_lines", width)
        board.launch(filler, (_BLOCKS, 1), _THREADS, 0, memory, lines, links.half)
    board.wait(_PATIENCE)
    return links


def _check_room(mix: Mix, places: int, wanted: int) -> None:
    if places < wanted:
        raise Unfit(f"a footprint of {format_bytes(mix.footprint)} has {places} places for {wanted} chains that "
                    "each need their own: ask for more")  # fmt: skip
    if places >= 1 << 31:
        raise Unfit(f"a footprint of {format_bytes(mix.footprint)} has more than 2^31 places: ask for less")


def _room(size: int, width: int, arena: Arena) -> int:
    """Address of `size` bytes. Links of 4 bytes are the lower half of an address: so far, and no further, they reach.

    Nor may such a half, taken for a floating-point number, be none: additions could not leave it as it is.
    """
    memory = arena.reserve(size)
    if width > 4 or memory % _REACH + size <= _REACH - _NAN:
        return memory
    if size > _REACH - _NAN:
        raise Unfit(f"links of 4 bytes reach no further than {format_bytes(_REACH - _NAN)}: take a width of 8")
    memory = arena.reserve(2 * size + _NAN)
    return memory if memory % _REACH + size <= _REACH - _NAN else -(-memory // _REACH) * _REACH
