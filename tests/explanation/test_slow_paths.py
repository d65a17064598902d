"""Slow paths of divisions and roots: counted in PTX as the machine code takes them, and mapped to its calls."""

from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.explanation.instrument import BlockCount, counted, with_source_lines
from gpudissect.explanation.mapping import map_counts
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.slow_paths import SlowCount
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.kernel import choose_kernel
from gpudissect.machine_code.program import describe
from tests.support.machine_code import decoded_cubin
from tests.support.ptx_interpreter import Interpreter

HEAD = """.version 8.0
.target sm_75
.address_size 64
.visible .entry kernel(.param .u64 data, .param .u64 out) {
.reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .f32 %f<5>; .reg .f64 %fd<5>;
ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [out]; cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
"""
LOADS = {
    "f64": "ld.global.f64 %fd1, [%rd1]; ld.global.f64 %fd2, [%rd1+8];\n",
    "f32": "ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+8];\n",
}
CHECKS = {
    "div.rn.f64": [("FSETP.GEU", "6.5827683646048100446e-37"), ("FSETP.GT", "1.469367938527859385e-39")],
    "rcp.rn.f64": [("", "0x300402"), ("FSETP.GEU", "5.8789094863358348022e-39")],
    "sqrt.rn.f64": [("ISETP.GE.U32", "0x7ca00000")],
    "rsqrt.approx.f64": [("ISETP.GE.U32", "0x7fe00000")],
    "div.rn.f32": [("FCHK", "")],
    "rcp.rn.f32": [("", "0x1800000"), ("LOP3", "0x7f800000"), ("ISETP.GT.U32", "0x1ffffff")],
    "sqrt.rn.f32": [("", "-0xd000000"), ("ISETP.GT.U32", "0x727fffff")],
}
"""What checks operands in the machine code of each instruction: a mnemonic and a constant."""
THREADS = 256


def instruction(opcode, guard=""):
    register = "%fd" if opcode.endswith("f64") else "%f"
    operands = f"{register}3, {register}1" + (f", {register}2" if opcode.startswith("div") else "")
    return f"{guard}{opcode} {operands};\n"


def kernel(*opcodes, guard="", prologue=""):
    """A kernel in PTX with one instruction of each opcode."""
    text = HEAD + LOADS["f64"] + LOADS["f32"] + prologue
    for place, opcode in enumerate(opcodes):
        kind = opcode[-3:]
        register = "%fd3" if kind == "f64" else "%f3"
        text += f"{instruction(opcode, guard)}st.global.{kind} [%rd2+{4096 * place}], {register};\n"
    return text + "ret;\n}\n"


@cache
def instrumented(opcode):
    module = parse_ptx(kernel(opcode))
    found = counted(module, "kernel")
    return found, Interpreter(found.ptx)


def as_words(opcode, a, b):
    size = 8 if opcode.endswith("f64") else 4
    pieces = [int(bits).to_bytes(8, "little")[:size].ljust(8, b"\0") for bits in (a, b)]
    return np.frombuffer(b"".join(pieces), np.uint32).copy()


def slow_count(opcode, a, b):
    """What the counters of a launch of one thread hold for operands given by their bits."""
    found, interpreter = instrumented(opcode)
    run = interpreter.launch("kernel", (1, 1, 1), (1, 1, 1), (as_words(opcode, a, b), np.zeros(4, np.uint32)))
    (count,) = (slow for block in found.read(run.memory[found.array]).values() for slow in block.slow)
    assert count.warps == count.threads
    return count.threads


def high(bits):
    return int(bits) >> 32 & 0xFFFFFFFF


def as_float(bits):
    return np.uint32(bits & 0xFFFFFFFF).view(np.float32)


def as_double(bits):
    return float(np.uint64(bits).view(np.float64))


def multiply_add(a, b, c):
    """DFMA: rounded once."""
    if not np.isfinite([a, b, c]).all():
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    try:
        return float(Fraction(a) * Fraction(b) + Fraction(c))
    except OverflowError:
        return float("inf")


def fast_quotient(a, b):
    """High word of the quotient that the fast path of FP64 computes, as an FP32 number."""
    reciprocal = np.float64(np.inf) if abs(b) < np.finfo(np.float64).tiny else np.float64(1) / np.float64(b)
    x = as_double(int(np.float64(reciprocal).view(np.uint64)) >> 32 << 32 | 1)
    error = multiply_add(-b, x, 1.0)
    x = multiply_add(x, multiply_add(error, error, error), x)
    x = multiply_add(x, multiply_add(-b, x, 1.0), x)
    quotient = float(np.float64(a) * np.float64(x))
    quotient = multiply_add(x, multiply_add(-b, quotient, a), quotient)
    return as_float(high(np.float64(quotient).view(np.uint64)))


