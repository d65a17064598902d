"""Source lines of machine code and loops, by way of the PTX."""

import hashlib

import pytest

from gpudissect.explanation.assemble import assemble
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.packing import pack_bytes
from gpudissect.explanation.profile import SCHEMA, Gpu, Launch, Profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.source import lines_of_ptx, with_sources
from gpudissect.machine_code.instructions import read_instructions
from tests.support.explanations import explanation, line
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


def explained(profile, **fields):
    instructions = read_instructions(*profile.machine_code())
    lines = tuple(line(n, str(each), source_file=None, source_line=None) for n, each in enumerate(instructions))
    return with_sources(explanation(lines=lines, **fields), profile)


def test_instructions_have_the_lines_of_their_source(profile):
    found = {each.text.partition(".")[0].split()[0]: each for each in explained(profile).lines if each.source_line}
    assert {name: found[name].source_line for name in EXPECTED} == EXPECTED
    assert {each.source_file.rpartition("/")[2] for each in found.values()} == {"kernels.cu"}


def test_loops_are_named_by_their_source(profile):
    number = next(n for n, (_, source) in lines_of_ptx(parse_ptx(profile.ptx())).items() if source == 6)
    names = {
        f"gpudissect.ptx:{number}": 3.0,
        f"gpudissect.ptx:{number}#2": 4.0,
        "0x0040": 5.0,
        "gpudissect.ptx:9999": 6.0,
    }
    expected = {"kernels.cu:6": 3.0, "kernels.cu:6#2": 4.0, "0x0040": 5.0, "gpudissect.ptx:9999": 6.0}
    assert explained(profile, loops=names).loops == expected


def test_ptx_without_lines_changes_nothing():
    plain = profile_of(ptx_of(SOURCE, "compute_90"))
    assert all(each.source_line is None for each in explained(plain).lines)
