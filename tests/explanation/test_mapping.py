"""Counts of machine code from counts of PTX blocks, which an interpreter of PTX provides."""

import math
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.explanation.counts import Sums, non_negative_least_squares
from gpudissect.explanation.instrument import BlockCount, with_source_lines
from gpudissect.explanation.mapping import map_counts
from gpudissect.explanation.profile import read_profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.kernel import choose_kernel
from gpudissect.machine_code.program import describe, read_program
from tests.explanation.sources import KERNELS, NAMES
from tests.explanation.test_instrument import ARGUMENTS, BLOCK, GRID, expected_count, launch
from tests.support.machine_code import decoded_cubin
from tests.support.ptx import ptx_of

ARCHITECTURES = ("sm_75", "sm_90", "sm_100")
THREADS = 256
UNDETERMINED = {"assembly", "arithmetic", "calls", "votes"}
"""Kernels with loops that the assembler unrolls, or with copies for converged and diverged warps."""
RECORDINGS = Path(__file__).parents[1] / "recordings" / "kernels"
MEMORY = {"ld": {"LDG", "LDS", "LDL", "LD"}, "st": {"STG", "STS", "STL", "ST"}}


@cache
def cubin_with_lines(architecture):
    return assemble(with_source_lines(parse_ptx(ptx_of(KERNELS))), architecture)


@cache
def mapped(name, architecture):
    module = parse_ptx(ptx_of(KERNELS))
    cubin = cubin_with_lines(architecture)
    kernel, instructions = decoded_cubin(cubin.data)[choose_kernel(cubin.kernels, name).name]
    program, reference = describe(kernel, instructions), launch(ptx_of(KERNELS), name)
    blocks = [(f.name, index) for f in module.called_from(module.function(name)) for index in range(len(f.blocks))]
    counts = {block: BlockCount(*expected_count(module, reference, block)) for block in blocks}
    return module, reference, program, map_counts(program, module.functions, counts, THREADS)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", NAMES)
def test_each_access_of_machine_code_runs_as_often_as_in_the_ptx(name, architecture):
    module, reference, program, counts = mapped(name, architecture)
    found, known = defaultdict(float), {f.first + n: i for f in module.functions for n, i in enumerate(f.instructions)}
    for number, block in enumerate(program.flow.blocks):
        for instruction in program.instructions[block.start : block.end]:
            source = known.get(instruction.line)
            is_access = source and not source.guard and instruction.opcode in MEMORY.get(source.name, ())
            if is_access and instruction.predicate != "!PT":
                found[instruction.line] += math.nan if instruction.predicate else counts.threads[number].value
    found = {line: executed for line, executed in found.items() if not math.isnan(executed)}  # the others are fewer
    assert found == {line: pytest.approx(reference.threads[line], abs=0.01) for line in found}
    inexact = [n for n in program.flow.order if not counts.threads[n].is_exact]
    assert not inexact or name in UNDETERMINED


def threads():
    return [(bx, x) for bx in range(GRID[0]) for x in range(BLOCK[0])] * (GRID[1] * BLOCK[1])


@pytest.mark.parametrize(
    ("name", "trips"),
    [
        ("grid_loop", lambda bx, x: len(range(bx * 16 + x, ARGUMENTS[2], 32))),
        ("triangle", lambda bx, x: x % 7),
        ("reduction", lambda bx, x: 4),
        ("nest", lambda bx, x: sum(min(6, x % 5 + i + 1) for i in range(5) if i != x % 4)),
    ],
)
def test_loops_run_as_often_as_their_source_says(name, trips):
    _, _, program, counts = mapped(name, "sm_90")
    loop = max(program.loops.loops, key=lambda loop: loop.depth)
    latches = [counts.threads[latch] for latch in loop.latches]
    assert all(count.is_exact for count in latches)
    assert program.flow.blocks[loop.header].start < program.flow.blocks[loop.latches[0]].end
    assert max(count.value for count in latches) == sum(trips(bx, x) for bx, x in threads())


def test_an_unrolled_loop_and_its_remainder_add_up():
    _, _, program, counts = mapped("unrolled", "sm_90")
    loops = [counts.threads[loop.header] for loop in program.loops.loops]
    assert [count.value for count in loops] == [THREADS * 12, THREADS * 2]
    assert all(count.is_exact for count in loops)


def test_a_loop_that_the_assembler_unrolled_turns_as_its_copies_say():
    _, _, program, counts = mapped("arithmetic", "sm_90")
    main, *_ = program.loops.loops
    assert counts.threads[main.header].is_exact
    assert counts.threads[main.header].value == THREADS * 3


