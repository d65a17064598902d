"""The experiment that finds the true limiters: what its variants add, and how times are judged."""

import json
from pathlib import Path

import pytest
from launches import read_counters
from limiter_variants import Demand, with_accesses, with_stream, with_work
from limiters_page import LATENCY, PAGE, Judgement, elasticities

from gpudissect.explanation.profile import Launch
from gpudissect.explanation.ptx import parse_ptx

VALIDATION = Path(__file__).parents[2] / "validation"
PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n)
{
.reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<3>;
ld.param.u64 %d1, [a];
ld.param.u32 %r1, [n];
mov.u32 %r2, 0;
L:
@%p1 ld.global.v2.u32 {%r2, %r3}, [%d1+8];
st.global.u32 [%d1], %r3;
add.u32 %r2, %r2, 1;
setp.lt.u32 %p1, %r2, %r1;
@%p1 bra L;
ret;
}
"""
LAUNCH = Launch(grid=(64, 1, 1), block=(64, 1, 1), shared_bytes=0)
LOOP, END = 1, 2
LOAD = 4  # numbers of PTX instructions
TURNS = Demand({0: 1.0, LOOP: 10.0, END: 1.0}, {"fma": {0: 4.0, LOOP: 100.0}})


def judgement(named: str, found: dict[str, float]) -> Judgement:
    return Judgement("h100", "k", 8, True, found, found, named, "", (), None, {})


def test_work_is_added_in_proportion_to_what_each_block_needs():
    variant = with_work(parse_ptx(PTX), "k", "fma", ("fma",), "fma", TURNS, 0.4, 1.0)
    function = parse_ptx(variant.ptx).function("k")
    inserted = [sum(i.name == "fma" for i in function.instructions[b.start : b.end]) for b in function.blocks]
    assert inserted == [2, 4, 0]  # 40 % of 100 cycles in 10 turns, and of 4 cycles in one


def test_variants_have_the_blocks_of_the_kernel():
    module = parse_ptx(PTX)
    variants = [
        with_work(module, "k", "lsu", ("lsu",), "fma", TURNS, 0.4, 1.0, padding=2),
        with_accesses(module, "k", "l2", LAUNCH, lambda number: number == LOAD),
        with_accesses(module, "k", "l1", LAUNCH, lambda number: True, 2),
        with_stream(module, "k", "memory", LAUNCH, TURNS, {LOAD: 320.0}, 0.0),
        with_stream(module, "k", "memory", LAUNCH, TURNS, {LOAD: 640.0}, 64.0, 2),
    ]
    blocks = [len(parse_ptx(variant.ptx).function("k").blocks) for variant in variants]
    assert blocks == [len(module.function("k").blocks)] * len(variants)


def test_a_repeated_access_keeps_the_guard_of_the_kernels_own():
    variant = with_accesses(parse_ptx(PTX), "k", "l2", LAUNCH, lambda number: number == LOAD)
    instructions = parse_ptx(variant.ptx).function("k").instructions
    repeated = next(i for i in instructions if i.opcode == "ld.volatile.global.v2.b32")
    both = next(i for i in instructions if i.opcode == "and.pred")
    assert variant.accesses == (LOAD,)
    assert repeated.guard == both.operands[0]
    assert [i.operands for i in instructions if i.opcode == "mov.pred"] == [(both.operands[0], "%p1")]


def test_prefetched_bytes_are_those_that_were_requested():
    variant = with_stream(parse_ptx(PTX), "k", "memory", LAUNCH, TURNS, {LOAD: 960.0}, 0.0)
    count = sum(i.name == "prefetch" for i in parse_ptx(variant.ptx).function("k").instructions)
    assert count * 10 * 32 * variant.width / 4 == pytest.approx(960, rel=0.4)  # a quarter of the warps, ten turns


def test_slots_of_inserted_instructions_are_no_demand_for_their_unit():
    ns = {"setup": 100.0, "issue": 120.0, "fma": 110.0}
    found = elasticities(ns, {"issue": {"issue": 0.2}, "fma": {"fma": 0.3, "issue": 0.1}}, {"issue": 1.0, "fma": 0.5})
    assert found["issue"] == pytest.approx(1.0)
    assert found["fma"] == pytest.approx(0.0)
    assert found[LATENCY] == pytest.approx(0.0)


def test_a_unit_costs_at_most_its_busy_share_and_the_rest_is_latency():
    ns = {"setup": 100.0, "issue": 120.0}
    found = elasticities(ns, {"issue": {"issue": 0.2}}, {"issue": 0.3})
    assert found == {"issue": pytest.approx(0.3), LATENCY: pytest.approx(0.7)}


@pytest.mark.parametrize("resource", ["lsu", "l2", "memory"])
def test_so_does_a_resource_of_all_warps(resource):
    ns = {f"{resource}:0": 100.0, f"{resource}:1": 130.0}
    found = elasticities(ns, {resource: {resource: 0.3}}, {resource: 0.1})
    assert found == {resource: pytest.approx(0.1), LATENCY: pytest.approx(0.9)}


def test_memory_is_what_is_left_when_the_l2_has_its_part():
    ns = {"l2:0": 100.0, "l2:1": 105.0, "memory:0": 200.0, "memory:1": 244.0}
    demand = {"l2": {"l2": 0.25}, "memory": {"l2": 0.1, "memory": 0.25}}
    found = elasticities(ns, demand, {"l2": 0.5, "memory": 0.9})
    assert found == {"l2": pytest.approx(0.2), "memory": pytest.approx(0.8), LATENCY: pytest.approx(0.0)}


def test_a_limiter_is_right_strictly_or_close():
    found = {"issue": 0.45, "memory": 0.35, LATENCY: 0.2}
    issue, memory, latency = (judgement(name, found) for name in ("issue", "memory", LATENCY))
    assert (issue.is_right, issue.is_largest) == (True, True)
    assert (memory.is_right, memory.is_close) == (False, True)
    assert (latency.is_right, latency.is_largest) == (True, False)
    assert not judgement("lsu", found).is_judged


def test_the_page_has_every_measured_kernel():
    measured = [json.loads(file.read_text()) for file in VALIDATION.glob("limiters-*.json")]
    page = PAGE.read_text(encoding="utf-8")
    assert measured
    assert not [kernel for each in measured for kernel in each["kernels"] if f"| {kernel} | " not in page]


def test_counters_are_those_of_each_launch_in_all_files(tmp_path):
    head = '"ID","Metric Name","Metric Value"\n'
    texts = {
        "a.csv": f'==PROF== text\n{head}"0","x","1,200"\n"0","y","2"\n"1","x","3.5"\n',
        "b.csv": head + '"0","z","4"\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert read_counters([tmp_path / name for name in texts], "xz") == [{"x": 1200, "z": 4}, {"x": 3.5}]
