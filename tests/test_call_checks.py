"""Arguments of `gpudissect.explain`: numbers of any package are taken, slips are named."""

from pathlib import Path

import numpy as np
import pytest

import gpudissect as gd
from gpudissect.explanation.user_code import assemble
from tests.support.ptx import ptx_of

ROOT = Path(__file__).parents[1]
MACHINE = ROOT / "docs" / "results" / "h200.json"
SOURCE = r"""
extern "C" __global__ void k(float* x, int n) {
    float s = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++) s = s * s + x[i];
    x[n] = s;
}
"""
LOOP = "kernels.cu:5"


@pytest.fixture(scope="module")
def cubin(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "k.cubin"
    path.write_bytes(assemble(ptx_of(SOURCE, "compute_90", "-lineinfo"), "sm_90").data)
    return path


def test_numbers_of_numpy_are_whole_numbers(cubin):
    numbers = {"grid": np.int64(4), "block": np.array([32, 2]), "shared": np.uint16(64)}
    found = gd.explain(cubin, machine=(MACHINE,), trips={LOOP: np.int64(5)}, **numbers)
    plain = gd.explain(cubin, machine=MACHINE, trips={LOOP: 5}, grid=4, block=(32, 2), shared=64)
    assert found == plain


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("machine", None),
        ("machine", 3),
        ("machine", {str(MACHINE)}),
        ("machine", "a\0b"),
        ("code", "a\0b"),
        ("against", None),
        ("kernel", 3),
        ("kernel", b"k"),
        ("grid", 1.5),
        ("grid", True),
        ("grid", {1}),
        ("block", {"x": 1}),
        ("block", (1, 2.5)),
        ("trips", {1: 5}),
        ("trips", ["kernels.cu:5=1"]),
        ("shared", 1.5),
        ("shared", None),
        ("args", 5),
        ("args", "x:f32[3]"),
        ("limit", "x"),
        ("device", 0),
        ("profile", 5),
        ("compile_options", None),
        ("compile_options", [1]),
        ("compile_options", "-DX"),
    ],
)
def test_a_wrong_argument_is_named(cubin, argument, value):
    given = {"code": cubin, "machine": MACHINE, "grid": 1, "block": 32, "trips": {LOOP: 5}} | {argument: value}
    with pytest.raises(gd.UsageError, match=f"^{argument} must be .*, got ."):
        gd.explain(**given)
