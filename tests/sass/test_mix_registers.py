"""Mixes of experiments need no more registers than the experiments assume: else an SM has no room for the warps."""

import re
from dataclasses import replace

import pytest

from gpudissect.device.cuda.compile import compile_cubin
from gpudissect.device.cuda.mix.body import build_body, supported_instructions
from gpudissect.measure.instructions.instructions import KINDS, LONG_BODY
from gpudissect.workload import Access, Instruction, Mix, Step

REGISTERS_OF_SM = 65536
THREADS = {"sm_75": 1024, "sm_80": 2048, "sm_90": 2048, "sm_120": 1536}
BY_NAME = {kind.element: kind for kind in KINDS}
NARROW = ("ldg_streaming", "ldg_random", "hfma2", "f2f", "mma_f16", "mma_s8")
REGISTER_COUNT = re.compile(rb"\x04\x2f\x08\x00.{4}(.{4})", re.DOTALL)
"""EIATTR_REGCOUNT in a cubin: kind and size, function, count."""


def registers(mix, arch):
    """Registers of a thread, which are allocated in multiples of eight."""
    cubin = compile_cubin("mix.cu", build_body(mix, divmod(int(arch[3:]), 10)).macros, arch)
    counts = [int.from_bytes(count, "little") for count in REGISTER_COUNT.findall(cubin)]
    assert counts
    return -(-max(counts) // 8) * 8


def mix_of(kind, chains):
    plain = Mix(body=(Step(kind.instruction, LONG_BODY // chains),), warps=16, block_size=512, iterations=1, ilp=chains)
    return plain if kind.resident else replace(plain, access=kind.access, footprint=1 << 30, cold=True)


@pytest.mark.parametrize("arch", THREADS)
@pytest.mark.parametrize("element", NARROW)
def test_registers_are_at_most_those_assumed(element, arch):
    kind = BY_NAME[element]
    if kind.instruction not in supported_instructions(divmod(int(arch[3:]), 10)):
        pytest.skip("this architecture does not have it")
    for chains in kind.chains:
        needed, assumed = registers(mix_of(kind, chains), arch), -(-kind.registers(chains) // 8) * 8
        full = REGISTERS_OF_SM // THREADS[arch]
        assert needed <= max(assumed, full), f"{chains} chains"


def test_streaming_loads_have_enough_chains_to_fill_memory():
    kind = BY_NAME["ldg_streaming"]
    in_flight = max(chains * min(64, REGISTERS_OF_SM // 32 // kind.registers(chains)) for chains in kind.chains)
    assert in_flight >= 1.25 * 256, "an H200 needs some 256 loads of a warp in flight"
    assert BY_NAME["ldg"].chains == (1, 2, 4) and kind.access is Access.STREAMING
    assert kind.instruction is Instruction.LDG
