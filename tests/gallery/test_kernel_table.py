"""The table of example kernels: each entry compiles without spills, has arguments that fit, and a half."""

import hashlib
import tomllib
from collections import Counter
from math import prod
from pathlib import Path

import pytest

from gpudissect.explanation.arguments import parse_arguments
from gpudissect.explanation.parameters import check_parameters, parameters_of
from gpudissect.explanation.user_code import read_user_code
from gpudissect.machine_code.kernel import choose_kernel, read_cubin
from tests.support.machine_code import cubin_of

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"
KERNELS = tomllib.loads((FOLDER / "kernels.toml").read_text(encoding="utf-8"))["kernel"]
FILES = sorted(FOLDER.glob("*.cu"))
MAX_BYTES = 2_000_000_000
MAX_THREADS, MAX_REGISTERS, STATIC_SHARED_BYTES = 1024, 1 << 16, 48 << 10  # per block (CUDA C++ Programming Guide)
ELEMENTS_PER_BLOCK = {
    "absolute_value": ("out", 256), "absolute_value_float2": ("out", 512), "absolute_value_float4": ("out", 1024),
    "bitonic_sort": ("out", 1024), "black_scholes": ("put", 256), "black_scholes_by_kind": ("value", 256),
    "black_scholes_fast": ("put", 256), "convolution": ("out", 256), "double_precision": ("out", 256),
    "fir_filter": ("out", 256), "floyd_warshall": ("distances", 1024), "hash_table": ("slots", 256),
    "histogram_global": ("x", 256), "histogram_shared": ("x", 8192), "integer_division": ("out", 256),
    "k_means": ("nearest", 1024), "lu_update": ("a", 4096), "mandelbrot": ("out", 256),
    "matrix_multiply": ("c", 1024), "matrix_multiply_naive": ("c", 256), "permute": ("a", 256),
    "pointer_chase": ("ends", 8), "random_numbers": ("out", 1024), "reduction": ("sums", 1), "scan": ("sums", 256),
    "special_functions": ("out", 256), "spmv_thread_per_row": ("y", 256), "spmv_warp_per_row": ("y", 8),
    "stencil": ("out", 256), "transpose_conflicts": ("out", 1024), "transpose_naive": ("out", 1024),
    "transpose_padded": ("out", 1024), "vector_add": ("out", 256), "sgemm": ("c", 16384),
    "n_body": ("accelerations", 1024), "bfs_bottom_up": ("next_levels", 256), "sha256": ("digests", 2048),
    "fft": ("out", 2048), "splat": ("xs", 256), "levenshtein": ("distances", 1), "embedding": ("out", 1024),
    "monte_carlo": ("payoffs", 256), "hamming": ("nearest", 512), "binary_search": ("positions", 256),
    "median_filter": ("out", 256), "int8_multiply": ("c", 4096), "tridiagonal": ("x", 8192),
    "image_rotation": ("out", 256), "varint_decode": ("counts", 256), "dot_product": ("x", 32768),
    "game_of_life": ("next", 128), "ray_spheres": ("out", 256), "crc32": ("checksums", 128),
    "binomial_options": ("puts", 1), "box_filter": ("out", 8192), "lattice_boltzmann": ("out", 1152),
    "charge_deposit": ("xs", 256), "small_inverse": ("out", 4096), "wave_equation": ("last", 139425),
    "lennard_jones": ("forces", 768), "softmax": ("out", 8192), "half_gemv": ("y", 4), "random_forest": ("out", 256),
    "layer_norm": ("out", 16384), "radix_sort": ("out", 1024), "heat_equation": ("out", 576), "aes": ("out", 1024),
    "bellman_ford": ("from", 512), "bilateral_filter": ("out", 256), "dct": ("out", 512), "cholesky": ("out", 1024),
    "top_k": ("values", 32), "modular_power": ("out", 1024), "skinning": ("out_normals", 768), "attention": ("out", 64),
    "volume_rendering": ("out", 64), "string_search": ("counts", 1),
}  # fmt: skip
"""By kernel: an array, and the elements of it that a block writes or counts."""
SPLITS = (("tuning", "held out"), ("development", "unseen"))
"""Names of the halves of the first kernels and of those added later, by the lowest bit of a hash of the file's name."""
NOT_SPLIT = dict.fromkeys(("second unseen", "third unseen"), 14)
FREE = dict.fromkeys(
    (f"{number} unseen" for number in ("fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh")),
    12,
)
"""Kernels of a group that was added later and not split. `FREE` ones may have local memory and any grid."""
LATER = NOT_SPLIT | FREE
by_entry = pytest.mark.parametrize("entry", KERNELS, ids=lambda entry: entry["name"])
by_bound_entry = pytest.mark.parametrize(
    "entry", [entry for entry in KERNELS if entry["half"] not in FREE], ids=lambda entry: entry["name"]
)


