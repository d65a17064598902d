"""VV16's kernels as machine code of the oldest architecture that compiles: instruction mix and issue times of a warp.

How often blocks run and which addresses warps access is in the recorded profiles; code without branches runs once, and
the distance of its lanes' addresses follows from the machine code. VV16's GPUs have other instructions and no control
words, so that stall counts are not used: a warp waits for its operands alone (VV16 s3.7).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from issue_times import Issue, Timeline, timeline
from kernels import KERNELS, read_entries
from numpy.typing import NDArray

from gpudissect.device.cuda.compile import compile_ptx
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.mapping import map_counts
from gpudissect.explanation.model.assembled import as_assembled, by_instruction
from gpudissect.explanation.model.requests import LINE, SECTOR, Requests, bank_passes, distinct
from gpudissect.explanation.model.traffic import Accessed, SampledWarp, Traffic
from gpudissect.explanation.model.walk import walk
from gpudissect.explanation.profile import read_profile
from gpudissect.explanation.ptx import Module, parse_ptx
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.kernel import choose_kernel
from gpudissect.machine_code.program import Program, read_program
from gpudissect.models.base import Machine
from gpudissect.units import WARP_SIZE

CAPABILITY = "75"  # NVRTC 13 compiles for none before it
PRINTED_CODE = Path(__file__).parent / "vv16.cu"
RECORDINGS = Path(__file__).parents[1] / "tests" / "recordings" / "kernels" / "h200"
KINDS = {  # of `models.base.Machine.units`, and what VV16 table 3.2 calls them
    "fadd": "CUDA core instructions",
    "rsq": "SFU instructions",
    "lds": "shared memory, no conflicts",
    "lds_2way": "shared memory, 2-way conflict",
    "ldg_streaming": "memory, fully coalesced",
    "ldg_stride2": "memory, stride-2",
    "ldg_random": "memory, fully diverging",
}
COALESCED, MIN_DIVERGING = LINE // SECTOR, 16  # sectors of an access of a warp
MAX_PATH = 3000  # instructions
_SCALED = re.compile(r"\[(R\d+)(?:\.X(\d+))?")


@dataclass(frozen=True)
class Code:
    """Machine code of a kernel and the paths of its warps. `kinds`: of each instruction, by index; see `KINDS`."""

    program: Program
    kinds: tuple[str, ...]
    paths: tuple[NDArray[np.int64], ...]  # indices of instructions, one for every so manieth warp
    executed: NDArray[np.float64]  # by a warp on average, by index of instruction

    @property
    def mix(self) -> dict[str, float]:
        """Instructions of a warp by kind: a column of VV16 table 3.2."""
        counts = {kind: 0.0 for kind in KINDS}
        for kind, count in zip(self.kinds, self.executed.tolist(), strict=True):
            counts[kind] += count
        return {kind: count for kind, count in counts.items() if count}

    @property
    def opcodes(self) -> Counter[str]:
        """Instructions of the first path by opcode."""
        return Counter(self.program.instructions[index].opcode for index in self.paths[0])

    def issues(self, machine: Machine, path: NDArray[np.int64]) -> list[Issue]:
        """A path with the latencies of a machine; values are named by the instructions that produce them."""
        found = []
        for index in path.tolist():
            instruction, kind = self.program.instructions[index], self.kinds[index]
            producers = self.program.dependences.by_consumer.get(index, ())
            found.append(
                Issue(
                    text=str(instruction),
                    latency=machine.unit(kind).latency,
                    reads=tuple(f"v{each.producer}" for each in producers),
                    writes=f"v{index}",
                    load=self.program.uses[index].access == "load" and kind.startswith("ldg"),
                )
            )
        return found

    def timelines(self, machine: Machine, width: int, replacement: float) -> list[Timeline]:
        """Issue times on each path (VV16 s3.7); `width`, `replacement`: see `issue_times.timeline`."""
        return [
            timeline(self.issues(machine, path), reissue=machine.reissue, width=width, replacement=replacement)
            for path in self.paths
        ]


@cache
def printed_code(kernel: str) -> Code:
    """A kernel of ``vv16.cu``, which has no branches."""
    module, program = _compiled(PRINTED_CODE, kernel)
    del module
    path = np.flatnonzero([i.opcode == "EXIT" for i in program.instructions])
    reached = np.arange(int(path[0]) + 1)
    executed = np.zeros(len(program.instructions))
    executed[reached] = 1.0
    requests = {
        index: _request(lane_stride(program, index), use.space == "shared")
        for index, use in enumerate(program.uses)
        if use.access is not None
    }
    return Code(program, _kinds(program, requests), (reached,), executed)


@cache
def recorded_code(name: str) -> Code:
    """A kernel of ``examples/kernels`` as its profile says that it ran. Raises `ValueError` if its PTX is another."""
    entry = next(each for each in read_entries() if each.name == name)
    module, program = _compiled(entry.file, entry.kernel)
    profile = read_profile(RECORDINGS / f"{name}.json")
    if _body(module.text) != _body(profile.ptx()):
        raise ValueError(f"{name}: this NVRTC makes another PTX for compute_{CAPABILITY} than was recorded")
    blocks, threads = profile.launch.blocks, profile.launch.threads_per_block
    counts = map_counts(program, module.functions, profile.block_counts(), blocks * threads)
    path = walk(program, counts, blocks * -(-threads // WARP_SIZE), MAX_PATH)
    accesses = as_assembled(program, [Accessed(*access) for access in profile.accesses])
    warps = [SampledWarp(0, warp.trace()) for warp in profile.warps]
    outside = Traffic(accesses, warps).outside
    requests = {place: outside[index] for place, index in by_instruction(program, accesses, outside).items()}
    return Code(program, _kinds(program, requests), path.variants, path.executed)


def lane_stride(program: Program, access: int) -> int:
    """Bytes from the address of one lane to that of the next, of a memory access by index.

    Follows the arithmetic of its address back to the number of the thread. Raises `ValueError` for instructions that
    `vv16.cu` does not have.
    """
    operand = next(each for each in program.instructions[access].operands if "[" in each)
    match = _SCALED.match(operand)
    if match is None:
        raise ValueError(f"an address of another form: {operand}")
    return int(match[2] or 1) * _stride(program, access, match[1])


def _stride(program: Program, consumer: int, register: str) -> int:
    """By how much a register that an instruction reads differs from lane to lane."""
    if not register.startswith("R") or register == "RZ":
        return 0
    dependences = program.dependences.by_consumer[consumer]
    index = next(each.producer for each in dependences if register in each.registers)
    instruction = program.instructions[index]
    sources = instruction.operands[1:]
    match instruction.mnemonic:
        case "S2R":
            return int(sources[0] == "SR_TID.X")
        case "MOV":
            return _stride(program, index, sources[0])
        case "SHF.L.U32":
            return _stride(program, index, sources[0]) << int(sources[1], 0)
        case "IMAD" | "IMAD.WIDE":
            first, factor, added = sources
            scaled = _stride(program, index, first)
            return _stride(program, index, added) + (scaled * _constant(program, index, factor) if scaled else 0)
    raise ValueError(f"the address depends on {instruction.mnemonic}")


def _constant(program: Program, consumer: int, operand: str) -> int:
    """An immediate operand, or the immediate that its register was set to."""
    if not operand.startswith("R"):
        return int(operand, 0)
    dependences = program.dependences.by_consumer[consumer]
    producer = program.instructions[next(each.producer for each in dependences if operand in each.registers)]
    return int(producer.operands[1], 0)


def _request(stride: int, is_shared: bool) -> Requests:
    addresses = (np.arange(WARP_SIZE, dtype=np.uint64) * np.uint64(stride))[None, :]
    lanes, size = np.ones((1, WARP_SIZE), dtype=bool), 4
    passes = float(bank_passes(addresses, lanes, size)[0])
    return Requests(WARP_SIZE, passes, 0.0 if is_shared else float(distinct(addresses, lanes, size, SECTOR)[0]))


def _compiled(source: Path, kernel: str) -> tuple[Module, Program]:
    ptx, *_ = compile_ptx(source.read_text(encoding="utf-8"), source.name, f"compute_{CAPABILITY}", [KERNELS])
    module = parse_ptx(ptx)
    cubin = assemble(with_source_lines(module), f"sm_{CAPABILITY}")
    return module, read_program(cubin, choose_kernel(cubin.kernels, kernel))


def _body(ptx: str) -> list[str]:
    """PTX without comments and what names the compiler and its target."""
    lines = (line.strip() for line in ptx.splitlines())
    return [line for line in lines if line and not line.startswith(("//", ".version", ".target"))]


def _kinds(program: Program, requests: Mapping[int, Requests]) -> tuple[str, ...]:
    return tuple(_kind(program, index, requests.get(index)) for index in range(len(program.instructions)))


def _kind(program: Program, index: int, request: Requests | None) -> str:
    """As VV16 s3.8: what is neither an access nor for the SFU is taken to be executed by CUDA cores."""
    use = program.uses[index]
    if use.access is None or use.space == "constant" or request is None:
        return "rsq" if use.unit == "xu" else "fadd"
    if use.space == "shared":
        return "lds" if request.passes < 1.5 else "lds_2way"
    if request.sectors >= MIN_DIVERGING:
        return "ldg_random"
    return "ldg_streaming" if request.sectors <= 1.5 * COALESCED else "ldg_stride2"


def mean_end(timelines: Sequence[Timeline]) -> float:
    """Mean latency of the warps that take these paths in turn, cycles."""
    return float(np.mean([each.end for each in timelines]))
