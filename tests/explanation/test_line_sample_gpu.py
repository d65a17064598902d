"""On a real GPU: sampled kernels compute what they did, and record the sectors that the interpreter requests."""

from collections import Counter

import numpy as np
import pytest

from gpudissect.explanation.line_sample import is_sampled, line_sampled
from gpudissect.explanation.ptx import parse_ptx
from tests.explanation.sources import KERNELS, NAMES
from tests.explanation.test_instrument_gpu import ARGUMENTS, CONVERGED, architecture, interpreted, run  # noqa: F401
from tests.support.ptx import ptx_of
from tests.support.ptx_interpreter import ARGUMENT_BYTES, SHARED_WINDOW

pytestmark = pytest.mark.gpu
SAMPLINGS = ({"shift": 0, "line_bytes": 32}, {"shift": 2, "line_bytes": 32})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", SAMPLINGS, ids=str)
def test_sampled_sectors_are_those_of_the_interpreter_and_results_are_the_same(name, options, architecture):  # noqa: F811
    reference = interpreted(name)
    sampled = line_sampled(parse_ptx(ptx_of(KERNELS)), name, capacity=1 << 16, **options)
    memory, places = run(sampled.ptx, name, architecture, sampled.arrays)
    assert (memory[0], memory[1]) == (reference.memory[0], reference.memory[1])
    requests = sampled.read({array.rpartition("_")[2]: memory[array] for array in sampled.arrays})
    assert requests.overflow_count == 0
    numbers = [sampled.accesses[index].instruction for index in requests.access]
    found = Counter(zip(numbers, requests.address.tolist(), strict=True))
    expected = expected_sectors({access.instruction for access in sampled.accesses}, reference, places)
    chosen = is_sampled(np.array([sector for _, sector in expected], np.uint64), **options)
    expected = {key: count for (key, count), is_chosen in zip(expected.items(), chosen, strict=True) if is_chosen}
    assert set(found) == set(expected)
    assert found == expected or name not in CONVERGED


def expected_sectors(recorded, reference, places):
    """How often each instruction of the interpreter requests each sector, at the addresses of the GPU."""
    expected = Counter()
    for events in reference.events.values():
        for number, _, addresses in events:
            if number in recorded:
                sectors = {place_of(address, places) // 32 * 32 for address in addresses if address < SHARED_WINDOW}
                expected.update((number, sector) for sector in sectors)
    return expected


def place_of(address, places):
    """The address on the GPU of an argument's byte."""
    index, offset = divmod(address, ARGUMENT_BYTES)
    assert offset < ARGUMENTS[index - 1].nbytes
    return places[index - 1] + offset