def compiled(entry, architecture):
    data = cubin_of((FOLDER / entry["file"]).read_text(encoding="utf-8"), architecture, lines=False)
    return choose_kernel(read_cubin(data).kernels, entry["kernel"])


def test_names_are_unique_and_every_file_is_used():
    names = [entry["name"] for entry in KERNELS]
    assert len(set(names)) == len(names)
    assert {entry["file"] for entry in KERNELS} == {file.name for file in FILES}


def test_every_kernel_of_a_file_is_used():
    for file in FILES:
        kernels = {entry["kernel"] for entry in KERNELS if entry["file"] == file.name}
        assert file.read_text(encoding="utf-8").count("__global__") == len(kernels), file.name


@by_entry
def test_the_half_follows_from_the_file(entry):
    digest = hashlib.sha256(Path(entry["file"]).stem.encode()).digest()
    assert entry["half"] in {*LATER, *(halves[digest[-1] & 1] for halves in SPLITS)}


@pytest.mark.parametrize(("halves", "kernels"), [(SPLITS[0], 36), (SPLITS[1], 16)])
def test_neither_half_has_less_than_two_fifths(halves, kernels):
    counts = Counter(entry["half"] for entry in KERNELS if entry["half"] in halves)
    assert counts.total() == kernels and min(counts[half] for half in halves) >= 0.4 * kernels


def test_the_kernels_that_were_added_last_are_not_split():
    halves = [entry["half"] for entry in KERNELS]
    last = [half for half, count in LATER.items() for _ in range(count)]
    assert halves[-len(last) :] == last and not {*LATER} & {*halves[: -len(last)]}


@by_bound_entry
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_a_block_fits_without_spills_and_leaves_shared_memory_to_limit_the_occupancy(entry, architecture):
    kernel = compiled(entry, architecture)
    threads = prod(entry["block"])
    assert kernel.stack_bytes == 0
    assert threads <= (kernel.max_threads or MAX_THREADS) and threads * kernel.registers <= MAX_REGISTERS
    assert kernel.shared_bytes + entry["shared"] <= STATIC_SHARED_BYTES // 2


@by_entry
def test_arguments_are_the_parameters_of_the_kernel_and_fit_in_memory(entry):
    arguments = parse_arguments(entry["arguments"])
    code = read_user_code(FOLDER / entry["file"], entry["kernel"], "sm_90")
    check_parameters(arguments, parameters_of(code.module, code.module.function(code.kernel)))
    assert sum(argument.array_bytes for argument in arguments) < MAX_BYTES


@by_bound_entry
def test_the_grid_covers_an_array(entry):
    name, elements = ELEMENTS_PER_BLOCK[entry["kernel"]]
    (count,) = (argument.count for argument in parse_arguments(entry["arguments"]) if argument.name == name)
    assert prod(entry["grid"]) * elements == count


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_short_and_begins_with_a_comment(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("// ") and len(lines) <= 100 and max(map(len, lines)) <= 120
