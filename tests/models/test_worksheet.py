"""VV16 tables 3.2 to 3.4, and the vector addition of s3.8."""

from dataclasses import replace
from math import inf

import pytest
from issue_times import Issue, timeline
from vv16 import vector_add

from gpudissect.models.base import Machine, Unit
from gpudissect.models.worksheet import Limit, worksheet
from tests.support.machines import KEPLER, MAXWELL

BYTE = 10.4  # bytes a cycle of one SM (VV16 table 3.3)
TABLE_3_3 = Machine(
    name="Maxwell",
    sms=16,
    clock_hz=1.266e9,
    schedulers=4,
    warps=64,
    issue=4,
    units={
        "fadd": Unit(resource="CUDA cores", latency=6, throughput=4),
        "rsq": Unit(resource="SFU units", latency=13, throughput=1),
        "lds": Unit(resource="shared memory banks", latency=24, throughput=1),
        "lds_2way": Unit(resource="shared memory banks", latency=26, throughput=0.5, slots=2),
        "ldg_streaming": Unit(resource="memory system", latency=368, throughput=BYTE / 128, bytes=128),
        "ldg_stride2": Unit(resource="memory system", latency=376, throughput=BYTE / 256, bytes=256, slots=2),
    },
)
TABLE_3_2 = {"fadd": 100, "rsq": 5, "lds": 10, "lds_2way": 10, "ldg_streaming": 5, "ldg_stride2": 5}


def test_table_3_4():
    sheet = worksheet(TABLE_3_3, TABLE_3_2, 64, pairs=5)
    assert sheet.totals == pytest.approx(
        {"CUDA cores": 25, "SFU units": 5, "shared memory banks": 30, "memory system": 184.6, "issue": 36.25}, abs=0.1
    )
    assert {row.kind: round(row.cycles, 2) for row in sheet.rows if row.resource == "issue"} == {
        "single issue": 31.25,
        "dual issue": 1.25,
        "reissue": 3.75,
    }
    assert sheet.tightest == "memory system"
    assert sheet.throughput_bound == pytest.approx(0.00542, abs=1e-5)
    assert sheet.limit is Limit.MEMORY


def test_few_warps_are_bound_by_latency():
    sheet = worksheet(TABLE_3_3, TABLE_3_2, 1)
    assert sheet.latency == 100 * 6 + 5 * 13 + 10 * 24 + 10 * 26 + 5 * 368 + 5 * 376
    assert (sheet.limit, sheet.throughput) == (Limit.LATENCY, 1 / sheet.latency)
    assert worksheet(TABLE_3_3, TABLE_3_2, sheet.needed * 1.01).limit is Limit.MEMORY


def test_vector_addition_takes_544_cycles():  # VV16 s3.8, figure 3.5
    found = timeline(vector_add(), reissue=KEPLER.reissue, width=2, replacement=201)
    assert found.end == 544
    assert found.pairs == (1, 5, 8, 11)  # the bars of listing 3.5
    assert found.cycles == (0, 0, 3, 12, 21, 21, 30, 33, 33, 334, 343, 343)


@pytest.mark.parametrize(("warps", "gigabytes"), [(1, 6.35), (16, 101.6), (24, 152.4), (25, 154), (64, 154)])
def test_vector_addition_moves_min_of_6_35_n_and_154(warps, gigabytes):  # VV16 s3.8
    units = {
        "core": Unit(resource="cores", latency=9, throughput=6),
        "load": Unit(resource="memory", latency=301, throughput=17.1 / 128, bytes=128),
    }
    machine = replace(KEPLER, units=units)
    end = timeline(vector_add(), reissue=3, width=2, replacement=201).end
    sheet = worksheet(machine, {"core": 9, "load": 3}, warps, latency=end, pairs=4)
    assert sheet.bytes_per_second() / 1e9 == pytest.approx(gigabytes, rel=2e-3)
    assert sheet.totals["issue"] == 8 / 4  # 0.5 warps a cycle of an SM
    assert sheet.bytes_per_second(sheet.latency_bound) / 1e9 == pytest.approx(6.35 * warps, rel=1e-3)
    assert sheet.limit is (Limit.MEMORY if warps > 24 else Limit.LATENCY)


def test_issue_and_pipelines_can_bind():
    assert worksheet(MAXWELL, {"fadd": 4, "rsq": 0}, 64).limit is Limit.PIPELINE
    assert worksheet(MAXWELL, {"fadd": 100, "rsq": 20}, 64).limit is Limit.ISSUE


@pytest.mark.parametrize(
    ("counts", "warps", "more", "text"),
    [
        ({}, 8, {}, "some instructions"),
        ({"fadd": -1}, 8, {}, "fewer than 0"),
        ({"fadd": inf}, 8, {}, "fewer than 0"),
        ({"frobnicate": 1}, 8, {}, "unknown instruction 'frobnicate'"),
        ({"fadd": 1}, 0, {}, "holds 1 to 64 warps, got 0"),
        ({"fadd": 1}, 65, {}, "holds 1 to 64 warps, got 65"),
        ({"fadd": 1}, 8, {"latency": 0}, "latency .* got 0"),
        ({"fadd": 4}, 8, {"pairs": 3}, "at most 2 pairs, got 3"),
    ],
)
def test_what_makes_no_sense(counts, warps, more, text):
    with pytest.raises(ValueError, match=text):
        worksheet(MAXWELL, counts, warps, **more)


def test_dependent_instructions_wait():  # VV16 listing 3.1, Kepler
    program = [
        Issue("LD R1, [R1]", 301, ("R1",), "R1", load=True),
        Issue("LDS R1, [R1]", 24, ("R1",), "R1"),
        Issue("FADD R1, R1, R2", 9, ("R1", "R2"), "R1"),
        Issue("MUFU.RSQ R1, R1", 9, ("R1",), "R1"),
        Issue("ST [R3], R1", 9, ("R3", "R1")),
    ]
    assert timeline(program, reissue=3, width=2).cycles == (0, 301, 325, 334, 343)


def test_independent_instructions_wait_for_the_warp():  # VV16 listing 3.2, Fermi
    adds = [Issue(f"FADD R{i}, R{i}, R{i}", 18, (f"R{i}",), f"R{i}") for i in range(1, 8)]
    assert timeline(adds, reissue=6).cycles == (0, 6, 12, 18, 24, 30, 36)
    stores = [Issue(f"ST [R{i}], R{i}", 34, (f"R{i}",)) for i in range(1, 8)]
    assert timeline(stores, reissue=34).cycles[-1] == 204


def test_a_late_operand_takes_a_pair_apart():
    program = [
        Issue("LD R1, [R2]", 100, ("R2",), "R1", load=True),
        Issue("MOV R3, R4", 9, ("R4",), "R3"),
        Issue("MOV R5, R6", 9, ("R6",), "R5"),
        Issue("FADD R7, R1, R1", 9, ("R1",), "R7"),
    ]
    found = timeline(program, reissue=3, width=2)
    assert found.cycles == (0, 0, 3, 100)
    assert found.pairs == (1,)


@pytest.mark.parametrize("bad", [{"program": [], "width": 1}, {"program": vector_add(), "width": 3}])
def test_a_schedule_needs_a_program(bad):
    with pytest.raises(ValueError, match="needs instructions"):
        timeline(bad["program"], reissue=1, width=bad["width"])
