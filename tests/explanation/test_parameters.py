"""Parameters of kernels in PTX of CUDA C++, and arguments that do not fit them."""

import pytest

from gpudissect.errors import UsageError
from gpudissect.explanation.arguments import parse_arguments
from gpudissect.explanation.parameters import check_parameters, parameters_of, types_of
from gpudissect.explanation.ptx import parse_ptx
from tests.support.ptx import ptx_of

SOURCE = r"""
template <class T> __global__ void scale(T* out, const T* in, T factor, int n) { out[threadIdx.x] = factor * in[n]; }
template __global__ void scale<float>(float*, const float*, float, int);
struct Box { float low[3], high[3]; char kind; };
extern "C" __global__ void plain(Box box, short h, double* x, unsigned long long n) { x[n] = box.high[1] + h; }
extern "C" __global__ void none() {}
"""
WITH_TYPES = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry marked(.param .u64 .ptr .global .align 16 marked_0, // (a pointer)
  .param .b32 marked_1, .param .texref marked_2)
{ ret; }
"""
SCALE = "_Z5scaleIfEvPT_PKS0_S0_i"


def parameters(kernel, text=None):
    module = parse_ptx(text or ptx_of(SOURCE, "compute_90"))
    return parameters_of(module, module.function(kernel))


def test_types_are_those_of_the_name_or_of_ptx():
    assert [each.description() for each in parameters(SCALE)] == ["float*", "float const*", "float", "int"]
    found = [(each.description(), each.size) for each in parameters("plain")]
    assert found == [("structure of 28 B", 28), ("u16", 2), ("pointer or u64", 8), ("pointer or u64", 8)]
    assert parameters("none") == ()
    found = [(each.description(), each.size) for each in parameters("marked", WITH_TYPES)]
    assert found == [("pointer", 8), ("b32", 4), ("pointer or u64", 8)]


def test_types_of_a_name():
    assert types_of("_Z1kPFviESt4pairIiiE") == ("void (*)(int)", "std::pair<int, int>")
    assert types_of("plain") == () == types_of("_Z1kv")


@pytest.mark.parametrize(
    ("kernel", "specs"),
    [
        (SCALE, ("a:f32[8]", "b:f32[8]", "f:f32=2", "n:i32=8")),
        (SCALE, ("a:u8[8]", "b:f32[8]", "f:f32=2", "n:u32=8")),
        ("plain", ("b:f32x7=0", "h:u16=1", "x:f64[8]", "n:i64=8")),
        ("plain", ("b:u8x28=0", "h:i16=1", "x:u64=0", "n:u64=8")),
        ("none", ()),
    ],
)
def test_arguments_that_fit(kernel, specs):
    check_parameters(parse_arguments(specs), parameters(kernel))


@pytest.mark.parametrize(
    ("kernel", "specs", "facts"),
    [
        (SCALE, ("a:f32[8]",), ("1 argument ", "4 parameters", "(float*, ", "'p2:f32[", "'p3:f32=", "'p4:i32=")),
        ("plain", (), ("0 arguments", "'p1:f32x7=0'", "'p2:i16=", "'p3:f32[")),
        (SCALE, ("a:f32[8]", "b:f32[8]", "f:i32=2"), ("argument f is i32", "parameter 3 is float", "f32=")),
        (SCALE, ("a:f32[8]", "b:f32[8]", "f:f32=2", "n:f32=8"), ("argument n is f32", "parameter 4 is int")),
        (SCALE, ("a:f64[8]",), ("array of f64", "float*")),
        (SCALE, ("a:f32=2",), ("argument a is f32", "4 B for 8 B")),
        ("plain", ("b:f32x6=0",), ("f32x6", "24 B for 28 B", "f32x7=0")),
        ("none", ("n:i32=1",), ("1 argument", "0 parameters")),
    ],
)
def test_arguments_that_do_not_fit_cost_one_line(kernel, specs, facts):
    with pytest.raises(UsageError) as error:
        check_parameters(parse_arguments(specs), parameters(kernel))
    assert all(fact in str(error.value) for fact in facts) and "\n" not in str(error.value)
