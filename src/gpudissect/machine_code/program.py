"""All that is known of a kernel from its machine code, in one value."""

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpudissect.errors import MachineCodeError
from gpudissect.machine_code.dependence import Dependences, find_dependences
from gpudissect.machine_code.flow import Flow, control_flow
from gpudissect.machine_code.instructions import Instruction, read_instructions
from gpudissect.machine_code.kernel import INSTRUCTION_BYTES, Cubin, Kernel
from gpudissect.machine_code.lines import Line, UnreadableLinesError, source_lines
from gpudissect.machine_code.loops import Loops, natural_loops
from gpudissect.machine_code.units import Use, use

MAX_INSTRUCTIONS = 100_000  # of a kernel; a prediction takes about 10 KB for each
SLOW_PATHS = re.compile(r"(\$__internal_|__cuda_sm)\S*(slowpath|mediumpath|_rn_f64_full)")
"""Names that compilers give functions for exceptional operands of divisions and roots: very small or large, infinite,
NaN. Such as ``$__internal_0_$__cuda_sm20_rcp_rn_f32_slowpath`` and ``k$__internal_trig_reduction_slowpathd``."""


@dataclass(frozen=True)
class Program:
    """A kernel with its control flow, loops, dependences, and what each instruction uses, by index of instruction."""

    kernel: Kernel
    flow: Flow = field(repr=False)
    loops: Loops = field(repr=False)
    dependences: Dependences = field(repr=False)
    uses: tuple[Use, ...] = field(repr=False)
    has_readable_lines: bool = True

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions by address."""
        return self.flow.instructions

    @property
    def lines(self) -> dict[int, Line]:
        """Source lines by the addresses of instructions that have one."""
        pairs = ((each.address, each.file, each.line) for each in self.instructions)
        return {address: (file, line) for address, file, line in pairs if file is not None and line is not None}

    @cached_property
    def slow_paths(self) -> frozenset[int]:
        """Blocks for exceptional operands of divisions and roots: functions, calls, and what only these lead to."""
        names = {each.start: each.name for each in self.kernel.functions if each.name != self.kernel.name}
        starts = dict.fromkeys((each.start for each in self.kernel.functions), False)
        starts |= {start: bool(SLOW_PATHS.search(name)) for start, name in names.items()}
        found, is_slow = set[int](), False
        for number, block in enumerate(self.flow.blocks):
            is_slow = starts.get(self.instructions[block.start].address, is_slow)
            found |= {number} if is_slow else set()
        found |= {number for number, block in enumerate(self.flow.blocks) if block.callee in found}
        for number, before in enumerate(self.flow.predecessors()):
            found |= {number} if before and found.issuperset(before) else set()
        return frozenset(found)


def read_program(cubin: Cubin, kernel: Kernel) -> Program:
    """The program of a kernel; without source lines if they are not readable.

    Starts nvdisasm; raises `MachineCodeError` as `read_instructions` does.
    """
    if len(kernel.code) > MAX_INSTRUCTIONS * INSTRUCTION_BYTES:
        count = len(kernel.code) // INSTRUCTION_BYTES
        raise MachineCodeError(f"the kernel has {count} instructions, supported: up to {MAX_INSTRUCTIONS}")
    lines, is_readable = dict[int, Line](), True
    try:
        lines = source_lines(cubin, kernel)
    except UnreadableLinesError:
        is_readable = False
    return replace(describe(kernel, read_instructions(cubin, kernel, lines)), has_readable_lines=is_readable)


def describe(kernel: Kernel, instructions: tuple[Instruction, ...]) -> Program:
    """The program of a kernel from its instructions. Raises `MachineCodeError` for a branch outside the kernel."""
    capability = int(kernel.architecture.removeprefix("sm_"))
    flow = control_flow(kernel, instructions)
    loops = natural_loops(flow)
    uses = tuple(use(instruction, capability) for instruction in instructions)
    return Program(kernel, flow, loops, find_dependences(flow, loops, capability), uses)
