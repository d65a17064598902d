"""Instructions and source lines of an explanation as text, and runs of instructions that are hardly executed."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from gpudissect.explanation.result import Explanation, Line
from gpudissect.printable import clean

MIN_EXECUTIONS, MIN_SHARE = 0.001, 0.0005  # below them a number is not shown
MIN_FOLDED = 3  # instructions of a run that is shown as one row


class SourceRow(NamedTuple):
    """A source line: instructions, its share of all issue slots, shares of the time of a warp, executions by a warp.

    `threads`: of a warp that execute it together, on average; None if they were not counted.
    """

    place: str
    instructions: int
    issued: float
    stall: float
    contended: float
    executed: float
    threads: float | None

    @property
    def time(self) -> float:
        """What it is ranked by: the waits at it, and its issue slots."""
        return self.stall + self.contended + self.issued


def source_rows(explanation: Explanation) -> list[SourceRow]:
    """The source lines that are executed, those with most time first; empty without line information.

    A line is executed as often as the most executed of its instructions.
    """
    by_place = defaultdict[str, list[Line]](list)
    for line in explanation.lines:
        by_place[source_of(line)].append(line)
    if not by_place.keys() - {""}:
        return []
    total = sum(line.executed for line in explanation.lines) or 1.0
    rows = [
        SourceRow(
            place=place or "no source line",
            instructions=len(lines),
            issued=sum(line.executed for line in lines) / total,
            stall=sum(line.stall for line in lines),
            contended=sum(line.contended for line in lines),
            executed=max(line.executed for line in lines),
            threads=_mean_threads(lines),
        )
        for place, lines in by_place.items()
    ]
    return sorted((row for row in rows if row.executed > 0), key=lambda row: (-row.time, row.place))


def _mean_threads(lines: Sequence[Line]) -> float | None:
    counted = [(line.executed, line.active_threads) for line in lines if line.active_threads is not None]
    executed = sum(count for count, _ in counted)
    return sum(count * threads for count, threads in counted) / executed if executed else None


def folded(lines: Sequence[Line]) -> list[list[Line]]:
    """Instructions in groups of one, but for longer runs of those executed less than once per 1000 warps."""
    groups = list[list[Line]]()
    for is_rare, run in groupby(lines, key=_is_rare):
        found = list(run)
        groups += [found] if is_rare and len(found) >= MIN_FOLDED else [[line] for line in found]
    return groups


def _is_rare(line: Line) -> bool:
    return line.executed < MIN_EXECUTIONS and line.stall + line.contended < MIN_SHARE


def fold_of(lines: Sequence[Line]) -> str:
    """A folded run: ``... 36 instructions to 0x0c40, never executed``."""
    is_never = not any(line.executed for line in lines)
    often = "never executed" if is_never else "executed less than once per 1000 warps"
    return f"... {len(lines)} instructions to {address_of(lines[-1].address)}, {often}"


def hottest(explanation: Explanation, count: int) -> list[Line]:
    """Instructions at which a warp spends most time, the first `count`."""
    ranked = sorted(explanation.lines, key=lambda line: (-line.stall - line.contended, line.address))
    return [line for line in ranked[:count] if line.stall + line.contended > 0]


def executed_lines(explanation: Explanation) -> list[Line]:
    """The machine code by address, without the padding behind the last instruction that a warp executes."""
    lines = sorted(explanation.lines, key=lambda line: line.address)
    last = max((n for n, line in enumerate(lines) if line.executed > 0), default=-1)
    return lines[: last + 1]


def times_of(executed: float) -> str:
    """Executions by a warp, on average."""
    return f"{executed:.4g}" if executed >= MIN_EXECUTIONS or not executed else f"<{MIN_EXECUTIONS:g}"


def threads_of(active: float | None) -> str:
    """Active threads of a warp, on average; empty if they were not counted."""
    return "" if active is None else f"{active:.3g}"


def number_of(value: float | None) -> str:
    """A number in four digits, in whole numbers if it is larger; empty without one."""
    return "" if value is None else f"{value:,.0f}" if value >= 1e4 else f"{value:.4g}"


def hits_of(line: Line) -> tuple[str, str]:
    """Hit rates in the L1 and, of its misses, in the L2; empty for other instructions and for shared memory."""
    rates = (line.l1_hits, line.l2_hits) if line.sectors else (None, None)
    return "" if rates[0] is None else f"{rates[0]:.0%}", "" if rates[1] is None else f"{rates[1]:.0%}"


def share_of(share: float) -> str:
    """A share in percent; empty if it rounds to zero."""
    return f"{share:.1%}" if share >= MIN_SHARE else ""


def place_of(line: Line) -> str:
    """Opcode, address and source line: ``LDG.E (0x0010, add.cu:4)``."""
    source = source_of(line)
    return f"{opcode_of(line)} ({address_of(line.address)}{', ' if source else ''}{source})"


def opcode_of(line: Line) -> str:
    """The opcode with its modifiers, without a predicate."""
    return clean(next((word for word in line.text.split() if not word.startswith("@")), ""))


def source_of(line: Line) -> str:
    """File name and number of the source line; empty if not known."""
    if not line.source_line:  # 0 stands for none
        return ""
    return clean(f"{(line.source_file or '').rpartition('/')[2]}:{line.source_line}")


def address_of(address: int) -> str:
    """An address in the kernel, in hexadecimal."""
    return f"0x{address:04x}"
