"""Instrumented PTX: run by an interpreter, it counts and records what the kernel executes; it compiles."""

import numpy as np
import pytest

from gpudissect.errors import MachineCodeError, PtxError
from gpudissect.explanation.insertion import find_accesses
from gpudissect.explanation.instrument import LINES_FILE, Sample, counted, traced, with_source_lines
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.instructions import read_instructions
from gpudissect.machine_code.kernel import read_cubin
from tests.explanation.sources import COPIES, KERNELS, NAMES
from tests.explanation.test_ptx import HEAD, TABLE
from tests.machine_code.sources import INSTRUCTIONS
from tests.support.machine_code import cubin_of
from tests.support.ptx import ptx_of
from tests.support.ptx_interpreter import Interpreter

GRID, BLOCK = (2, 2, 1), (16, 4, 1)
ARGUMENTS = (np.zeros(512, np.uint32), np.arange(128, dtype=np.uint32) * np.uint32(2654435761), 50)
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")
ALL = Sample((0, 1, 4), (0, 1, 2))


def launch(ptx, name, arrays=()):
    return Interpreter(ptx).launch(name, GRID, BLOCK, ARGUMENTS, arrays)


def expected_count(module, reference, block):
    """Warps, threads and taken branches of a block as the interpreter counted them."""
    function = module.function(block[0])
    first, last = function.first + function.blocks[block[1]].start, function.first + function.blocks[block[1]].end - 1
    return reference.warps[first], reference.threads[first], reference.taken[last]


@pytest.mark.parametrize("name", NAMES)
def test_counters_hold_what_ran_and_results_are_the_same(name):
    text = ptx_of(KERNELS)
    module = parse_ptx(text)
    instrumented = counted(module, name)
    reference, run = launch(text, name), launch(instrumented.ptx, name)
    for block, count in instrumented.read(run.memory[instrumented.array]).items():
        assert count[:3] == expected_count(module, reference, block)
    assert (run.memory[0], run.memory[1]) == (reference.memory[0], reference.memory[1])


def test_shuffles_of_the_interpreter_are_those_of_a_gpu():
    run = Interpreter(ptx_of(KERNELS)).launch("votes", (1, 1, 1), (64, 1, 1), ARGUMENTS)
    votes = np.frombuffer(run.memory[0], np.uint32)
    assert votes[0] == 10 + ARGUMENTS[1][1]  # as on an H200: ten odd numbers, and the value of lane 1


def read_trace(instrumented, run, slot):
    arrays = {name.rpartition("_")[2]: run.memory[name] for name in instrumented.arrays}
    return instrumented.read_accesses(arrays, slot), instrumented.read_visits(arrays, slot)


def trace(name, sample, **capacities):
    instrumented = traced(parse_ptx(ptx_of(KERNELS)), name, **capacities)
    sample_array = next(array for array in instrumented.arrays if array.endswith("_sample"))
    return instrumented, launch(instrumented.ptx, name, {sample_array: sample.data()})


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_holds_accesses_and_blocks_in_order_and_results_are_the_same(name):
    module, reference = parse_ptx(ptx_of(KERNELS)), launch(ptx_of(KERNELS), name)
    instrumented, run = trace(name, ALL, warps=8, accesses=2000, visits=2000)
    assert (run.memory[0], run.memory[1]) == (reference.memory[0], reference.memory[1])
    assert not instrumented.untraced
    for (block, warp), events in reference.events.items():
        accesses, visits = read_trace(instrumented, run, 2 * block + warp)
        found = []
        for index, lanes, addresses in zip(accesses.index, accesses.lanes, accesses.addresses, strict=True):
            access = instrumented.accesses[index]
            window = {"generic": (1 << 62) - 1}.get(access.space, (1 << 64) - 1)
            places = [int(a) & window for n, a in enumerate(addresses) if lanes >> n & 1]
            found.append((access.instruction, int(lanes), places))
        expected = [(n, m, [a % (1 << 40) if generic(instrumented, n) else a for a in p]) for n, m, p in events]
        assert found == expected
        starts = [module.function(f).first + module.function(f).blocks[b].start for f, b in instrumented.blocks]
        assert len(visits.index) and set(visits.index) <= set(range(len(starts)))
        assert (accesses.overflow_count, visits.overflow_count) == (0, 0)


def generic(instrumented, number):
    return any(a.instruction == number and a.space == "generic" for a in instrumented.accesses)


