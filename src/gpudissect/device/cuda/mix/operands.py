"""Writes what the chains of a mix go through in global memory."""

from dataclasses import dataclass

from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.memory import Arena
from gpudissect.errors import UnsupportedWorkload
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Access, Instruction, Mix
from gpudissect.workload.mix import RANDOM_LINE_BYTES
from gpudissect.workload.order import feistel_half_bits

_BLOCKS, _THREADS = 2048, 256
_HALF_BYTES = 1 << 31  # near either end of it, the lower half of an address is no normal number as a single
_EDGE_BYTES = 1 << 23
_MAX_NORMAL_BYTES = _HALF_BYTES - 2 * _EDGE_BYTES
_MAX_PLACES = 2**31 - 1


@dataclass(frozen=True)
class Operands:
    """Words in memory that lead to one another, or counters."""

    address: int
    count: int = 0  # tiles, lines, or counters that all share; 0 where every lane has one word
    half: int = 0  # lines: bits of half a Feistel network, see ``kernels/permutation.cuh``


def links_code(mix: Mix) -> Code:
    """Source and macros of the kernels that write the links of a mix and measure the clock after it."""
    return ("mix_links.cu", f"WIDTH={mix.width}")


def write_links(mix: Mix, chains: int, context: CudaContext, arena: Arena) -> Operands:
    """Queue what writes the links of a mix of `chains` chains.

    Raises `UnsupportedWorkload` if they have too few places.
    """

    def launch(name: str, grid: int, threads: int, *arguments: int) -> None:
        source, width = links_code(mix)
        kernel = context.kernel(source, name, width)
        context.launch(kernel, (grid, 1), threads, 0, *arguments)

    tile = WARP_SIZE * mix.stride * 4
    if mix.access is Access.RESIDENT:
        address = _reserve(mix, arena, (WARP_SIZE - 1) * mix.stride * 4 + mix.width)
        launch("write_words", 1, WARP_SIZE, address, mix.stride * 4)
        return Operands(address)
    if mix.access is Access.STREAMING:
        tiles = mix.footprint // tile
        check_places(mix, tiles, chains)
        address = _reserve(mix, arena, tiles * tile)
        launch("write_tiles", _BLOCKS, _THREADS, address, tiles, chains, mix.stride * 4)
        return Operands(address, tiles)
    lines = mix.footprint // RANDOM_LINE_BYTES
    check_places(mix, lines, chains * WARP_SIZE)
    address, half = _reserve(mix, arena, lines * RANDOM_LINE_BYTES), feistel_half_bits(lines)
    launch("write_lines", _BLOCKS, _THREADS, address, lines, half)
    return Operands(address, lines, half)


def check_places(mix: Mix, places: int, needed: int) -> None:
    """Raise `UnsupportedWorkload` if a footprint has too few places for its chains, or more than can be counted."""
    footprint = format_bytes(mix.footprint)
    if places < needed:
        raise UnsupportedWorkload(
            f"a footprint of {footprint} has {places} places for {needed} chains: ask for a larger one"
        )
    if places > _MAX_PLACES:
        raise UnsupportedWorkload(f"a footprint of {footprint} has more than {_MAX_PLACES} places: ask for less")


def _reserve(mix: Mix, arena: Arena, size: int) -> int:
    """Address of `size` bytes; if links have 4 bytes, or arithmetic works on them, one that `reserve_normal` gives."""
    only_loads = all(step.instruction is Instruction.LDG for step in mix.body)
    if mix.width > 4 and only_loads and mix.footprint > _MAX_NORMAL_BYTES:
        return arena.reserve(size)
    return reserve_normal(arena, size)


def reserve_normal(arena: Arena, size: int) -> int:
    """Address of `size` bytes that differ in the lower half of the address only, a normal number as a single.

    Links of 4 bytes reach no further; and additions leave every such address unchanged (VV16 s5.1).
    """
    if size > _MAX_NORMAL_BYTES:
        raise UnsupportedWorkload(
            "links of 4 bytes, and any that arithmetic works on, reach no further than "
            f"{format_bytes(_MAX_NORMAL_BYTES)}: ask for a smaller footprint than {format_bytes(size)}"
        )
    address = arena.reserve(size)
    if _first_normal(address, size) != address:
        address = arena.reserve(2 * size + 2 * _EDGE_BYTES)
    return _first_normal(address, size)


def _first_normal(address: int, size: int) -> int:
    """The first address from this one on from which `size` bytes fit between two edges."""
    part = address // _HALF_BYTES * _HALF_BYTES
    start = max(address, part + _EDGE_BYTES)
    return start if start + size <= part + _HALF_BYTES - _EDGE_BYTES else part + _HALF_BYTES + _EDGE_BYTES
