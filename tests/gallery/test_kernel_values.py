"""Example kernels compute what they should on a few blocks, and access nothing outside of their arrays.

Their PTX runs in the interpreter. Sizes are no multiples of a block where a kernel checks the index.
"""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.support.ptx import ptx_of
from tests.support.ptx_interpreter import ARGUMENT_BYTES, Interpreter

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"
INNER = slice(1, -1)


def source_of(file):
    return (FOLDER / f"{file}.cu").read_text(encoding="utf-8")


def launch(file, kernel, grid, block, *arguments, arrays=(), constants=None):
    """Contents of the array arguments after a launch. Fails if a global access is outside of them.

    `constants` replaces sizes in the source, by name. A tuple is a structure of words.
    """
    grid, block = ((*size, 1, 1)[:3] for size in (grid, block))
    source = source_of(file)
    for name, value in (constants or {}).items():
        source, replaced = re.subn(rf"\b{name} = \d+", f"{name} = {value}", source)
        assert replaced == 1
    interpreter = Interpreter(ptx_of(source, "compute_90"))
    run = interpreter.launch(kernel, grid, block, [value_of(argument) for argument in arguments], arrays)
    instructions = {f.first + n: i for f in interpreter.module.functions for n, i in enumerate(f.instructions)}
    accesses = [event for events in run.events.values() for event in events]
    addresses = (a for number, _, lanes in accesses if "global" in instructions[number].modifiers for a in lanes)
    for index, offset in (divmod(address, ARGUMENT_BYTES) for address in addresses):
        assert offset < arguments[index - 1].nbytes, f"access at byte {offset} of argument {index - 1}"
    inputs = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    return [np.frombuffer(run.memory[n], a.dtype).reshape(a.shape) for n, a in enumerate(inputs)]


def value_of(argument):
    """An argument for the interpreter: arrays and structures of words, or the bits of a number."""
    if isinstance(argument, np.ndarray | tuple):
        return argument.ravel() if isinstance(argument, np.ndarray) else argument
    bits = np.atleast_1d(argument)
    return int(bits.view(f"u{bits.itemsize}")[0])


def random(*shape, low=0.0, high=1.0, dtype=np.float32):
    return np.random.default_rng(len(shape)).uniform(low, high, shape).astype(dtype)


def words(*shape):
    return np.random.default_rng(1).integers(0, 1 << 32, shape, np.uint32)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_vector_add():
    x, y = random(200), random(200, high=5)
    assert np.array_equal(launch("vector_add", "vector_add", [4], [64], x, y, zeros(200), 200)[2], x + y)


def test_permute():
    b, c = words(100), words(100) % np.uint32(100)
    assert np.array_equal(launch("permute", "permute", [2], [64], zeros(100, dtype=np.uint32), b, c, 100)[0], b[c])


@pytest.mark.parametrize(("suffix", "width"), [("", 1), ("_float2", 2), ("_float4", 4)])
def test_absolute_value_writes_where_a_number_is_negative(suffix, width):
    a = random(50, width, low=-1)
    out = launch("absolute_value", f"absolute_value{suffix}", [2], [32], a, zeros(50, width), 50)[1]
    assert np.array_equal(out, np.where((a < 0).any(1, keepdims=True), abs(a), 0))


def black_scholes(price, strike, years, rate, volatility):
    """Prices of calls and puts."""
    from scipy.stats import norm

    d1 = (np.log(price / strike) + (rate + volatility**2 / 2) * years) / (volatility * np.sqrt(years))
    d2, discounted = d1 - volatility * np.sqrt(years), strike * np.exp(-rate * years)
    call = price * norm.cdf(d1) - discounted * norm.cdf(d2)
    return call, discounted * norm.cdf(-d2) - price * norm.cdf(-d1)


OPTIONS = random(3, 50) * np.float32([[25], [99], [9]]) + np.float32([[5], [1], [1]])
MARKET = (50, np.float32(0.02), np.float32(0.3))


@pytest.mark.parametrize("kernel", ["black_scholes", "black_scholes_fast"])
def test_black_scholes(kernel):
    out = launch("black_scholes", kernel, [2], [32], zeros(50), zeros(50), *OPTIONS, *MARKET)[:2]
    assert np.allclose(out, black_scholes(*OPTIONS, 0.02, 0.3), atol=1e-4)