def test_visits_are_the_path_of_a_warp_and_add_up_to_the_counts():
    module, name = parse_ptx(ptx_of(KERNELS)), "nest"
    instrumented, run = trace(name, ALL, warps=8, accesses=1, visits=2000)
    counts = counted(module, name)
    counted_blocks = counts.read(launch(counts.ptx, name).memory[counts.array])
    expected = [[count.warps, count.threads] for count in counted_blocks.values()]
    found = np.zeros((len(expected), 2), int)
    for slot in range(8):
        _, visits = read_trace(instrumented, run, slot)
        blocks = module.function(name).blocks
        assert visits.index[0] == 0
        for index, lanes in zip(visits.index, visits.lanes, strict=True):
            found[index] += [1, int(lanes).bit_count()]
        assert not blocks[visits.index[-1]].successors
    assert found.tolist() == expected


def test_only_sampled_warps_are_recorded_up_to_the_capacity():
    instrumented, run = trace("grid_loop", Sample((1, 2, 1), (1, 1, 1)), warps=2, accesses=1, visits=2)
    accesses, visits = read_trace(instrumented, run, 0)
    assert (len(accesses.index), len(visits.index)) == (1, 2)
    reference = launch(ptx_of(KERNELS), "grid_loop").events[1, 1]
    assert accesses.overflow_count == len(reference) - 1
    assert [int(a) for a in accesses.addresses[0]] == reference[0][2]
    assert [len(events.index) for events in read_trace(instrumented, run, 1)] == [0, 0]


def test_generic_addresses_state_their_space():
    instrumented, run = trace("generic", ALL, warps=8, accesses=50, visits=50)
    accesses, _ = read_trace(instrumented, run, 0)
    spaces = {
        int(address) >> 62
        for index, lanes, addresses in zip(accesses.index, accesses.lanes, accesses.addresses, strict=True)
        for lane, address in enumerate(addresses)
        if instrumented.accesses[index].space == "generic" and lanes >> lane & 1
    }
    assert spaces == {0, 1}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_machine_code_is_the_same_with_lines_and_each_instruction_has_one(architecture):
    for source in (KERNELS, INSTRUCTIONS):
        module = parse_ptx(ptx_of(source, "compute_75", "-lineinfo"))
        plain, lined = assemble(module.text, architecture), assemble(with_source_lines(module), architecture)
        numbers = range(1, sum(len(function.instructions) for function in module.functions) + 1)
        assert [k.name for k in plain.kernels] == [k.name for k in lined.kernels]
        for before, after in zip(plain.kernels, lined.kernels, strict=True):
            assert before.code == after.code
            if source == KERNELS and after.name in ("nest", "calls"):
                instructions = read_instructions(lined, after)
                assert {(i.file, i.line in numbers) for i in instructions} == {(LINES_FILE, True)}


def test_assembled_ptx_is_the_machine_code_of_the_compiler():
    found = {kernel.name: kernel.code for kernel in assemble(ptx_of(KERNELS, "compute_90"), "sm_90").kernels}
    assert found == {kernel.name: kernel.code for kernel in read_cubin(cubin_of(KERNELS, "sm_90")).kernels}


@pytest.mark.parametrize("ptx", ["hello", HEAD + ".entry k() { unknown; }"])
def test_ptx_that_does_not_assemble_is_refused_in_one_line(ptx):
    with pytest.raises(MachineCodeError) as error:
        assemble(ptx, "sm_90")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_instrumented_ptx_compiles(architecture):
    module = parse_ptx(ptx_of(INSTRUCTIONS))
    for name in ("memory", "calls"):
        for text in (counted(module, name).ptx, traced(module, name, warps=4, accesses=64, visits=64).ptx):
            assert name in {kernel.name for kernel in assemble(text, architecture).kernels}


def test_asynchronous_copies_are_a_load_and_a_store():
    module = parse_ptx(ptx_of(COPIES, "compute_80"))
    instrumented = traced(module, "copies", warps=1, accesses=8, visits=8)
    found = [(access.space, access.kind, access.size) for access in instrumented.accesses]
    assert found[:2] == [("global", "load", 16), ("shared", "store", 16)]
    assert assemble(instrumented.ptx, "sm_90").kernels


