"""Source lines of machine code and loops, by way of the PTX."""

import hashlib

import pytest

from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.packing import pack_bytes
from gpudissect.explanation.profile import SCHEMA, Gpu, Launch, Profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.source import lines_of_ptx, sources_of
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.instructions import read_instructions
from gpudissect.machine_code.lines import source_lines
from tests.support.ptx import ptx_of

SOURCE = """__device__ __forceinline__ float twice(float x) {
    return x + x;
}
extern "C" __global__ void scale(float* out, const float* in) {
    float x = in[threadIdx.x];
    out[threadIdx.x] = twice(x);
}
"""
EXPECTED = {"LDG": 5, "FADD": 2, "STG": 6}


def profile_of(ptx: str) -> Profile:
    cubin = assemble(with_source_lines(parse_ptx(ptx)), "sm_90")
    (kernel,) = cubin.kernels
    return Profile(
        schema=SCHEMA,
        kernel="scale",
        architecture="sm_90",
        code_sha256=hashlib.sha256(kernel.code).hexdigest(),
        packed_ptx=pack_bytes(ptx.encode()),
        packed_cubin=pack_bytes(cubin.data),
        registers=8,
        shared_bytes=0,
        local_bytes=0,
        launch=Launch(grid=(1, 1, 1), block=(32, 1, 1)),
        arguments=(),
        gpu=Gpu(name="fake", sm_count=1),
    )


@pytest.fixture(scope="module")
def profile():
    return profile_of(ptx_of(SOURCE, "compute_90", "-lineinfo"))


def sources(profile):
    code = profile.machine_code()
    instructions = read_instructions(*code)
    found = sources_of(parse_ptx(profile.ptx()), source_lines(*code), [each.address for each in instructions])
    return found, {each.opcode: found.by_address.get(each.address) for each in instructions}


def test_instructions_have_the_lines_of_their_source(profile):
    _, found = sources(profile)
    assert {name: found[name][1] for name in EXPECTED} == EXPECTED
    assert {each[0].rpartition("/")[2] for each in found.values() if each} == {"kernels.cu"}


def test_loops_are_named_by_their_source(profile):
    number = next(n for n, (_, source) in lines_of_ptx(parse_ptx(profile.ptx())).items() if source == 6)
    names = (f"gpudissect.ptx:{number}", f"gpudissect.ptx:{number}#2", "0x0040", "gpudissect.ptx:9999")
    expected = ["kernels.cu:6", "kernels.cu:6#2", "0x0040", "gpudissect.ptx:9999"]
    assert [sources(profile)[0].loop_name(name) for name in names] == expected


def test_ptx_without_lines_changes_nothing():
    plain = profile_of(ptx_of(SOURCE, "compute_90"))
    assert sources(plain)[0].by_address == {}
