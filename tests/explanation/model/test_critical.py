"""The longest chain of dependences of kernels whose chain is known."""

import numpy as np
import pytest

from gpudissect.explanation.model.critical import cycles_per_iteration, latencies, longest_chain
from gpudissect.explanation.model.walk import walk
from tests.explanation.sources import NAMES
from tests.explanation.test_mapping import UNDETERMINED, mapped

LOAD, OTHER = 600.0, 20.0


def parts(name):
    _, _, program, counts = mapped(name, "sm_90")
    awaited = [LOAD if use.space == "global" else OTHER for use in program.uses]
    return program, walk(program, counts, 8, 100_000), latencies(program, awaited)


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNDETERMINED))
def test_each_link_of_the_chain_begins_when_the_one_before_is_done(name):
    program, path, cycles = parts(name)
    chain = longest_chain(program, path.instructions, cycles)
    ends = [begin + cycles[index] for index, begin in zip(chain.instructions, chain.begins, strict=True)]
    assert chain.begins[0] == 0
    assert list(chain.begins[1:]) == pytest.approx(ends[:-1])
    assert chain.cycles == pytest.approx(ends[-1])


def test_two_dependent_loads_are_on_the_chain():
    program, path, cycles = parts("divergent")
    chain = longest_chain(program, path.instructions, cycles)
    assert [program.instructions[index].opcode for index in chain.instructions].count("LDG") == 2
    assert 2 * LOAD < chain.cycles < 2 * LOAD + 200


@pytest.mark.parametrize(("name", "turn"), [("collatz", 16.0), ("unrolled", 16.0)])
def test_a_turn_of_a_loop_adds_its_recurrence(name, turn):
    program, path, cycles = parts(name)
    assert cycles_per_iteration(program, path.instructions, cycles) == {0: pytest.approx(turn)}


def test_an_empty_path_has_no_chain():
    program, _, cycles = parts("vectors")
    assert longest_chain(program, np.zeros(0, dtype=np.int64), cycles).cycles == 0
