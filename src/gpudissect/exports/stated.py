"""What other formats ask of a GPU and nobody measures: limits of blocks, cores of an SM; stated, or documented."""

from __future__ import annotations

from dataclasses import dataclass

from gpudissect.catalogue.capabilities import USUAL_BLOCK_THREADS, USUAL_BLOCKS, USUAL_CORES
from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.exports.gpu.processor import alike
from gpudissect.exports.gpu.readings import Readings
from gpudissect.results.model import Finding, Result
from gpudissect.workload import Instruction


@dataclass(frozen=True)
class Known:
    """A result's facts and findings, by name."""

    result: Result

    def fact(self, name: str) -> float | None:
        """A number that the device states, None if it does not."""
        value = self.result.device.facts.get(name)
        return value if isinstance(value, int | float) and value >= 0 else None

    def finding(self, element: str, attribute: str) -> Finding | None:
        """A finding with a value, None if there is none."""
        for each in self.result.findings:
            if (each.element, each.attribute) == (element, attribute) and each.status.has_value:
                return each
        return None

    def number(self, element: str, attribute: str) -> float | None:
        """The number that was found, None if none was."""
        found = self.finding(element, attribute)
        return found.value if found is not None and isinstance(found.value, int | float) else None

    def at_least(self, element: str, attribute: str) -> float | None:
        """The low end of what was looked for and has no end that could be reached."""
        for each in self.result.findings:
            if (each.element, each.attribute, each.status) == (element, attribute, Status.NOT_FOUND):
                return each.low
        return None

    def shared_with(self, element: str) -> tuple[str, ...]:
        """Elements that are one array with this one."""
        found = self.finding(element, "shared_with")
        if found is None or not isinstance(found.value, str) or found.value == "nothing":
            return ()
        return tuple(each.strip() for each in found.value.split(","))

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability. Raises `UsageError` if the result does not have it."""
        major, _, minor = str(self.result.device.facts.get("compute_capability", "")).partition(".")
        if not (major.isdecimal() and minor.isdecimal() and len(major) < 4 and len(minor) < 4):
            raise UsageError("this result does not say its compute capability: no other program could use it")
        return int(major), int(minor)


@dataclass(frozen=True)
class Limits:
    """What an SM holds. `assumed` names those that stand for what nobody stated."""

    cores: int
    blocks: int
    block_size: int
    assumed: tuple[str, ...]


def limits_of(known: Known) -> Limits:
    """From what was measured (threads that add in a cycle), else a documented GPU as capable, else the usual."""
    gpu = alike(Readings(known.result))
    assumed = []
    rate = known.number("fadd", "rate")
    unit = gpu.table.units.get(Instruction.FADD) if gpu is not None else None
    if unit is not None and unit.rate is not None:
        cores = round(unit.rate.value)
    elif rate is not None:
        cores = max(1, round(rate / 8)) * 8
    else:
        cores = USUAL_CORES
        assumed.append("cores of an SM")
    if gpu is not None and gpu.table.processor is not None:
        table = gpu.table.processor
        return Limits(cores, int(table.blocks.value), int(table.block_size.value), tuple(assumed))
    return Limits(cores, USUAL_BLOCKS, USUAL_BLOCK_THREADS, (*assumed, "blocks of an SM", "threads of a block"))
