"""Which executions and lanes of an access in machine code make a request: predicates, elected lanes, copies."""

from dataclasses import replace

import pytest

from gpudissect.explanation.counts import Count
from gpudissect.explanation.instrument import LINES_FILE, BlockCount
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.assembled import combined_accesses
from gpudissect.explanation.model.assess import _predicated_on, assess
from gpudissect.explanation.model.facts import Facts
from gpudissect.explanation.model.traffic import Accessed
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.machine_code.kernel import Function, Kernel
from gpudissect.machine_code.program import describe
from tests.explanation.model.test_asynchronous import instruction
from tests.explanation.model.test_costs import CARD
from tests.explanation.model.test_traffic import LANES, warp

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %a;
    ld.param.u64 %a, [p];
    setp.eq.u32 %p, %r1, 0;
    @%p bra $after;
    ld.global.u32 %r2, [%a];
$after: st.global.u32 [%a], %r2;
    exit;
}
"""
LOAD_LINE, STORE_LINE, END_LINE = 4, 5, 6
"""Numbers of PTX instructions, counted from 1."""
LOAD, STORE = "LDG.E R4, desc[UR4][R2.64]", "STG.E desc[UR4][R2.64], R4"
ATOMIC = Accessed(LOAD_LINE, "global", "atomic", 4)
BLOCKS, WARPS = 4, 8  # of two warps each
ALL = Count(WARPS, WARPS, WARPS)


def program_of(*lines):
    """Machine code from text, its predicate, and the number of its PTX instruction."""
    instructions = tuple(
        replace(instruction(text), address=16 * place, predicate=predicate, file=LINES_FILE, line=line)
        for place, (text, predicate, line) in enumerate(lines)
    )
    size = 16 * len(instructions)
    kernel = Kernel("k", "sm_90", bytes(size), 0, 16, 0, 0, None, (Function("k", 0, size),), {})
    return describe(kernel, instructions)


def assessment(*lines, loading=2, size=4, warps=()):
    """Of 8 warps, which execute the PTX block of the load `loading` times together."""
    program = program_of(*lines, ("EXIT", "", END_LINE))
    executions = (WARPS, loading, WARPS)
    counts = {("k", block): BlockCount(count, 32 * count, 0) for block, count in enumerate(executions)}
    accesses = [Accessed(LOAD_LINE, "global", "load", size), Accessed(STORE_LINE, "global", "store", 4)]
    traces = warps or [warp([4 * LANES]), warp([4 * LANES], index=1)]
    return assess(program, parse_ptx(PTX), Facts(BLOCKS, 64, 0, counts, accesses, traces, {}), CARD)


@pytest.mark.parametrize(("loading", "share"), [(0, 0.0), (1, 0.125), (2, 0.25), (7, 0.875)])
def test_a_predicated_access_makes_requests_as_often_as_its_ptx_block_runs(loading, share):
    found = assessment((LOAD, "!P0", LOAD_LINE), (STORE, "", STORE_LINE), loading=loading)
    assert found.predicated_on == {0: share}
    assert [found.requests[place].predicated_on for place in (0, 1)] == [share, 1.0]


def test_an_access_that_runs_as_often_as_its_ptx_block_makes_all_requests():
    found = assessment((LOAD, "!P0", LOAD_LINE), (STORE, "P1", STORE_LINE), loading=WARPS)
    assert found.predicated_on == {}


def test_an_access_without_a_predicate_makes_a_request_in_each_execution():
    found = assessment((LOAD, "", LOAD_LINE), (STORE, "", STORE_LINE))
    assert found.predicated_on == {} and found.requests[0].predicated_on == 1


def test_copies_of_an_access_make_its_requests_together():
    """Two copies run in all 8 warps: 2 requests of 16 executions."""
    found = assessment((LOAD, "!P0", LOAD_LINE), (LOAD, "P0", LOAD_LINE), (STORE, "", STORE_LINE))
    assert found.predicated_on == {0: 0.125, 1: 0.125}


def test_copies_make_all_requests_if_one_has_no_predicate():
    found = assessment((LOAD, "!P0", LOAD_LINE), (LOAD, "", LOAD_LINE), (STORE, "", STORE_LINE))
    assert found.predicated_on == {}


@pytest.mark.parametrize(("attempts", "shares"), [({}, {0: 0.25}), ({0: 3.0}, {})])
def test_a_retried_access_makes_a_request_in_each_execution(attempts, shares):
    program = program_of((LOAD, "!P0", LOAD_LINE), ("EXIT", "", END_LINE))
    counts = MachineCounts((ALL,), (ALL,), {}, (("k", 0),))
    facts = Facts(BLOCKS, 64, 0, {("k", 1): BlockCount(2, 64, 0)}, [Accessed(LOAD_LINE, "global", "load", 4)], [], {})
    assert _predicated_on(program, counts, facts, parse_ptx(PTX), {0: 0}, attempts) == shares


@pytest.mark.parametrize(("loading", "is_whole"), [(WARPS, True), (4 * WARPS, False)])
def test_a_sample_with_all_requests_is_whole_if_not_all_executions_make_one(loading, is_whole):
    """The sampled warp makes one request; its path has four executions, of which one or all make a request."""
    copies = [(LOAD, "!P0", LOAD_LINE)] * 4
    found = assessment(*copies, (STORE, "", STORE_LINE), loading=loading)
    assert found.requests[0].is_whole == is_whole


@pytest.mark.parametrize(
    ("mask", "size", "passes"),
    [(0xFFFFFFFF, 4, 1), (0xFFFFFFFF, 8, 2), (0xFFFFFFFF, 16, 4), (0xFFFF, 16, 2), (1, 4, 1)],
)
def test_copies_to_shared_memory_have_the_passes_of_the_bytes_that_they_write(mask, size, passes):
    """All lanes copy from one bank: a load would take a pass for each of them."""
    warps = [warp([128 * LANES], lanes=mask)]
    bits = {4: "", 8: ".64", 16: ".128"}[size]
    copy = f"LDGSTS.E{bits} [R1], desc[UR4][R2.64]"
    found = assessment((copy, "", LOAD_LINE), (STORE, "", STORE_LINE), loading=WARPS, size=size, warps=warps)
    assert found.requests[0].passes == passes


@pytest.mark.parametrize(
    ("opcodes", "is_combined"),
    [
        (("VOTEU.ANY", "UFLO.U32"), True),
        (("VOTEU.ANY", "FLO.U32"), True),
        (("VOTEU.ANY",), False),
        (("UFLO.U32",), False),
        (("VOTE.ANY", "UFLO.U32"), False),
        ((), False),
    ],
)
def test_an_atomic_is_combined_if_its_machine_code_elects_a_lane(opcodes, is_combined):
    around = [(opcode, "", LOAD_LINE) for opcode in opcodes]
    program = program_of(*around, ("ATOMG.E.ADD PT, R3, desc[UR4][R2.64], R5", "P1", LOAD_LINE), ("EXIT", "", END_LINE))
    assert combined_accesses(program, [ATOMIC]) == ({0} if is_combined else frozenset())


def test_only_an_atomic_of_the_line_of_an_election_is_combined():
    program = program_of(("VOTEU.ANY", "", LOAD_LINE), ("UFLO.U32", "", LOAD_LINE), ("EXIT", "", END_LINE))
    others = [replace(ATOMIC, kind="load"), replace(ATOMIC, instruction=STORE_LINE)]
    assert combined_accesses(program, [*others, ATOMIC]) == {2}