@pytest.mark.parametrize("bit", [0, 5])
def test_black_scholes_by_kind(bit):
    out = launch("black_scholes", "black_scholes_by_kind", [2], [32], zeros(50), *OPTIONS, *MARKET, bit)[0]
    call, put = black_scholes(*OPTIONS, 0.02, 0.3)
    assert np.allclose(out, np.where(np.arange(50) >> bit & 1, put, call), atol=1e-4)


def test_matrix_multiply():
    a, b, c = random(32, 64), random(32, 32), random(32, 64)
    scale = np.float32(2), np.float32(0.5)
    out = launch("matrix_multiply", "matrix_multiply", [1, 2], [16, 4], a, b, c, 64, 32, 32, *scale)[2]
    assert np.allclose(out, 2 * b @ a + c / 2)


def test_matrix_multiply_naive():
    a, b = random(20, 7), random(7, 24)
    out = launch("matrix_multiply", "matrix_multiply_naive", [2, 2], [16, 16], a, b, zeros(20, 24), 20, 24, 7)[2]
    assert np.allclose(out, a @ b)


def test_reduction():
    x = random(5000)
    assert np.allclose(
        launch("reduction", "reduction", [2], [256], x, zeros(2), 5000)[1], [x[:4096].sum(), x[4096:].sum()]
    )


@pytest.mark.parametrize(("kernel", "grid"), [("thread", 1), ("warp", 3)])
def test_spmv(kernel, grid):
    starts, columns = np.int32([0, 3, 3, 40, 44, 60]), (words(60) % np.uint32(50)).astype(np.int32)
    values, x = random(60), random(50, high=2)
    out = launch("spmv", f"spmv_{kernel}_per_row", [grid], [64], starts, columns, values, x, zeros(5), 5)[4]
    products = values * x[columns]
    assert np.allclose(out, [products[i:j].sum() for i, j in pairwise(starts)])


def test_scan():
    x = words(200)
    sums = launch("scan", "scan", [2], [128], x, zeros(200, dtype=np.uint32), 200)[1]
    assert np.array_equal(sums, np.concatenate([x[:128].cumsum(dtype="u4"), x[128:].cumsum(dtype="u4")]))


def test_bitonic_sort():
    keys = words(1024)
    out = launch("bitonic_sort", "bitonic_sort", [1], [512], keys, zeros(1024, dtype=np.uint32))[1]
    assert np.array_equal(out, np.sort(keys))


def test_convolution():
    from scipy.ndimage import correlate

    image, weights = random(10, 40), random(5, 5)
    arrays = {"weights": weights.tobytes()}
    out = launch("convolution", "convolution", [2, 2], [32, 8], image, zeros(10, 40), 40, 10, arrays=arrays)[1]
    assert np.allclose(out, correlate(image, weights, mode="nearest"))


def test_mandelbrot():
    place = np.float32([-2, -1, 0.125])
    out = launch("mandelbrot", "mandelbrot", [1, 1], [32, 8], zeros(8, 20, dtype=np.uint16), 20, 8, *place, 9)[0]
    c = -2 + np.arange(20) / 8 + 1j * (-1 + np.arange(8)[:, None] / 8)
    z, expected = 0 * c, 0
    for _ in range(9):
        expected += np.abs(z) < 2
        z = np.where(np.abs(z) < 2, z * z + c, z)
    assert np.array_equal(out, expected)


def test_hash_table():
    """Slot 7 has a key that belongs there, slot 8 one that belongs to slot 7, slots 9 and 10 are empty."""
    inverse, belongs = pow(2654435761, -1, 1 << 32), 7 << 28
    keys = [k for k in (inverse * (belongs + n) % (1 << 32) for n in range(200)) if k % 2][:3]
    table = np.full(16, 1, np.uint32)
    table[[7, 8, 9, 10]] = *keys[:2], 0, 0
    slots = launch("hash_table", "hash_table", [1], [32], table, np.uint32(keys), zeros(3, dtype=np.uint32), 3, 28)[2]
    assert slots.tolist() == [7, 8, 0xFFFFFFFF]