@pytest.mark.parametrize(("iterations", "of_main"), [(1.5, 0.0), (6.5, 1.0)])
def test_threads_with_different_iterations_run_an_unrolled_loop_only_as_often_as_they_can(iterations, of_main):
    module, reference, program, _ = mapped("arithmetic", "sm_90")
    blocks = [("arithmetic", index) for index in range(len(module.function("arithmetic").blocks))]
    counts = {block: BlockCount(*expected_count(module, reference, block)) for block in blocks}
    body = next(block for block in blocks if block[1] in module.function("arithmetic").blocks[block[1]].successors)
    turns = round(THREADS * iterations)
    counts[body] = BlockCount(8, turns, turns - THREADS)
    found = map_counts(program, module.functions, counts, THREADS)
    main, *_ = program.loops.loops
    assert found.threads[main.header].value == pytest.approx(THREADS * of_main, abs=0.01)
    assert not found.threads[main.header].is_exact


@pytest.mark.parametrize("name", ["divergent", "triangle"])
def test_warps_of_blocks_that_came_from_one_ptx_block(name):
    module, reference, program, counts = mapped(name, "sm_90")
    function = module.function(name)
    for number in program.flow.order:
        block = counts.origin[number]
        warps, executions, _ = expected_count(module, reference, block)
        if counts.threads[number].value == executions:
            assert counts.warps[number].value == warps
            assert counts.warps[number].is_exact
    assert function.blocks


def test_code_for_unusual_operands_of_many_divisions_and_roots_does_not_run():
    source = """extern "C" __global__ void divide(float* x, const float* y, int n) {
    float v = x[threadIdx.x];
#pragma unroll
    for (int i = 0; i < 60; i++) v = sqrtf(v / y[i]) + y[i];
    x[threadIdx.x] = v;
}"""
    ptx = ptx_of(source, "compute_90")
    module, cubin = parse_ptx(ptx), assemble(with_source_lines(parse_ptx(ptx)), "sm_90")
    kernel, instructions = decoded_cubin(cubin.data)[choose_kernel(cubin.kernels, "divide").name]
    program = describe(kernel, instructions)
    counts = {("divide", number): BlockCount(8, 256, 0) for number in range(len(module.functions[0].blocks))}
    found = map_counts(program, module.functions, counts, 256)
    threads = [each.value for each in found.threads]
    assert len(program.slow_paths) > 200
    assert all(threads[n] == (0 if n in program.slow_paths else 256) for n in program.flow.order)


def test_a_loop_with_products_of_64_bit_integers_alone_runs_as_often_as_counted():
    source = """extern "C" __global__ void skip(unsigned long long* x) {
    unsigned long long steps = x[threadIdx.x + 256];
    unsigned long long multiplier = 2806196910506780709ull, increment = 1, factor = 1, sum = 0;
    for (; steps > 0; steps >>= 1) {
        if (steps & 1) { factor *= multiplier; sum = sum * multiplier + increment; }
        increment *= multiplier + 1;
        multiplier *= multiplier;
    }
    x[threadIdx.x] = factor * x[threadIdx.x] + sum;
}"""
    module, iterations = parse_ptx(ptx_of(source, "compute_90")), 20
    cubin = assemble(with_source_lines(module), "sm_90")
    kernel, instructions = decoded_cubin(cubin.data)[choose_kernel(cubin.kernels, "skip").name]
    program, blocks = describe(kernel, instructions), module.functions[0].blocks
    counts = {("skip", number): BlockCount(8, 256, 0) for number in range(len(blocks))}
    (loop,) = (("skip", number) for number, block in enumerate(blocks) if number in block.successors)
    counts[loop] = BlockCount(8 * iterations, 256 * iterations, 256 * (iterations - 1))
    found = map_counts(program, module.functions, counts, 256)
    (header,) = (each.header for each in program.loops.loops if each.header in program.flow.order)
    assert found.threads[header].is_exact and found.threads[header].value == 256 * iterations
    assert found.warps[header].value == 8 * iterations


def test_unknowns_that_no_equation_links_are_solved_apart():
    sums = Sums(1000)
    assert all(sums.add({n: 1.0, n + 1: 1.0}, float(n)) for n in range(0, 1000, 2))
    values = np.array([each.value for each in sums.solve()])
    assert values[::2] + values[1::2] == pytest.approx(np.arange(0, 1000, 2), rel=1e-3)


def test_an_equation_that_contradicts_the_others_is_left_out():
    sums = Sums(2)
    assert sums.add({0: 1.0, 1: 1.0}, 10.0)
    assert not sums.add({0: 1.0}, 12.0)
    assert sums.add({0: 2.0}, 8.0)
    assert [count.value for count in sums.solve()] == [4.0, 6.0]


