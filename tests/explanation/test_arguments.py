"""Arguments of kernels: read from text, refused in one line, data that depend on nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.errors import UsageError
from gpudissect.explanation import arguments as module
from gpudissect.explanation.arguments import TYPES, Argument, parse_argument, parse_arguments


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("n:i32=1048576", Argument("n", "i32", None, "", (1048576,))),
        ("n:i32=-0x10", Argument("n", "i32", None, "", (-16,))),
        ("a:f32=1e-3", Argument("a", "f32", None, "", (0.001,))),
        ("x:f32[64]", Argument("x", "f32", 64, "zeros", ())),
        ("x:f16[64]=random", Argument("x", "f16", 64, "random", ())),
        ("x:i8[64]=random:-3:4", Argument("x", "i8", 64, "random", (-3, 4))),
        ("i:u32[10]=range:9:-1", Argument("i", "u32", 10, "range", (9, -1))),
        ("i:u64[10]=permutation", Argument("i", "u64", 10, "permutation", ())),
        ("i:f64[10]=constant:2.5", Argument("i", "f64", 10, "constant", (2.5,))),
    ],
)
def test_an_argument_is_read_and_written_as_text(spec, expected):
    assert parse_argument(spec) == expected
    assert parse_argument(expected.spec) == expected


@pytest.mark.parametrize(
    ("spec", "facts"),
    [
        ("n", ["n", "NAME:TYPE"]),
        ("n:i32", ["n", "VALUE"]),
        ("n:i33=1", ["i33", "i32"]),
        ("n:float4=1", ["float4", "f32"]),
        ("n:i8=128", ["128", "i8", "-128 to 127"]),
        ("n:u8=-1", ["-1", "u8"]),
        ("n:i32=1.5", ["1.5", "whole number"]),
        ("n:f16=1e9", ["1e9", "f16"]),
        ("x:f32[]", ["x", "element count"]),
        ("x:f32[0]", ["'0'", "1 to"]),
        ("x:f32[-1]", ["'-1'"]),
        ("x:f32[99999999999999]", ["99999999999999", "1 to"]),
        ("x:f32[8]=gauss", ["gauss", "random", "permutation"]),
        ("x:f32[8]=random:1", ["random:1", "random:LOW:HIGH"]),
        ("x:f32[8]=random:2:1", ["LOW", "HIGH"]),
        ("x:f32[8]=random:-3e38:3e38", ["HIGH - LOW", "f32"]),
        ("x:f64[8]=random:-1e308:1e308", ["HIGH - LOW", "f64"]),
        ("x:f16[8]=random:-60000:60000", ["HIGH - LOW", "f16", "65504"]),
        ("x:f64[8]=random:0:inf", ["HIGH - LOW"]),
        ("x:u8[257]=permutation", ["u8", "256"]),
        ("x:u8[257]=range", ["256", "u8"]),
        ("x:u8[2]=constant:256", ["256", "u8"]),
        ("\x1b[31m:i32=1", ["NAME:TYPE"]),
        ("n:i32=" + "1" * 5000, ["NAME:TYPE"]),
    ],
)
def test_a_wrong_part_is_named_in_one_line(spec, facts):
    with pytest.raises(UsageError) as error:
        parse_argument(spec)
    text = str(error.value)
    assert all(fact in text for fact in facts), text
    assert "\n" not in text and "\x1b" not in text and len(text) < 250


def test_sizes_are_bounded_before_anything_is_allocated():
    with pytest.raises(UsageError, match="16 GiB"):
        parse_arguments([f"x{n}:f64[1000000000]" for n in range(3)])
    with pytest.raises(UsageError, match="name"):
        parse_arguments(["n:i32=1", "n:i32=2"])


def test_a_structure_has_several_values():
    argument = parse_argument("s:f32x3=1:2:3")
    assert (argument.parameter_bytes, argument.scalar().tolist(), argument.spec) == (
        12,
        [1, 2, 3],
        "s:f32x3=1.0:2.0:3.0",
    )
    assert parse_argument(argument.spec) == argument
    assert parse_argument("s:u8x4=7") == parse_argument("s:u8x4=7:7:7:7")
    for spec, fact in (
        ("s:f32x3=1:2", "2 values for f32x3"),
        ("s:f32x0=1", "f32x0"),
        ("s:f32x3[4]", "no arrays of f32x3"),
    ):
        with pytest.raises(UsageError, match=fact):
            parse_argument(spec)


def test_data_of_a_program_have_no_text():
    array = np.arange(4, dtype=np.float32)
    argument = Argument("x", "f32", 4, "content", (), array)
    assert argument.data() is array and argument.spec == "x:f32[4]=content"
    with pytest.raises(UsageError, match="not known here"):
        parse_argument(argument.spec).data()


@pytest.mark.parametrize("kind", TYPES)
def test_random_data_are_within_their_range_and_of_their_type(kind):
    data = parse_argument(f"x:{kind}[4000]=random:2:9").data()
    assert data.dtype == TYPES[kind] and data.min() >= 2 and data.max() <= 9
    assert len(np.unique(data)) >= 7
    anything = parse_argument(f"x:{kind}[4000]=random").data()
    if kind[0] == "f":
        assert anything.min() >= 0 and anything.max() <= 1 and 0.45 < anything.astype(float).mean() < 0.55
    else:
        limits = np.iinfo(anything.dtype)
        spread = (anything.astype(float) - limits.min) / (float(limits.max) - limits.min)
        assert 0.45 < spread.mean() < 0.55 and spread.min() < 0.01 and spread.max() > 0.99


@pytest.mark.parametrize(
    "spec", ["f16[200000]=random", "f16[200000]=random:-1:1", "f32[200000]=random:16777200:16777216"]
)
def test_random_numbers_are_below_the_upper_end(spec):
    data = parse_argument(f"x:{spec}").data()
    assert data.max() < (16777216 if "f32" in spec else 1) and np.isfinite(data).all()


def test_data_depend_on_the_name_and_the_seed_alone(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 1 << 10)
    first = parse_argument("x:f32[5000]=random").data()
    monkeypatch.setattr(module, "_MAX_THREADS", 1)
    assert (parse_argument("x:f32[5000]=random").data() == first).all()
    assert (parse_argument("y:f32[5000]=random").data() != first).any()
    assert (parse_argument("x:f32[5000]=random").data(seed=1) != first).any()
    assert len(np.unique(first)) > 4900


@given(st.integers(1, 5000), st.integers(0, 9))
def test_a_permutation_has_every_number_once(count, seed):
    data = parse_argument(f"x:u16[{count}]=permutation").data(seed)
    assert (np.sort(data) == np.arange(count)).all()


def test_a_permutation_is_far_from_the_order():
    data = parse_argument("x:u32[65536]=permutation").data().astype(float)
    assert abs(np.corrcoef(data, np.arange(65536))[0, 1]) < 0.05
    assert np.mean(np.abs(np.diff(data)) < 64) < 0.01
    assert abs(np.corrcoef(data[:-1], data[1:])[0, 1]) < 0.1


def test_ranges_and_constants(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 16)
    assert parse_argument("x:u64[40]=range:18446744073709551615:-1").data().tolist() == [
        2**64 - 1 - n for n in range(40)
    ]
    assert parse_argument("x:i8[40]=range:-20:1").data().tolist() == list(range(-20, 20))
    assert parse_argument("x:f32[3]=range:1:0.5").data().tolist() == [1, 1.5, 2]
    assert parse_argument("x:i16[3]=constant:-7").data().tolist() == [-7] * 3
    assert parse_argument("x:f64[3]").data().tolist() == [0] * 3
    assert parse_argument("n:f16=0.5").scalar().tobytes() == np.float16(0.5).tobytes()
