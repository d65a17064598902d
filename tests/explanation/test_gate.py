"""Conditions of `--gate`: what holds, and what is refused with a reason."""

import pytest

from gpudissect.errors import UsageError
from gpudissect.explanation.gate import NAMES, parse_gate, text_of
from tests.support.explanations import explanation


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("spills == 0 and warps_for_90 <= 48", True),
        ("spills == 0 and warps_for_90 <= 39", False),
        ("warps_for_90 < 40 or registers < 20", True),
        ("not registers > 16", True),
        ("not (registers > 16 or time < 10us)", True),
        ("registers > 16 or registers < 16 or blocks == 8 and warps == 64", True),
        ("(registers > 16 or registers == 16) and blocks == 7", False),
        ("time == 10us", True),
        ("time <= 0.01 ms", True),
        ("time >= 1.1e4ns", False),
        ("1us < time", True),
        ("time < measured", True),
        ("occupancy >= 100%", True),
        ("occupancy >= 100.1", False),
        ("occupancy >= 50", True),
        ("error <= 4.7", False),
        ("error <= 5", True),
        ("error > 0.5%", True),
        ("error <= 5 %", True),
        ("error <= 4.7 %", False),
        ("roofline >= 90%", True),
        ("shared <= 48KiB", True),
        ("limiter == memory", True),
        ("limiter != memory", False),
        ("latency == limiter", False),
        ("critical_path > 1us", True),
        ("spills==0and registers==16", True),
    ],
)
def test_a_condition(text, holds):
    assert parse_gate(text).evaluate(explanation()).is_true is holds


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("spils == 0", ("spils", "did you mean spills?")),
        ("warps_for_90 <= 48 and tim < 3us", ("tim", "did you mean time?")),
        ("nothing == 0", ("nothing", *NAMES)),
        ("time < 3", ("time", "12us", "3")),
        ("occupancy >= 0.5", ("occupancy", "percent", "50%", "0.5%")),
        ("0.1 > error", ("error", "percent", "10%", "0.1%")),
        ("registers < 3us", ("registers", "a number")),
        ("time < 3 parsec", ("parsec",)),
        ("time < registers", ("time", "registers")),
        ("limiter < memory", ("limiter", "==")),
        ("limiter == 3", ("limiter", "a word")),
        ("registers == few", ("few",)),
        ("spills == 1e999", ("character 11", "a finite number", "'1e999'")),
        ("spills == \u0663", ("character 11", "a name or a number")),
        ("3 < 4", ("a name",)),
        ("spills", ("the end", "==")),
        ("spills ==", ("the end",)),
        ("spills == 0 and", ("the end",)),
        ("spills == 0 registers", ("unit", "registers")),
        ("(spills == 0", ("')'",)),
        ("spills = 0", ("character 8", "'='")),
        ("", ("the end",)),
        ("__import__('os')", ("'('",)),
        ("spills == 0; registers == 1", ("';'",)),
        ("(" * 500 + "spills == 0", ("levels",)),
        ("not " * 200 + "spills == 0", ("levels",)),
        ("spills == 0 and " * 100 + "spills == 0", ("characters",)),
    ],
)
def test_a_wrong_condition_is_refused_in_one_line(text, facts):
    with pytest.raises(UsageError) as error:
        parse_gate(text)
    message = str(error.value)
    assert "\n" not in message and len(message) < 300
    assert all(fact in message for fact in facts), message


def test_a_word_that_is_no_limiter_is_refused():
    with pytest.raises(UsageError, match=r"memry.*did you mean memory"):
        parse_gate("limiter == memry")


@pytest.mark.parametrize(
    ("text", "fields"), [("warps_for_90 < 4", {"warps_for_90": None}), ("occupancy > 1", {"max_warps": None})]
)
def test_an_unknown_value_is_no_answer(text, fields):
    with pytest.raises(UsageError, match=text.partition(" ")[0]):
        parse_gate(text).evaluate(explanation(**fields))


def test_the_values_are_printed_with_units():
    gate = parse_gate("spills == 0 and warps_for_90 <= 48 and time < 1ms and occupancy > 50 and limiter == memory")
    expected = "spills is 0 B, warps_for_90 is 40, time is 10 us, occupancy is 100 %, limiter is memory"
    result = gate.evaluate(explanation())
    assert text_of(result) == f"gate passed: {gate.text} ({expected})"
    assert result.values["time"] == explanation().point.predicted and result.values["limiter"] == "memory"


def test_a_number_beyond_the_largest_float_is_refused():
    with pytest.raises(UsageError, match="finite"):
        parse_gate("time < 1e999us")


def test_a_roofline_that_does_not_apply_is_not_known():
    found = explanation()
    found = found.model_copy(update={"point": found.point.model_copy(update={"roofline": 0.0})})
    with pytest.raises(UsageError, match="roofline of this kernel is not known"):
        parse_gate("roofline >= 0").evaluate(found)
