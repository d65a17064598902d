"""Issue times of the instructions of one warp, a lower bound on its latency (VV16 s3.7, s3.8)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Issue:
    """One instruction of a program, in program order."""

    text: str
    latency: float  # cycles until the register that it writes can be used
    reads: tuple[str, ...] = ()
    writes: str | None = None
    load: bool = False  # from memory: two loads are not issued together (VV16 s3.8)


@dataclass(frozen=True)
class Timeline:
    """When each instruction is issued."""

    cycles: tuple[float, ...]
    pairs: tuple[int, ...]  # indices of instructions issued together with the previous one
    end: float  # when the warp is replaced


def timeline(program: Sequence[Issue], *, reissue: float, width: int = 1, replacement: float = 0.0) -> Timeline:
    """Issue times of a warp that runs alone, a lower bound on its latency: longest paths in VV16 figure 3.5.

    `reissue` cycles pass from one issue of the warp to the next (ILP latency, VV16 s3.7), `replacement` cycles until a
    finished block is replaced (s3.7). With a `width` of 2, two independent neighbours can be issued at once (s3.8).
    Raises `ValueError` for an empty program or another width.
    """
    if not program or width not in (1, 2):
        raise ValueError(f"a timeline needs instructions and a width of 1 or 2, got {len(program)} and {width}")
    ready: dict[str, float] = {}
    cycles: list[float] = []
    pairs: list[int] = []
    for i, issue in enumerate(program):
        together = width == 2 and i > 0 and i - 1 not in pairs and _are_independent(program[i - 1], issue)
        earliest = cycles[-1] + (0.0 if together else reissue) if cycles else 0.0
        at = max([earliest, *(ready.get(register, 0.0) for register in issue.reads)])
        # A pair is one issue event: a late operand splits it.
        if together and at == cycles[-1]:
            pairs.append(i)
        elif together:
            at = max(at, cycles[-1] + reissue)
        cycles.append(at)
        if issue.writes is not None:
            ready[issue.writes] = at + issue.latency
    return Timeline(tuple(cycles), tuple(pairs), cycles[-1] + replacement)


def _are_independent(first: Issue, second: Issue) -> bool:
    same_target = first.writes is not None and first.writes == second.writes
    return first.writes not in second.reads and not same_target and not (first.load and second.load)