def test_random_numbers_are_those_of_philox():
    """The known answer for counter 0 and key 0 in the tests of Random123 (Salmon et al. 2011)."""
    out = launch("random_numbers", "random_numbers", [1], [32], zeros(20, 4, dtype=np.uint32), 0, 20, 1)[0]
    assert out[0].tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_lu_update():
    left, right, a = random(64, 32, dtype=np.float64), random(32, 64, dtype=np.float64), zeros(64, 64, dtype=np.float64)
    assert np.allclose(launch("lu_update", "lu_update", [1, 1], [16, 16], left, right, a, 64, 32)[2], -left @ right)


def test_floyd_warshall():
    d = (words(64, 64) % np.uint32(1000)).astype(np.int32)
    expected = d.copy()
    expected[:32, :32] = np.minimum(d[:32, :32], (d[:32, 32:, None] + d[None, 32:, :32]).min(1))
    assert np.array_equal(launch("floyd_warshall", "floyd_warshall", [2, 2], [32, 8], d, 64, 1)[0], expected)


def test_k_means():
    points, centroids = random(8, 256), random(5, 8, high=0.9)
    nearest = launch("k_means", "k_means", [2], [32], points, centroids, zeros(256, dtype=np.int32), 256, 5)[2]
    assert np.array_equal(nearest, ((points.T[:, None] - centroids) ** 2).sum(2).argmin(1))


def test_fir_filter():
    x, weights = random(74), random(5)
    out = launch("fir_filter", "fir_filter", [2], [64], x, weights, zeros(70), 70, 5)[2]
    assert np.allclose(out, np.correlate(x, weights))


@pytest.mark.parametrize("kernel", ["naive", "conflicts", "padded"])
def test_transpose(kernel):
    x = random(32, 64)
    out = launch("transpose", f"transpose_{kernel}", [2, 1], [32, 8], x, zeros(64, 32), 64, 32)[1]
    assert np.array_equal(out, x.T)


@pytest.mark.parametrize(("kernel", "block", "bits"), [("shared", 256, 8), ("global", 512, 6)])
def test_histogram(kernel, block, bits):
    x, counts = words(500), zeros(1 << bits, dtype=np.uint32)
    shift = () if kernel == "shared" else (32 - bits,)
    out = launch("histogram", f"histogram_{kernel}", [1], [block], x, counts, 500, *shift)[1]
    assert np.array_equal(out, np.bincount(x >> np.uint32(32 - bits), minlength=1 << bits))


def test_pointer_chase():
    following, ends = np.roll(np.arange(64, dtype=np.uint32), -1), zeros(4, dtype=np.uint32)
    assert launch("pointer_chase", "pointer_chase", [2], [64], following, ends, 64, 5)[1].tolist() == [5, 6, 7, 8]


def test_special_functions():
    x = random(70)
    out = launch("special_functions", "special_functions", [2], [64], x, zeros(70), 70, 1)[1]
    assert np.allclose(out, np.log(2 + np.sin(x) * np.exp(-x * x)) + 1 / np.sqrt(1 + x * x))


def test_double_precision():
    x = random(70, dtype=np.float64)
    out = launch("double_precision", "double_precision", [2], [64], x, np.zeros(70), 70, 4)[1]
    assert np.allclose(out, np.polyval(np.ones(5), x) - np.polyval(np.ones(5), x * x))


def test_integer_division_permutes_axes():
    x = random(5, 4, 3, 6)
    sizes, strides = (3, 4, 5, 6), (6, 18, 72, 1)
    out = launch("integer_division", "integer_division", [6], [64], x, zeros(*sizes), *sizes, *strides)[1]
    assert np.array_equal(out, x.transpose(2, 1, 0, 3))


def test_stencil():
    x = random(5, 6, 40)
    out = launch(
        "stencil", "stencil", [2, 3, 5], [32, 2, 1], x, zeros(5, 6, 40), 40, 6, 5, np.float32(-6), np.float32(1)
    )[1]
    neighbours = [np.roll(x, shift, axis) for shift in (-1, 1) for axis in range(3)]
    expected = zeros(5, 6, 40)
    expected[INNER, INNER, INNER] = (sum(neighbours) - 6 * x)[INNER, INNER, INNER]
    assert np.allclose(out, expected, atol=1e-5)
