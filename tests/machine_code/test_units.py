"""The table of execution units: complete for compiled code, consistent with its control words."""

import re
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gpudissect.machine_code import units
from gpudissect.machine_code.units import use
from tests.machine_code.sources import ARCHITECTURES, INSTRUCTIONS
from tests.support.machine_code import decoded

TABLE = tomllib.loads(Path(units.__file__).with_name("units.toml").read_text())
FIXED_LATENCY = ("alu", "fma", "fp16", "cbu", "issue")
"""Units whose results are waited for by stall counts."""


def compiled(arch):
    return [i for _, instructions in decoded(INSTRUCTIONS, arch).values() for i in instructions]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_compiled_opcode_has_a_unit(arch):
    unknown = {i.opcode for i in compiled(arch) if use(i, int(arch[3:])).unit == "unknown"}
    assert not unknown


def test_an_opcode_that_is_not_in_the_table_is_unknown():
    instruction = replace(compiled("sm_90")[0], opcode="XYZZY")
    assert use(instruction, 90).unit == "unknown"


def test_no_opcode_has_two_units():
    opcodes = [
        opcode for row in TABLE.values() for kind in ("documented", "inferred") for opcode in row.get(kind, "").split()
    ]
    assert [opcode for opcode, count in Counter(opcodes).items() if count > 1] == []
    assert all(re.fullmatch(r"[A-Z0-9_]+", opcode) for opcode in opcodes)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_units_of_fixed_latency_set_no_write_barrier(arch):
    found = {
        i.mnemonic
        for i in compiled(arch)
        if i.write_barrier is not None and use(i, int(arch[3:])).unit in FIXED_LATENCY
    }
    assert not found


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_loads_and_special_functions_set_a_write_barrier(arch):
    kinds = {"xu", "lsu"}
    loads = [
        i for i in compiled(arch) if i.opcode in ("LDG", "LDL", "MUFU", "S2R") and use(i, int(arch[3:])).unit in kinds
    ]
    assert len([i for i in loads if i.write_barrier is None]) <= len(loads) // 20  # dead or covered by the next


def test_accesses_have_space_kind_and_bytes_per_thread():
    found = {
        (i.mnemonic, u.space, u.access, u.bytes) for i in compiled("sm_90") if (u := use(i, 90)).access is not None
    }
    assert {
        ("LDG.E", "global", "load", 4),
        ("LDG.E.64", "global", "load", 8),
        ("LDG.E.128.CONSTANT", "global", "load", 16),
        ("LDG.E.U8", "global", "load", 1),
        ("STG.E.U16", "global", "store", 2),
        ("STS.128", "shared", "store", 16),
        ("LDS.64", "shared", "load", 8),
        ("STL.128", "local", "store", 16),
        ("LDC.64", "constant", "load", 8),
        ("ATOMG.E.ADD.F64.RN.STRONG.GPU", "global", "atomic", 8),
        ("LD.E", "generic", "load", 4),
    } <= found


def test_an_instruction_that_never_runs_takes_an_issue_slot_only():
    load = next(i for i in compiled("sm_90") if i.opcode == "LDS")
    found = use(replace(load, predicate="!PT"), 90)
    assert (found.unit, found.space, found.bytes) == ("issue", None, None)
    assert use(load, 90).unit == "lsu"


@pytest.mark.parametrize(("capability", "unit"), [(75, "fp16"), (80, "fp16"), (86, "fma"), (90, "fma"), (120, "fma")])
def test_fp16_arithmetic_moved_to_the_fma_unit(capability, unit):
    instruction = replace(compiled("sm_90")[0], opcode="HFMA2")
    assert use(instruction, capability).unit == unit
