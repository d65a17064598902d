"""Line samples: the interpreter records the sectors that its own trace has; the instrumented PTX assembles."""

import re
from itertools import pairwise

import numpy as np
import pytest

from gpudissect.errors import PtxError
from gpudissect.explanation.line_sample import MAX_SHIFT, is_sampled, line_sampled
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.user_code import assemble
from tests.explanation.sources import COPIES, KERNELS, NAMES
from tests.explanation.test_instrument import launch
from tests.explanation.test_ptx import HEAD
from tests.machine_code.sources import INSTRUCTIONS
from tests.support.ptx import ptx_of
from tests.support.ptx_interpreter import SHARED_WINDOW, SMS

SAMPLINGS = ({"shift": 0, "line_bytes": 32}, {"shift": 1, "line_bytes": 32}, {"shift": 2, "line_bytes": 128})
LOADS = {
    "ld.global.u32": True,
    "ld.global.nc.L1::evict_last.u32": True,
    "ld.relaxed.cta.global.u32": True,
    "ld.global.cg.u32": False,
    "ld.volatile.global.u32": False,
    "ld.acquire.gpu.global.u32": False,
    "ld.global.L1::no_allocate.u32": False,
}


def sample(name, **options):
    """A sampled kernel, its run in the interpreter, and the requests that it recorded."""
    sampled = line_sampled(parse_ptx(ptx_of(KERNELS)), name, **{"capacity": 1 << 14, **options})
    run = launch(sampled.ptx, name)
    return sampled, run, sampled.read({array.rpartition("_")[2]: run.memory[array] for array in sampled.arrays})


def expected_requests(sampled, run):
    """(instruction, SM, sector) of each event of a run in the order of execution: each sector of a warp once."""
    recorded = {access.instruction for access in sampled.accesses}
    events = {warp: iter(found) for warp, found in run.events.items()}
    for warp in run.order:
        number, _, addresses = next(events[warp])
        sectors = dict.fromkeys(address // 32 * 32 for address in addresses if address < SHARED_WINDOW)
        if number in recorded:
            yield from ((number, warp[0] % SMS, sector) for sector in sectors)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", SAMPLINGS, ids=str)
def test_records_are_the_sampled_sectors_in_order_and_results_are_the_same(name, options):
    reference = launch(ptx_of(KERNELS), name)
    sampled, run, requests = sample(name, **options)
    assert (run.memory[0], run.memory[1]) == (reference.memory[0], reference.memory[1])
    assert requests.overflow_count == 0
    numbers = [sampled.accesses[index].instruction for index in requests.access]
    found = list(zip(numbers, requests.sm.tolist(), requests.address.tolist(), strict=True))
    expected = list(expected_requests(sampled, reference))
    chosen = is_sampled(np.array([sector for *_, sector in expected], np.uint64), **options)
    assert found == [request for request, is_chosen in zip(expected, chosen, strict=True) if is_chosen]


def test_requests_beyond_the_capacity_are_counted_and_the_first_are_kept():
    _, _, all_requests = sample("grid_loop", shift=0)
    _, _, requests = sample("grid_loop", shift=0, capacity=5)
    assert requests.overflow_count == len(all_requests.address) - 5 > 0
    assert requests.address.tolist() == all_requests.address[:5].tolist()


@pytest.mark.parametrize("stride", [1, 3, 64, 4096, 1 << 20])
def test_lines_of_a_regular_array_are_sampled_evenly(stride):
    lines = np.arange(1 << 17, dtype=np.uint64) * np.uint64(128 * stride) + np.uint64(0x7F0000000000)
    for shift in (0, 3, 6):
        mean = len(lines) / 2**shift
        assert abs(is_sampled(lines, shift=shift, line_bytes=128).sum() - mean) <= 4 * mean**0.5 * (shift > 0)


def test_all_sectors_of_a_line_are_sampled_and_samples_are_nested():
    addresses = np.arange(0, 1 << 20, 32, dtype=np.uint64)
    found = [is_sampled(addresses, shift=shift, line_bytes=128) for shift in range(MAX_SHIFT + 1)]
    for wider, chosen in pairwise(found):
        assert not (chosen & ~wider).any()
        assert (chosen.reshape(-1, 4) == chosen[::4, None]).all()


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_sampled_ptx_assembles(architecture):
    for source, names in ((INSTRUCTIONS, ("memory", "calls")), (KERNELS, ("generic", "vectors", "assembly"))):
        for name in names:
            text = line_sampled(parse_ptx(ptx_of(source)), name, shift=5, capacity=1 << 16).ptx
            assert name in {kernel.name for kernel in assemble(text, architecture).kernels}


@pytest.mark.parametrize(("opcode", "expected"), LOADS.items())
def test_loads_that_are_coherent_or_not_kept_do_not_use_the_l1(opcode, expected):
    body = f".entry k() {{ .reg .b64 %d<3>; .reg .b32 %r<3>; {opcode} %r1, [%d1]; st.global.u32 [%d1], %r1; ret; }}"
    assert line_sampled(parse_ptx(HEAD + body), "k", shift=0, capacity=1).uses_l1 == (expected, False)


def test_an_asynchronous_copy_is_a_load_of_global_memory_past_the_l1():
    sampled = line_sampled(parse_ptx(ptx_of(COPIES, "compute_80")), "copies", shift=0, capacity=64)
    access = sampled.accesses[0]
    assert (access.space, access.kind, access.size, sampled.uses_l1[0]) == ("global", "load", 16, False)


@pytest.mark.parametrize(
    "options",
    [
        {"shift": -1},
        {"shift": MAX_SHIFT + 1},
        {"capacity": 0},
        {"capacity": 1 << 40},
        {"line_bytes": 16},
        {"line_bytes": 96},
    ],
    ids=str,
)
def test_sizes_out_of_range_are_refused(options):
    with pytest.raises(PtxError):
        line_sampled(parse_ptx(ptx_of(KERNELS)), "nest", **{"shift": 4, "capacity": 64, **options})


def test_targets_without_the_match_instruction_are_refused():
    text = re.sub(r"sm_\d+", "sm_61", ptx_of(KERNELS))
    with pytest.raises(PtxError, match="sm_70"):
        line_sampled(parse_ptx(text), "nest", shift=4, capacity=64)
