"""How often the copies of a loop run that the assembler unrolled.

The assembler writes a loop of the PTX as loops and blocks with several copies of its body each. Threads run the one
with the most copies while enough turns remain, then the next (seen in code of CUDA 12 and 13 for sm_75 to sm_120).
"""

from collections.abc import Iterator, Mapping, Sequence

from gpudissect.explanation.counts import Terms
from gpudissect.explanation.evidence import Evidence, PtxBlock
from gpudissect.explanation.instrument import BlockCount
from gpudissect.explanation.ptx import Function
from gpudissect.machine_code.program import Program

_ROUNDING = 1e-6


def unrolled_loops(
    program: Program,
    functions: Sequence[Function],
    counts: Mapping[PtxBlock, BlockCount],
    found: Sequence[Evidence],
    edges: Mapping[tuple[int, int], int],
) -> Iterator[tuple[Terms, float]]:
    """Equations for loops of one PTX block that all threads turn equally often: executions of copies, and entries.

    `edges` has the unknowns of the edges of the program.
    """
    by_name = {function.name: function for function in functions}
    loops = {loop.header: loop for loop in program.loops.loops if len(loop.blocks) == 1}
    for evidence in found:
        name, index = evidence.block
        count = counts[evidence.block]
        copies = sorted((-factor, block) for (block, predicate), factor in evidence.copies.items() if not predicate)
        if len(copies) < 2 or index not in by_name[name].blocks[index].successors or not count.threads:
            continue
        entries = count.threads - count.taken
        turns = count.threads / entries if entries else 0.0
        if not entries or abs(turns - round(turns)) > _ROUNDING * turns:
            continue
        rest = round(turns)
        for negative, block in copies:
            factor, loop = -negative, loops.get(block)
            times = rest // factor if loop is not None else min(1, rest // factor)
            rest -= times * factor
            yield {block: 1.0}, float(entries * times)
            if loop is not None and times:
                entering = {unknown: 1.0 for (first, second), unknown in edges.items() if second == block != first}
                yield entering, float(entries)
