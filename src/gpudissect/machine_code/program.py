"""All that is known of a kernel from its machine code, in one value."""

from dataclasses import dataclass, field
from functools import cached_property

from gpudissect.machine_code.dependence import Dependences, find_dependences
from gpudissect.machine_code.flow import Flow, control_flow
from gpudissect.machine_code.instructions import Instruction, read_instructions
from gpudissect.machine_code.kernel import Cubin, Kernel
from gpudissect.machine_code.loops import Loops, natural_loops
from gpudissect.machine_code.units import Use, use

SLOW_PATHS = ("slowpath", "mediumpath", "_rn_f64_full")
"""Parts of names of functions for exceptional operands of divisions and roots: very small or large, infinite, NaN."""


@dataclass(frozen=True)
class Program:
    """A kernel with its control flow, loops, dependences, and what each instruction uses, by index of instruction."""

    kernel: Kernel
    flow: Flow = field(repr=False)
    loops: Loops = field(repr=False)
    dependences: Dependences = field(repr=False)
    uses: tuple[Use, ...] = field(repr=False)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions by address."""
        return self.flow.instructions

    @cached_property
    def slow_paths(self) -> frozenset[int]:
        """Blocks for exceptional operands of divisions and roots: functions, calls, and what only these lead to."""
        starts = {each.start: any(part in each.name for part in SLOW_PATHS) for each in self.kernel.functions}
        found, is_slow = set[int](), False
        for number, block in enumerate(self.flow.blocks):
            is_slow = starts.get(self.instructions[block.start].address, is_slow)
            found |= {number} if is_slow else set()
        found |= {number for number, block in enumerate(self.flow.blocks) if block.callee in found}
        for number, before in enumerate(self.flow.predecessors()):
            found |= {number} if before and found.issuperset(before) else set()
        return frozenset(found)


def read_program(cubin: Cubin, kernel: Kernel) -> Program:
    """The program of a kernel. Starts nvdisasm; raises `MachineCodeError` as `read_instructions` does."""
    return describe(kernel, read_instructions(cubin, kernel))


def describe(kernel: Kernel, instructions: tuple[Instruction, ...]) -> Program:
    """The program of a kernel from its instructions. Raises `MachineCodeError` for a branch outside the kernel."""
    capability = int(kernel.architecture.removeprefix("sm_"))
    flow = control_flow(kernel, instructions)
    loops = natural_loops(flow)
    uses = tuple(use(instruction, capability) for instruction in instructions)
    return Program(kernel, flow, loops, find_dependences(flow, loops, capability), uses)
