"""Executions that follow from given trips of loops, and explanations without a run."""

from pathlib import Path

import pytest

from gpudissect.errors import UsageError
from gpudissect.explanation.inputs import explain_file, explain_trips
from gpudissect.explanation.model.build import GIVEN_FACTOR
from gpudissect.explanation.profile import Launch, read_profile
from gpudissect.explanation.trips import executions, parse_trips, unrolled_loops
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.device_code import find_kernel
from gpudissect.machine_code.program import read_program
from gpudissect.results.files import load
from tests.support.ptx import ptx_of

ROOT = Path(__file__).parents[2]
H200, H100 = (load(ROOT / "docs" / "results" / f"{name}.json") for name in ("h200", "h100"))
SOURCE = r"""
__device__ __noinline__ float power(float x, int n) {
#pragma unroll 1
    do { x = x * x + n; } while (--n);
    return x;
}
extern "C" __global__ void nest(float* out, int n, int m) {
    float s = threadIdx.x;
    int i = n;
#pragma unroll 1
    do {
        int j = m;
#pragma unroll 1
        do { s = s * 0.5f + j; } while (--j);
        s += power(s, m);
    } while (--i);
    if (n > 3) { out[threadIdx.x] = s; __threadfence(); }
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
"""
OUTER, INNER, CALLED = "kernels.cu:15", "kernels.cu:13", "kernels.cu:3"
LAUNCH = Launch(grid=(64, 1, 1), block=(96, 1, 1))
THREADS = 96 * 64
DOT = r"""
extern "C" __global__ void dot(float* a, float* b, int n) {
    float s = 0;
    for (int i = 0; i < n; i++)
        s += a[i] * b[i];
    a[n] = s;
}
extern "C" __global__ void twice(float* a, float* b, int n) {
    float s = 0;
#pragma unroll 1
    for (int i = 0; i < n; i += 8)
        for (int j = 0; j < n; j++) s += a[i] * b[i + j];
    for (int j = 0; j < n; j++) s += a[n - j]; for (int j = 0; j < n; j++) s += b[n - j];
    a[n] = s;
}
"""
LINE = "kernels.cu:3"


@pytest.fixture(scope="module")
def program():
    return program_of(SOURCE, "nest")


def program_of(source, name):
    cubin = assemble(ptx_of(source.lstrip(), "compute_90", "-lineinfo"), "sm_90")
    return read_program(*find_kernel([cubin], name))


def times_at(program, counts, name):
    """Executions by a thread of the header of a loop."""
    return counts.threads[program.loops.loops[program.loops.find(name)].header].value / THREADS


def test_blocks_of_a_loop_run_as_often_as_it_turns_in_all_loops_around(program):
    counts = executions(program, {OUTER: 3, INNER: 5, CALLED: 4}, LAUNCH)
    assert [times_at(program, counts, name) for name in (OUTER, INNER, CALLED)] == [3, 15, 12]
    loop = program.loops.loops[program.loops.find(INNER)]
    assert counts.edges[loop.latches[0], loop.header].value == (5 - 1) * 3 * THREADS
    assert counts.warps[loop.header].value == 15 * THREADS / 32


