"""The machine code of straight-line code: whole units, complete, without loads, without dependent instructions."""

from collections import Counter

import pytest

from gpudissect.device.cuda.layout import CODE_BYTES
from gpudissect.workload import Path
from gpudissect.workload.chase import CODE_LINE, CODE_UNIT
from tests.support.machine_code import kernels, kernels_of

ARCHS = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
INSTRUCTION_BYTES = 16
UNIT = CODE_UNIT // INSTRUCTION_BYTES
UNITS = CODE_BYTES // CODE_UNIT
WORK = {"FADD", "SHF"}
every_arch = pytest.mark.parametrize("arch", ARCHS)


def check_body(body, end, units=UNITS):
    """Check whole units; all but the last end with a compare and a branch to `end`."""
    assert len(body) == units * UNIT
    numbers = []
    for number in range(units):
        unit = body[number * UNIT : (number + 1) * UNIT]
        if number == units - 1:
            assert {i.name for i in unit} == WORK
            continue
        *inner, branch = unit
        conditional = branch.predicate or branch.opcode == "BRA.U"  # whose condition is an operand
        assert branch.name == "BRA" and conditional and branch.target == end, (number, branch)
        (compare,) = [i for i in inner if i.name in ("ISETP", "UISETP")]
        numbers.append(compare.operands)
        names = [i.name for i in inner if i is not compare]
        assert names.count("FADD") == names.count("SHF") == 31, number
    assert len(set(numbers)) == units - 1
    assert not any(i.predicate for i in body if i.name in WORK)
    for reader in range(1, 6):  # an instruction reads no result of the five before it
        for one, other in zip(body[1000:2000], body[1000 + reader : 2000 + reader], strict=True):
            if one.name in WORK and other.name in WORK:
                assert one.registers[0] != other.registers[1], f"{one} | {other}"


@every_arch
def test_a_lap_is_code_and_nothing_else(arch):
    code = kernels(Path.CODE, arch)
    assert list(code) == ["chase_lap"]
    lap = code["chase_lap"]
    reads = [at for at, i in enumerate(lap) if i.reads_clock]
    first, last = reads[1:3]  # the read before them is of the start of the block
    assert lap[first].opcode == lap[last].opcode == "CS2R"
    *body, store = lap[first + 1 : last]
    assert store.opcode == "STS"
    check_body(body, last - 1)


@every_arch
def test_the_loop_around_it_is_short(arch):
    """Instructions between two laps take room in the cache, too: at most a unit less a line."""
    lap = kernels(Path.CODE, arch)["chase_lap"]
    first, last = [at for at, i in enumerate(lap) if i.reads_clock][1:3]
    back, begin = next(
        (at, i.target) for at, i in enumerate(lap) if at > last and i.target is not None and i.target <= first
    )
    assert first - begin + back - last + 3 <= UNIT - CODE_LINE // INSTRUCTION_BYTES
    assert not any(i.name in ("LDG", "LDC", "LDS", "LDL", "LD") for i in lap[begin : back + 1])


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_prior_accesses_run_the_same_code(arch):
    code = kernels_of("chase.cu", ("PATH_CONSTANT", "PRIOR", "PRIOR_CODE", "TIMING_COUNT"), arch)
    assert "chase_count" in code and not {"chase_each", "chase_lap"} & set(code)
    longest = max(code.values(), key=len)
    ((end, count),) = Counter(i.target for i in longest if i.target is not None).most_common(1)
    assert count == UNITS - 1
    second = (
        next(at for at, i in enumerate(longest) if i.target == end) + 1
    )  # without a clock, the first unit has no clear start
    check_body(longest[second : second + (UNITS - 1) * UNIT], end, UNITS - 1)