def test_accesses_are_found_as_triton_writes_them():
    body = """.visible .entry k(.param .u64 .ptr .global .align 1 p)
.reqntid 128
{
\t.reg .pred\t%p<2>;
\t.reg .b32\t%r<9>;
\t.reg .b64 \t%rd<3>;
$L__func_begin0:
\tld.param.u64 \t%rd1, [p];
\t@%p1 ld.global.L1::evict_last.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
\t@!%p1 cp.async.cg.shared.global [ %r5 + 0 ], [ %rd1 + 16 ], 0x10, %r6;
\tldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5+-64];
\tatom.global.gpu.acq_rel.add.u32 %r7, [%rd1 + 4], 1;
\t@%p1 st.shared::cta.v2.b16 [ %r5 + 8 ], { %r1, %r2 };
\tret;
$L__func_end0:
}
"""
    found = traced(parse_ptx(HEAD + body), "k", warps=1, accesses=1, visits=1)
    assert [(a.instruction, a.space, a.kind, a.size) for a in found.accesses] == [
        (2, "global", "load", 16),
        (3, "global", "load", 16),
        (3, "shared", "store", 16),
        (4, "shared", "load", 16),
        (5, "global", "atomic", 4),
        (6, "shared", "store", 4),
    ]
    assert found.untraced == ()


def test_values_that_lanes_compare_are_traced():
    body = ".entry k() { .reg .b32 %r<3>; .reg .b64 %d; mov.u32 %r1, %laneid; and.b32 %r1, %r1, 3; "
    body += "match.any.sync.b32 %r2, %r1, -1; cvt.u64.u32 %d, %r1; match.any.sync.b64 %r2, %d, -1; ret; }"
    instrumented = traced(parse_ptx(HEAD + body), "k", warps=1, accesses=2, visits=1)
    assert [(access.space, access.kind) for access in instrumented.accesses] == 2 * [("shared", "value")]
    sample_array = next(array for array in instrumented.arrays if array.endswith("_sample"))
    run = Interpreter(instrumented.ptx).launch(
        "k", (1, 1, 1), (32, 1, 1), (), {sample_array: Sample((0, 1, 1), (0, 1, 1)).data()}
    )
    values = read_trace(instrumented, run, 0)[0].addresses
    assert values.tolist() == 2 * [[lane % 4 for lane in range(32)]]


def test_instructions_of_unknown_addresses_are_listed():
    body = ".entry k(.param .u64 p) { .reg .b64 %d<3>; multimem.ld_reduce.global.add.u64 %d1, [%d2];"
    body += " wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0}, %d1, %d2, 1, 1, 1, 0, 0; ret; }"
    assert traced(parse_ptx(HEAD + body), "k", warps=1, accesses=1, visits=1).untraced == (1, 2)


def test_indirect_branches_are_counted():
    instrumented = counted(parse_ptx(HEAD + TABLE.replace("ld.param", "mov.pred %p, 1; ld.param")), "table")
    run = Interpreter(instrumented.ptx).launch("table", (1, 1, 1), (32, 1, 1), (1,))
    counts = instrumented.read(run.memory[instrumented.array])
    assert [counts["table", block].threads for block in range(5)] == [32, 0, 0, 0, 32]


def test_names_in_use_are_avoided_and_old_versions_raised():
    text = HEAD.replace("8.0", "6.0").replace("sm_90", "sm_75") + ".entry k() { .reg .u32 %gpudissect_0_r; ret; }"
    instrumented = counted(parse_ptx(text.replace("6.0", "6.3")), "k")
    assert instrumented.array == "gpudissect_1_counts"
    assert ".version 6.2" in counted(parse_ptx(text), "k").ptx


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (HEAD + TABLE, "tables"),
        (HEAD.replace("64", "32") + TABLE, "table"),
    ],
)
def test_what_cannot_be_instrumented_is_refused(text, name):
    with pytest.raises(PtxError):
        counted(parse_ptx(text), name)


def test_a_module_for_debugging_has_no_other_lines():
    with pytest.raises(PtxError):
        with_source_lines(parse_ptx(ptx_of(KERNELS, "compute_75", "-G")))


def test_a_trace_has_a_limited_size():
    with pytest.raises(PtxError):
        traced(parse_ptx(HEAD + TABLE), "table", warps=1 << 20, accesses=1 << 20, visits=1)


def test_barriers_and_bulk_copies_are_traced_with_their_numbers():
    body = ".entry k(.param .u64 p) { .reg .b64 %d<3>; .reg .b32 %r<9>; .reg .pred %q;"
    body += " mbarrier.init.shared.b64 [%r1], 2; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r2;"
    body += " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d1], %r2, [%r1];"
    body += " mbarrier.try_wait.parity.shared.b64 %q, [%r1], %r4; ret; }"
    found, unknown = find_accesses(parse_ptx(HEAD + body).function("k"))
    barrier, number = ("shared", "atomic", 8), ("shared", "load", 1)
    assert [[(each.space, each.kind, each.size) for each in row] for row in found.values()] == [
        [barrier, number],
        [barrier, number],
        [("global", "load", 16), barrier, number],
        [barrier, number],
    ]
    assert unknown == () and "mov.u64 {address}, 2;" in found[0][1].address and "%r4" in found[3][1].address