def is_slow(opcode, a, b):
    """The check of the machine code for sm_90, from the text of its instructions (`CHECKS`)."""
    with np.errstate(all="ignore"):
        if opcode == "div.rn.f64":
            quotient = np.float32(0) * as_float(high(b)) + fast_quotient(as_double(a), as_double(b))
            is_large = not abs(as_float(high(a))) < np.float32(6.5827683646048100446e-37)
            return not (is_large and abs(quotient) > np.float32(1.469367938527859385e-39))
        if opcode == "rcp.rn.f64":
            return bool(abs(as_float(high(a) + 0x300402)) < np.float32(5.8789094863358348022e-39))
    if opcode == "sqrt.rn.f64":
        return (high(a) - 0x3500000) % 2**32 >= 0x7CA00000
    if opcode == "rsqrt.approx.f64":
        return (high(a) - 0x100000) % 2**32 >= 0x7FE00000
    if opcode == "rcp.rn.f32":
        return (a + 0x1800000) & 0x7F800000 <= 0x1FFFFFF
    if opcode == "sqrt.rn.f32":
        return (a - 0xD000000) % 2**32 > 0x727FFFFF
    of_a, of_b = a >> 23 & 255, b >> 23 & 255  # FCHK, as assumed
    return not (25 <= of_a <= 254 and 2 <= of_b <= 251 and -124 <= of_a - of_b <= 126)