@pytest.mark.parametrize("threads", [16, 33, 48, 100])
def test_a_block_may_end_with_a_part_of_a_warp(program, threads, tmp_path):
    launch = Launch(grid=(264, 1, 1), block=(threads, 1, 1))
    counts = executions(program, {OUTER: 3, INNER: 5, CALLED: 4}, launch)
    header = program.loops.loops[program.loops.find(INNER)].header
    assert counts.threads[header].value == 15 * 264 * threads
    assert counts.warps[header].value == 15 * 264 * -(-threads // 32)
    (tmp_path / "kernels.cu").write_text(SOURCE.lstrip())
    found, whole = (
        explain_trips(tmp_path / "kernels.cu", each, {OUTER: 3, INNER: 5, CALLED: 4}, [H200])
        for each in (launch, Launch(grid=(264, 1, 1), block=(-(-threads // 32) * 32, 1, 1)))
    )
    assert found.point.predicted == pytest.approx(whole.point.predicted)
    assert max(line.executed for line in found.lines) == 15


def test_both_ways_of_a_branch_run(program):
    counts = executions(program, {OUTER: 3, INNER: 5, CALLED: 4}, LAUNCH)
    stores = [n for n, each in enumerate(program.instructions) if each.opcode == "STG"]
    blocks = [n for n, block in enumerate(program.flow.blocks) for s in stores if block.start <= s < block.end]
    assert len(set(blocks)) == 2 and {counts.threads[n].value for n in blocks} == {THREADS}


def test_code_for_unusual_operands_of_a_division_does_not_run():
    divide = program_of('extern "C" __global__ void divide(float* x) { x[threadIdx.x] /= x[0]; }', "divide")
    counts = executions(divide, {}, LAUNCH)
    assert divide.slow_paths
    assert {counts.threads[n].value for n in divide.slow_paths} == {0}
    assert {counts.threads[n].value for n in set(divide.flow.order) - divide.slow_paths} == {THREADS}


def test_a_loop_may_turn_never_or_be_named_by_its_address(program):
    loop = program.loops.loops[program.loops.find(INNER)]
    address = program.instructions[program.flow.blocks[loop.header].start].address
    counts = executions(program, {OUTER: 3, hex(address): 0, CALLED: 2.5}, LAUNCH)
    assert [times_at(program, counts, name) for name in (INNER, CALLED)] == [0, 7.5]


@pytest.mark.parametrize(
    ("trips", "facts"),
    [
        ({OUTER: 3}, ("2 loops", INNER, CALLED, "0x", f"inside {OUTER}", "--trips")),
        ({OUTER: 3, INNER: 1, CALLED: 1, "x.cu:9": 2}, ("no such loop", "x.cu:9", OUTER)),
        ({OUTER: -1}, ("-1", OUTER, "0 to")),
        ({OUTER: "3"}, ("'3'", OUTER)),
        ({OUTER: float("nan")}, ("nan",)),
    ],
)
def test_what_is_missing_or_wrong_is_named(program, trips, facts):
    with pytest.raises(UsageError) as error:
        executions(program, trips, LAUNCH)
    assert all(fact in str(error.value) for fact in facts), error.value


def test_a_loop_has_one_trip_count(program):
    loop = program.loops.loops[program.loops.find(INNER)]
    address = hex(program.instructions[program.flow.blocks[loop.header].start].address)
    with pytest.raises(UsageError, match=f"two trip counts of one loop, by the names {INNER} and {address}: give one"):
        executions(program, {OUTER: 3, INNER: 5, address: 5, CALLED: 4}, LAUNCH)
    dot = program_of(DOT, "dot")
    with pytest.raises(UsageError, match="two trip counts of one loop"):
        executions(dot, {dot.loops.loops[0].name: 3, LINE: 39}, LAUNCH)


def test_a_loop_without_a_trip_count_is_described():
    program = program_of(DOT, "twice")
    first, *others = program.loops.loops
    with pytest.raises(UsageError, match=r"of 1 loop: \S+ \(0x\w+ to 0x\w+, counts in steps of 8\)"):
        executions(program, {loop.name: 1 for loop in others if loop.name != first.name}, LAUNCH)


def test_iterations_of_the_source_are_distributed_over_an_unrolled_loop():
    program = program_of(DOT, "dot")
    loops = program.loops.loops
    members = unrolled_loops(program)[LINE]
    assert [size for _, size in members] == [16, 4, 1]
    counts = executions(program, {LINE: 39}, LAUNCH)
    assert [counts.threads[loops[number].header].value / THREADS for number, _ in members] == [2, 1, 3]
    counts = executions(program, {loops[number].name: size for number, size in members}, LAUNCH)
    assert [counts.threads[loops[number].header].value / THREADS for number, _ in members] == [16, 4, 1]


@pytest.mark.parametrize(
    ("kernel", "facts"),
    [
        (
            "dot",
            (
                "of 1 loop",
                f"{LINE} (unrolled: 16 iterations at 0x",
                ", 4 iterations",
                ", 1 iteration at 0x",
                f"--trips {LINE}=100",
            ),
        ),
        ("twice", ("of 9 loops", "kernels.cu:11#1", "kernels.cu:12#1", "--trips kernels.cu:10=100")),
    ],
)
def test_unrolled_loops_without_trips_are_described(kernel, facts):
    with pytest.raises(UsageError) as error:
        executions(program_of(DOT, kernel), {}, LAUNCH)
    assert all(fact in str(error.value) for fact in facts), error.value


def test_an_unknown_loop_is_answered_with_the_names_that_trips_are_asked_for():
    with pytest.raises(UsageError, match=rf"no such loop: '0x0'; valid: {LINE}$"):
        executions(program_of(DOT, "dot"), {"0x0": 3}, THREADS)


def test_two_unrolled_loops_of_a_line_are_kept_apart():
    assert "kernels.cu:12" not in unrolled_loops(program_of(DOT, "twice"))


def test_trips_as_text():
    assert parse_trips(["k.cu:3#2=12", "0x1a0=2.5", "a=b.cu:3=1e3"]) == {"k.cu:3#2": 12, "0x1a0": 2.5, "a=b.cu:3": 1e3}
    assert parse_trips(["none"]) == {}
    for texts, fact in (
        (["k.cu:3"], "LOOP=N"),
        (["k=-1"], "LOOP=N"),
        (["k=1e"], "k=1e"),
        (["k=1", "k=2"], "two trip"),
        (["k.cu:3=1,k.cu:4=2"], "repeat --trips for each loop"),
    ):
        with pytest.raises(UsageError, match=fact):
            parse_trips(texts)


def test_without_a_run_vector_add_is_predicted_as_from_its_profile():
    """Its accesses are contiguous and come from memory, so that only the origin of the counts differs."""
    profile = ROOT / "tests" / "recordings" / "kernels" / "h200" / "vector_add.json"
    recorded = explain_file(profile, [H200])
    launch = read_profile(profile).launch
    file = ROOT / "examples" / "kernels" / "vector_add.cu"
    given = explain_trips(file, launch, {}, [H200], against=[H100])
    assert (given.counts, recorded.counts) == ("given", "measured")
    assert given.point.predicted == pytest.approx(recorded.point.predicted, rel=0.02)
    assert given.point.measured is None and "GIVEN" in given.notes[0]
    for point in (given.point, *given.curve):
        bracket = point.low * GIVEN_FACTOR, point.high / GIVEN_FACTOR
        assert bracket == pytest.approx((point.predicted, point.predicted))
    (load_line, *_) = [line for line in given.lines if "LDG" in line.text]
    assert (load_line.sectors, load_line.l1_hits, load_line.source_line) == (4, 0, 7)
    assert (
        given.against is not None and given.against.counts == "given" and given.against.gpu == "NVIDIA H100 80GB HBM3"
    )


def test_machine_code_alone_needs_no_source(tmp_path):
    (tmp_path / "k.cubin").write_bytes(assemble(ptx_of(SOURCE, "compute_90"), "sm_90").data)
    launch = Launch(grid=(64, 1, 1), block=(96, 1, 1))
    with pytest.raises(UsageError, match="no trip count of 3 loops: 0x") as error:
        explain_trips(tmp_path / "k.cubin", launch, {}, [H200])
    listed = str(error.value).partition("loops: ")[2].partition(";")[0].split("), ")
    trips = {text.partition(" ")[0]: 3 for text in listed}
    found = explain_trips(tmp_path / "k.cubin", launch, trips, [H200])
    assert max(line.executed for line in found.lines) == 9 and found.lines[0].source_line is None