@settings(max_examples=60)
@given(st.data())
def test_bounds_hold_the_counts_of_random_walks(data):
    size = data.draw(st.integers(2, 9))
    successors = [sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=2))) for _ in range(size)]
    edges = [(block, successor) for block, found in enumerate(successors) for successor in [*found, size]]
    truth, visits = dict.fromkeys(edges, 0), [0] * size
    choices = np.random.default_rng(data.draw(st.integers(0, 99)))
    for _ in range(20):
        block = 0
        while block < size:
            visits[block] += 1
            following = int(choices.choice([*successors[block], size]))
            truth[block, following] += 1
            block = following
    number = {edge: size + index for index, edge in enumerate(edges)}
    sums = Sums(size + len(edges))
    for block in range(size):
        assert sums.add({block: -1.0} | {number[edge]: 1.0 for edge in edges if edge[0] == block}, 0.0)
        entering = {number[edge]: 1.0 for edge in edges if edge[1] == block}
        assert sums.add({block: -1.0} | entering, -20.0 if block == 0 else 0.0)
    for block in sorted(data.draw(st.sets(st.integers(0, size - 1)))):
        assert sums.add({block: 1.0}, float(visits[block]))
    for count, expected in zip(sums.solve(), [*visits, *truth.values()], strict=True):
        assert count.low - 0.01 <= expected <= count.high + 0.01
        assert count.low - 0.01 <= count.value <= count.high + 0.01


@settings(max_examples=60)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 999))
def test_least_squares_are_those_of_scipy(rows, columns, seed):
    from scipy.optimize import nnls

    values = np.random.default_rng(seed)
    matrix, results = values.normal(size=(rows, columns)), values.normal(size=rows)
    found = non_negative_least_squares(matrix, results)
    assert (found >= 0).all()
    assert np.linalg.norm(matrix @ found - results) == pytest.approx(nnls(matrix, results)[1], abs=1e-8)


def recorded(kernel, gpu="h200"):
    profile = read_profile(RECORDINGS / gpu / f"{kernel}.json")
    program, module = read_program(*profile.machine_code()), parse_ptx(profile.ptx())
    threads = profile.launch.blocks * profile.launch.threads_per_block
    return program, map_counts(program, module.functions, profile.block_counts(), threads)


def test_functions_of_the_compiler_run_as_diverged_as_their_calls():
    program, counts = recorded("miller_rabin")
    (entry,) = program.flow.entries[1:]
    calls = [number for number, block in enumerate(program.flow.blocks) if block.callee == entry]
    assert len(calls) == 9
    for found in (counts.threads, counts.warps):
        assert found[entry].value == pytest.approx(sum(found[number].value for number in calls))
    assert counts.warps[entry].value > 8 * counts.threads[entry].value / 32


def test_atomics_show_how_often_a_loop_and_its_remainder_turn():
    program, counts = recorded("bloom_insert")
    atomics = [
        counts.threads[number].value
        for number, block in enumerate(program.flow.blocks)
        for each in program.instructions[block.start : block.end]
        if each.opcode == "REDG"
    ]
    assert sum(atomics) == pytest.approx(7 * 4_000_000)


def test_a_block_runs_no_more_often_than_once_per_thread_or_iteration():
    """`libor_paths` has 40 divisions in sequence, each with a branch: bounds along them doubled at each branch."""
    program, counts = recorded("libor_paths", "h100")
    innermost = [program.loops.innermost[block] for block in program.flow.order if block < program.flow.called[0].start]
    headers = [None if loop is None else program.loops.loops[loop].header for loop in innermost]
    limits = [counts.threads[0 if header is None else header].high for header in headers]
    assert all(counts.threads[block].high <= limit for block, limit in enumerate(limits))


def test_a_loop_that_runs_is_entered_if_nothing_else_is_known():
    """The assembler copies the test of a loop: 10 threads either enter it or not, and 46 leave or repeat it."""
    enter, skip, leave, again = range(4)
    sums = Sums(4)
    sums.add({enter: 1.0, skip: 1.0}, 10.0)
    sums.add({leave: 1.0, again: 1.0}, 46.0)
    sums.add({enter: 1.0, again: 1.0}, 46.0)
    assert [each.value for each in sums.solve([again])] == pytest.approx([10, 0, 10, 36])


@pytest.mark.parametrize(("kernel", "loop"), [("hash_join", 13), ("flash_attention", 17)])
def test_loops_of_recorded_kernels_are_entered(kernel, loop):
    """That of `hash_join` has the test of the PTX twice, that of `flash_attention` only asynchronous copies."""
    program, found = recorded(kernel, "h100")
    before = {n for n, block in enumerate(program.flow.blocks) if loop in block.successors and n < loop}
    assert sum(found.edges[n, loop].value for n in before) > 0.9 * sum(found.threads[n].value for n in before)