def numbers(bits, fraction):
    """Bits of numbers, with exponents and fractions at the ends of their ranges more often."""
    exponents = 1 << bits - 1 - fraction
    ends = st.sampled_from([*range(60), *range(exponents - 60, exponents), exponents // 2])
    fractions = st.sampled_from([0, 1, (1 << fraction) - 1]) | st.integers(0, (1 << fraction) - 1)
    return st.builds(
        lambda sign, exponent, rest: sign << bits - 1 | exponent << fraction | rest,
        st.integers(0, 1),
        ends | st.integers(0, exponents - 1),
        fractions,
    )


@pytest.mark.parametrize("opcode", CHECKS)
def test_slow_operands_are_those_of_the_machine_code(opcode):
    values = numbers(64, 52) if opcode.endswith("f64") else numbers(32, 23)

    @settings(max_examples=300, deadline=None)
    @given(values, values)
    def check(a, b):
        assert slow_count(opcode, a, b) == is_slow(opcode, a, b)

    check()


EDGES = [
    *(("div.rn.f64", a << 32 | low, 0x04000000 << 32) for a in (0x035FFFFF, 0x03600000) for low in (0, 0xFFFFFFFF)),
    *(("div.rn.f64", 0x7E000000 << 32, b << 32) for b in (0x7F7FFFFF, 0x7F800000, 0x7F800001)),
    *(("div.rn.f64", 0x20000000 << 32, b << 32) for b in (0x000FFFFF, 0x00100000)),
    *(("div.rn.f64", a << 32, 0x4FF00000 << 32) for a in (0x100FFFFF, 0x10100000, 0x10100001)),
    *(("div.rn.f64", a << 32, 0x2FF00000 << 32) for a in (0x6F7FFFFF, 0x6F800000, 0x6F800001)),
    *(("rcp.rn.f64", a << 32, 0) for a in (0x000FFFFF, 0x00100000, 0x7FBFFBFD, 0x7FCFFBFD, 0x7FCFFBFE)),
    *(("sqrt.rn.f64", a << 32, 0) for a in (0x034FFFFF, 0x03500000, 0x7FEFFFFF, 0x7FF00000)),
    *(("rsqrt.approx.f64", a << 32, 0) for a in (0x000FFFFF, 0x00100000, 0x7FEFFFFF, 0x7FF00000)),
    *(("rcp.rn.f32", a, 0) for a in (0x007FFFFF, 0x00800000, 0x7E7FFFFF, 0x7E800000, 0x7F7FFFFF, 0x7F800000)),
    *(("sqrt.rn.f32", a, 0) for a in (0x0CFFFFFF, 0x0D000000, 0x7F7FFFFF, 0x7F800000)),
]
"""Bits of operands on both sides of the constants of the checks."""


@pytest.mark.parametrize(("opcode", "a", "b"), EDGES)
def test_checks_change_where_those_of_the_machine_code_do(opcode, a, b):
    assert slow_count(opcode, a, b) == is_slow(opcode, a, b)


@pytest.mark.parametrize(
    ("opcode", "slow", "fast"),
    [
        ("div.rn.f64", [(0.0, 3.0), (1.0, 0.0), (1e-300, 2.0), (1e300, 1e-300)], [(1.0, 3.0), (1e-200, 7.0)]),
        ("sqrt.rn.f64", [(0.0, 0.0), (-1.0, 0.0)], [(2.0, 0.0)]),
        ("rcp.rn.f64", [(0.0, 0.0), (1e308, 0.0)], [(3.0, 0.0)]),
    ],
)
def test_zeros_and_overflows_take_the_slow_path(opcode, slow, fast):
    for operands, expected in [*((each, 1) for each in slow), *((each, 0) for each in fast)]:
        assert slow_count(opcode, *(int(np.float64(each).view(np.uint64)) for each in operands)) == expected


@pytest.mark.parametrize("opcode", [*CHECKS, "div.rn.ftz.f32", "rcp.rn.ftz.f32", "sqrt.rn.ftz.f32"])
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_100", "sm_120"])
def test_machine_code_checks_operands_and_calls_under_the_line_of_the_instruction(opcode, architecture):
    module = parse_ptx(kernel(opcode))
    program = program_of(module, architecture)
    line = next(n for n, each in enumerate(module.functions[0].instructions, start=1) if each.opcode == opcode)
    code = [each for each in program.instructions if each.line == line]
    for mnemonic, constant in CHECKS[opcode.replace(".ftz", "")]:
        texts = [(each.mnemonic, " ".join(each.operands)) for each in code]
        signed = constant.replace("-0xd000000", "0xf3000000")
        assert any(m.startswith(mnemonic) and (constant in o or signed in o) for m, o in texts), texts
    assert sum(each.opcode == "CALL" for each in code) == 1


def program_of(module, architecture="sm_90"):
    cubin = assemble(with_source_lines(module), architecture)
    decoded, instructions = decoded_cubin(cubin.data)[choose_kernel(cubin.kernels, "kernel").name]
    return describe(decoded, instructions)


def test_only_lanes_that_execute_a_guarded_instruction_count():
    text = kernel("div.rn.f32", guard="@!%p1 ", prologue="setp.lt.u32 %p1, %r1, 40;\n")
    found = counted(parse_ptx(text), "kernel")
    data = np.zeros(4 * 64, np.uint32)
    data[2::4] = np.float32(3).view(np.uint32)  # 0 / 3 is slow
    run = Interpreter(found.ptx).launch("kernel", (1, 1, 1), (64, 1, 1), (data, np.zeros(256, np.uint32)))
    (count,) = found.read(run.memory[found.array]).values()
    assert (count.warps, count.threads) == (2, 64)
    (slow,) = count.slow
    assert (slow.warps, slow.threads) == (1, 24)


OPCODES = ("div.rn.f64", "sqrt.rn.f64", "div.rn.f32", "div.rn.f32")
COUNTS = ((8, 256), (3, 40), (2, 2), (0, 0))
"""Warps and threads of the slow path of each of `OPCODES`, of 8 warps."""


def mapped(text, *slow):
    module = parse_ptx(text)
    (function,) = module.functions
    lines = [function.first + n for n, each in enumerate(function.instructions) if each.opcode in CHECKS]
    slow = tuple(SlowCount(line, *count) for line, count in zip(lines, slow, strict=True)) if slow else ()
    program, counts = program_of(module), {("kernel", 0): BlockCount(8, THREADS, 0, slow)}
    found = map_counts(program, module.functions, counts, THREADS)
    calls = {program.instructions[b.end - 1].line: n for n, b in enumerate(program.flow.blocks) if b.callee is not None}
    return program, found, [calls[line] for line in lines]


def test_calls_of_slow_paths_run_as_often_as_counted():
    program, found, calls = mapped(kernel(*OPCODES), *COUNTS)
    assert [(found.warps[n].value, found.threads[n].value) for n in calls] == list(COUNTS)
    assert all(found.warps[n].is_exact and found.threads[n].is_exact for n in calls)
    called = Counter()
    for number, count in zip(calls, COUNTS, strict=True):
        called.update({program.flow.blocks[number].callee: np.array(count)})
    assert len(called) == 3
    for entry, (warps, threads) in called.items():
        assert (found.warps[entry].value, found.threads[entry].value) == (warps, threads)


def test_slow_paths_that_were_not_counted_do_not_run():
    program, found, _ = mapped(kernel(*OPCODES))
    assert program.slow_paths and {found.threads[n].value for n in program.slow_paths} == {0}


def test_a_count_that_contradicts_that_of_the_block_is_left_out():
    _, found, calls = mapped(kernel("div.rn.f64", "sqrt.rn.f64"), (9, THREADS + 40), (1, 7))
    assert [found.threads[n].value for n in calls] == [0, 7]
