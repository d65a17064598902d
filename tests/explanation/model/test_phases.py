"""Barriers in shared memory: which operations the sampled warps make, and when the simulated warps go on."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.explanation.model.phases import Events, events_of, kind_of, no_events
from gpudissect.explanation.model.sample import empty_sample
from gpudissect.explanation.model.sm.engine import Work, released_note, run
from gpudissect.explanation.packing import Trace
from tests.explanation.model.sm.test_engine import SM, step
from tests.explanation.model.test_asynchronous import instruction

WAKING, LATENCY = 20, 281  # cycles: to a warp that waits; of the L2
COPY = {"kind": "bulk", "l2_bytes": 1024.0, "link_bytes": 1024.0, "size": 1024.0, "in_l2": 1.0}


def trace(accessed, lanes, numbers):
    """Accesses by one warp; `numbers`: the address of each, in all lanes."""
    offsets = np.repeat(np.array(numbers)[:, None], 32, axis=1)
    nothing = np.zeros(0, dtype=np.uint32)
    allocations = np.full(offsets.shape, -2, dtype=np.int16)
    return Trace(nothing, nothing, np.array(accessed), np.array(lanes, dtype=np.uint32), allocations, offsets)


def work(rows, paths, fields=None):
    """A block of one warp for each path; `rows`: of each warp and operation, (barrier, arrivals, value) each."""
    kinds = ("prepare", "arrive", "bulk", "wait")
    steps = tuple(
        step(pipe="issue", operation=number, **({"kind": kind} | (COPY if kind == "bulk" else {})))
        for number, kind in enumerate(kinds)
    )
    flat = [each for warp in rows for operation in warp for each in operation]
    ends = np.cumsum([len(operation) for warp in rows for operation in warp]).reshape(len(rows), len(kinds))
    begins = ends - np.array([[len(operation) for operation in warp] for warp in rows])
    columns = np.array(flat, dtype=np.int64).reshape(-1, 3).T.copy()
    events = Events(begins, ends, *columns, barriers=2)
    sample = replace(
        empty_sample(), events=events, begins=np.zeros((len(rows), 0), int), ends=np.zeros((len(rows), 0), int)
    )
    arrays = tuple(np.array(path, dtype=np.int64) for path in paths)
    return Work(steps, arrays, len(rows), 1, 1, sample, tuple(range(len(rows))))


def test_operations_have_the_barrier_and_the_number_of_the_trace():
    """Accesses 0 and 1 are an arrival of two lanes with 512 bytes each, 2 and 3 a wait, which polls twice."""
    program = (
        replace(instruction("SYNCS.ARRIVE.TRANS64 RZ, [UR4], R2"), line=7),
        replace(instruction("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3"), line=9),
    )
    warp = trace([0, 1, 2, 3, 2, 3, 2, 3], [3, 3, *[1] * 6], [64, 512, 64, 0, 64, 0, 72, 1])
    found = events_of(program, [(7, "barrier"), (7, "value"), (9, "barrier"), (9, "value")], [warp])
    rows = list(zip(found.barrier.tolist(), found.arrivals.tolist(), found.value.tolist(), strict=True))
    assert rows == [(0, 2, 1024), (0, 0, 0), (1, 0, 1)]
    assert (found.operations, found.barriers) == ({0: 0, 1: 1}, 2)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("UBLKCP.S.G [UR4], [UR6], UR8", "bulk"),
        ("UBLKCP.G.S [UR4], [UR6], UR8", None),
        ("SYNCS.EXCH.64 URZ", "prepare"),
    ],
)
def test_only_copies_to_shared_memory_belong_to_a_barrier(text, kind):
    assert kind_of(instruction(text)) == kind


def test_a_warp_waits_until_a_bulk_copy_has_arrived():
    """Warp 0 prepares, expects 1024 bytes and copies them; warp 1 waits for the first phase."""
    rows = ([[(0, 0, 1)], [(0, 1, 1024)], [(0, 0, 1024)], []], [[], [], [], [(0, 0, 0)]])
    cycles = run(SM, work(rows, ([0, 1, 2], [3, 3]))).cycles
    assert cycles == pytest.approx(LATENCY + 1024 / 35 + WAKING, abs=30)


def test_the_phase_before_the_first_is_complete():
    rows = ([[(0, 0, 1)], [], [], [(0, 0, 1)]],)
    found = run(SM, work(rows, ([0, 3],)))
    assert found.cycles < 2 * WAKING and not released_note(found)


def test_a_phase_takes_all_arrivals():
    """Two arrivals of three: warp 2 waits for the arrival of warp 1, which comes 400 cycles later."""
    rows = ([[(0, 0, 2)], [(0, 1, 0)], [], []], [[], [(0, 1, 0)], [], []], [[], [], [], [(0, 0, 0)]])
    job = work(rows, ([0, 1], [4, 1], [3, 3]))
    late = replace(job, steps=(*job.steps, step(pipe="issue", stall=400)))
    assert run(SM, late).cycles == pytest.approx(400 + 85 + WAKING, abs=10)


def test_warps_go_on_without_an_arrival_that_no_path_has():
    rows = ([[(0, 0, 1)], [], [], [(0, 0, 0)]], [[], [], [], [(0, 0, 0)]])
    found = run(SM, work(rows, ([0, 3, 3], [3, 3])))
    assert found.released > 0 and found.cycles < 10 * WAKING
    assert f"waits of {found.released} simulated warps" in released_note(found)[0]


def test_without_operations_there_are_no_events():
    assert events_of((instruction("EXIT"),), [], []).barriers == no_events().barriers == 0
