"""On a real GPU: operands of divisions and roots take the slow path where `is_slow` says so, by their times."""

import ctypes

import numpy as np
import pytest

from gpudissect.explanation.user_code import assemble
from tests.explanation.test_instrument_gpu import architecture, check, download  # noqa: F401
from tests.explanation.test_slow_paths import CHECKS, instruction, is_slow

pytestmark = pytest.mark.gpu
PAIRS, ITERATIONS = 1 << 16, 512  # so many that the first load takes little of the time
SHARED_BYTES = 48 << 10  # few blocks on an SM: one warp for each scheduler, or fewer
SLOWER = 1.25  # than ordinary operands; a slow path adds a call and at least 20 instructions
TEXT = """.version 8.0
.target sm_75
.address_size 64
.visible .entry kernel(.param .u64 data, .param .u64 out, .param .u64 zero) {{
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<5>; .reg .f64 %fd<5>;
ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd6, [zero];
cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;
mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd3, %r1, 16; add.s64 %rd1, %rd1, %rd3;
mul.wide.u32 %rd3, %r1, 8; add.s64 %rd2, %rd2, %rd3;
ld.global.u64 %rd4, [%rd1]; ld.global.u64 %rd5, [%rd1+8]; cvt.u32.u64 %r4, %rd4; cvt.u32.u64 %r5, %rd5;
mov.b64 %fd2, %rd5; mov.b32 %f2, %r5; cvt.u32.u64 %r6, %rd6; mov.u32 %r2, 0; mov.u32 %r3, %clock;
LOOP: {body} add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, {iterations}; @%p1 bra LOOP;
mov.u32 %r1, %clock; sub.u32 %r1, %r1, %r3; st.global.u32 [%rd2], %r1;
cvt.u32.u64 %r3, %rd4; add.u32 %r4, %r4, %r3; st.global.u32 [%rd2+4], %r4; ret; }}
"""
BODIES = {  # the next operand depends on the last result, and is the same
    "f64": "mov.b64 %fd1, %rd4; {0} mov.b64 %rd7, %fd3; and.b64 %rd7, %rd7, %rd6; add.s64 %rd4, %rd4, %rd7;",
    "f32": "mov.b32 %f1, %r4; {0} mov.b32 %r7, %f3; and.b32 %r7, %r7, %r6; add.u32 %r4, %r4, %r7;",
}


def timed(opcode):
    """A kernel in which each block times an instruction on operands of its own."""
    return TEXT.format(body=BODIES[opcode[-3:]].format(instruction(opcode)), iterations=ITERATIONS)


def operands(opcode, random):
    """Bits of pairs: of FP32 all pairs of exponents, of FP64 exponents near the ends of their range; ordinary first."""
    fraction, bits, bias = (52, 64, 1023) if opcode.endswith("f64") else (23, 32, 127)
    if bits == 32:
        exponents = np.stack(np.meshgrid(np.arange(256), np.arange(256)), -1).reshape(-1, 2).astype(np.uint64)
    else:
        ends = np.array([*range(60), *range(1000, 1050), *range(1980, 2048)], np.uint64)
        exponents = random.choice(ends, (PAIRS, 2))
    values = random.integers(0, 1 << fraction, (PAIRS, 2), np.uint64) * random.integers(0, 2, (PAIRS, 2), np.uint64)
    values |= exponents << np.uint64(fraction) | random.integers(0, 2, (PAIRS, 2), np.uint64) << np.uint64(bits - 1)
    values[0] = (bias << fraction) + (1 << fraction - 1)  # 1.5 / 1.5
    return values


def cycles(opcode, values, target):
    """Cycles of each pair, in a launch after the first."""
    from cuda.bindings import driver

    module = check(driver.cuModuleLoadData(assemble(timed(opcode), target).data))
    function = check(driver.cuModuleGetFunction(module, b"kernel"))
    data, out = (int(check(driver.cuMemAlloc(size))) for size in (values.nbytes, 8 * len(values)))
    check(driver.cuMemcpyHtoD(data, values.ctypes.data, values.nbytes))
    for _ in range(2):
        arguments = (data, out, 0), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
        check(driver.cuLaunchKernel(function, len(values), 1, 1, 1, 1, 1, SHARED_BYTES, 0, arguments, 0))
        check(driver.cuCtxSynchronize())
    found = np.frombuffer(download(out, 8 * len(values)), np.uint32).reshape(-1, 2)[:, 0]
    for address in (data, out):
        check(driver.cuMemFree(address))
    check(driver.cuModuleUnload(module))
    return found


@pytest.mark.parametrize("opcode", CHECKS)
def test_operands_that_take_longer_are_those_of_the_slow_path(opcode, request):
    values = operands(opcode, np.random.default_rng(0))
    times = cycles(opcode, np.ascontiguousarray(values), request.getfixturevalue("architecture"))
    expected = np.array([is_slow(opcode, int(a), int(b)) for a, b in values.tolist()])
    fast = float(np.median(times[~expected]))
    wrong = np.flatnonzero((times > SLOWER * fast) != expected)
    fraction = 52 if opcode.endswith("f64") else 23
    exponents = (values[wrong] >> np.uint64(fraction)) & np.uint64(2047 if fraction == 52 else 255)
    assert not len(wrong), (len(wrong), fast, exponents[:50].tolist(), times[wrong[:50]].tolist())
