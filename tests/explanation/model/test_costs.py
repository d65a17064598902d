"""Every opcode that compilers write has a cost on a measured GPU."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gpudissect.errors import UsageError
from gpudissect.explanation.model.asynchronous import MATRIX_OPCODES
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.model.costs import PIPES, REFUSED, SHARED_PIPES, cost_of
from gpudissect.machine_code import units
from gpudissect.machine_code.instructions import Instruction
from gpudissect.results.files import load

RESULT = load(Path("docs/results/h200.json"))
CARD = card_of(RESULT)
TABLE = tomllib.loads(Path(units.__file__).with_name("units.toml").read_text())
OPCODES = sorted(
    {name for row in TABLE.values() for kind in ("documented", "inferred") for name in row.get(kind, "").split()}
)


def instruction(mnemonic, predicate=""):
    opcode, *modifiers = mnemonic.split(".")
    return Instruction(0, opcode, tuple(modifiers), predicate, (), (0, 0), 1, None, None, 0, 0)


def cost(mnemonic, predicate="", card=CARD):
    each = instruction(mnemonic, predicate)
    return cost_of(each, units.use(each, 90), card)


@pytest.mark.parametrize("opcode", sorted(REFUSED))
def test_what_has_no_measured_cost_nor_a_like_one_is_refused(opcode):
    with pytest.raises(UsageError, match=opcode):
        cost(opcode)


@pytest.mark.parametrize("opcode", sorted(set(OPCODES) - REFUSED - MATRIX_OPCODES))
def test_each_opcode_has_a_pipe_and_an_interval(opcode):
    found = cost(opcode)
    assert found.pipe in (*PIPES, *SHARED_PIPES, "tex", "tma")
    assert found.interval > 0
    assert found.is_measured or found.element or found.assumption


@pytest.mark.parametrize(
    ("mnemonic", "pipe", "interval", "measured"),
    [
        ("FFMA", "fma", 1.0, True),
        ("IMAD", "imad", 2.0, True),
        ("IMAD.MOV.U32", "imad", 2.0, False),
        ("IMAD.WIDE", "imad", 4.0, True),
        ("VIADD", "imad", 2.0, False),
        ("IADD3", "alu", 2.0, True),
        ("ISETP.GE.AND", "alu", 2.0, False),
        ("DFMA", "fp64", 2.0, True),
        ("MUFU.RSQ", "xu", 8.0, True),
        ("MUFU.EX2", "xu", 8.0, True),
        ("LDS", "lsu", 1.0, True),
        ("LDG.E", "lsu", 1.0, True),
        ("HMMA.16816.F32", "tensor", 1.5, True),
        ("HMMA.1688.F32.TF32", "tensor", 1.5, True),
        ("DMMA.8x8x4", "tensor", 4.0, True),
        ("REDUX.SUM", "adu", 2.0, True),
    ],
)
def test_costs_are_those_measured_on_an_h200(mnemonic, pipe, interval, measured):
    found = cost(mnemonic)
    assert (found.pipe, found.is_measured) == (pipe, measured)
    assert found.interval == pytest.approx(interval, rel=0.03)


def test_an_instruction_that_never_runs_takes_an_issue_slot():
    assert cost("MUFU.RSQ", "!PT").pipe == "issue"


def test_what_the_model_needs_and_was_not_measured_is_named():
    fewer = RESULT.model_copy(update={"findings": tuple(f for f in RESULT.findings if f.element != "lds")})
    with pytest.raises(UsageError, match=r"lds\.latency, lds\.rate"):
        card_of(fewer)


def test_results_of_two_gpus_are_refused():
    other = RESULT.model_copy(update={"device": RESULT.device.model_copy(update={"name": "other"})})
    with pytest.raises(UsageError, match="different GPUs"):
        card_of(RESULT, other)


def test_an_instruction_without_a_rate_is_an_assumption():
    values = {key: value for key, value in CARD.values.items() if key[0] != "dfma"}
    assert cost("DFMA", card=replace(CARD, values=values)).assumption


def test_a_machine_without_room_for_a_block_is_refused():
    facts = RESULT.device.facts | {"blocks_per_sm": -1}
    machine = RESULT.model_copy(update={"device": RESULT.device.model_copy(update={"facts": facts})})
    with pytest.raises(UsageError, match="blocks_per_sm = -1"):
        card_of(machine)


def test_a_match_takes_as_long_for_each_value_that_lanes_compare():
    each = instruction("MATCH.ANY")
    one, eight, unknown = (cost_of(each, units.use(each, 90), CARD, values).interval for values in (1.0, 8.0, None))
    assert (eight, unknown) == (8 * one, 16 * one)
