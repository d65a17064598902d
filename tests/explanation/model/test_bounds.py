"""What the steps of the simulated SM, and the bounds of throughput, have of requests."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.explanation.model.facts import MAX_CUT_PATH, MAX_PATH, MAX_WHOLE_PATH
from gpudissect.explanation.model.predict import _cycles, _shares_of_blocks, bounds_of, demand_of, sm_of
from gpudissect.explanation.model.sm.engine import Step, Work, run
from gpudissect.explanation.model.steps import steps_of
from tests.explanation.model.sm.test_engine import SM
from tests.explanation.model.test_costs import CARD
from tests.explanation.model.test_predicated_on import LOAD, LOAD_LINE, STORE, STORE_LINE, WARPS, assessment

TWO_LOADS = assessment((LOAD, "", LOAD_LINE), (LOAD, "", LOAD_LINE), loading=WARPS)
COUNTS = st.integers(1, 32)


def cycles_of(*changes):
    """Cycles of each resource for a warp of two loads whose requests have these fields."""
    requests = {place: replace(TWO_LOADS.requests[place], **fields) for place, fields in enumerate(changes)}
    launch, steps = TWO_LOADS.launch, steps_of(TWO_LOADS.program, TWO_LOADS.costs, requests, CARD)
    bounds = bounds_of(demand_of(steps, TWO_LOADS.path.executed, sm_of(CARD, 0.0, 1024)), launch, CARD)
    warps = launch.blocks * launch.warps_per_block / CARD.sms
    return {name: bound * CARD.clock_hz / 1e9 / warps for name, bound in bounds.items()}


@settings(max_examples=50, deadline=None)
@given(*[st.fixed_dictionaries({"tags": COUNTS, "passes": COUNTS})] * 2)
def test_the_bound_of_the_l1_is_the_larger_sum_of_cycles(first, second):
    tags, passes = (first[name] + second[name] for name in ("tags", "passes"))
    assert cycles_of(first, second)["lsu"] == pytest.approx(max(tags, passes), rel=0.03)


@pytest.mark.parametrize(("tags", "passes"), [(4, 1), (1, 4)])
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_pipe_and_memory_are_bound_by_executions_that_make_a_request(tags, passes, share):
    all_requests, some = (
        cycles_of(*[{"tags": tags, "passes": passes, "predicated_on": on}] * 2) for on in (1.0, share)
    )
    for name in ("lsu", "l2", "memory"):
        assert all_requests[name] > 0
        assert some[name] == pytest.approx(share * all_requests[name])


def test_an_execution_without_a_request_takes_an_issue_slot():
    assert cycles_of({"predicated_on": 0.0}, {"predicated_on": 0.0})["issue"] == cycles_of({}, {})["issue"] > 0


def test_steps_have_the_cycles_of_tags_and_the_share_that_makes_requests():
    requests = {0: replace(TWO_LOADS.requests[0], tags=5.0, passes=3.0, predicated_on=0.5)}
    steps = steps_of(TWO_LOADS.program, TWO_LOADS.costs, requests, CARD)
    assert (steps[0].tag_interval, steps[0].predicated_on) == (5, 0.5)
    assert steps[0].shared_interval == pytest.approx(3, rel=0.03)
    assert (steps[1].tag_interval, steps[1].predicated_on) == (0, 1)


@pytest.mark.parametrize(("scope", "least"), [("CTA", 1), ("GPU", 690), ("SYS", 1300)])
def test_a_fence_stalls_a_warp_by_its_scope(scope, least):
    program = TWO_LOADS.program
    fence = replace(program.instructions[0], opcode="MEMBAR", modifiers=("SC", scope))
    changed = replace(program, flow=replace(program.flow, instructions=(fence, *program.instructions[1:])))
    (step, *_) = steps_of(changed, TWO_LOADS.costs, {}, CARD)
    assert least <= step.stall < 1.2 * least + 20


def test_a_store_has_its_sampled_sectors_and_all_that_it_writes():
    """It goes on to the L2, whatever the L1 holds."""
    found = assessment((LOAD, "", LOAD_LINE), (STORE, "", STORE_LINE), loading=WARPS)
    steps = steps_of(found.program, found.costs, found.requests, CARD)
    assert [(each.kind, each.access) for each in steps[:2]] == [("load", 0), ("store", 1)]
    assert (steps[1].in_sm, steps[1].link_bytes) == (0, 128)


@pytest.mark.parametrize(("passes", "demand"), [(1.0, [4.0, 1.0]), (9.0, [0.0, 9.0])])
def test_the_demand_of_special_functions_is_that_of_the_busiest_part_of_the_lsu(passes, demand):
    """They take the issue path, and fit between the passes of loads."""
    load, _ = steps_of(TWO_LOADS.program, TWO_LOADS.costs, TWO_LOADS.requests, CARD)[:2]
    special = replace(load, fits=True, shared_interval=4.0, tag_interval=0.0)
    steps = [special, replace(load, shared_interval=passes)]
    assert demand_of(steps, np.ones(2), sm_of(CARD, 0.0, 1024))["lsu"].tolist() == demand


@pytest.mark.parametrize(
    ("blocks", "recorded", "length"),
    [
        *((64, 1.0, MAX_WHOLE_PATH), (64, 0.5, MAX_CUT_PATH), (64, 0.05, 5000), (64, 0.0, MAX_PATH)),
        *((4800, 0.5, 5500), (640_000, 0.5, MAX_PATH)),
    ],
)
def test_paths_are_long_where_an_sm_has_few_warps(blocks, recorded, length):
    """Warps of 100,000 instructions, two to a block, on 132 SMs; a path ends with the recorded accesses."""
    facts = replace(TWO_LOADS.facts, blocks=blocks, threads=64, recorded=recorded)
    assert facts.max_path(100_000, 132) == pytest.approx(length, rel=0.01)


@pytest.mark.parametrize("simulated", [3, 4, 8])
def test_time_of_unequal_blocks_is_extrapolated_by_their_instructions(simulated):
    """Every fourth block has a tenth of the instructions, as on an SM whose simulated blocks are few."""
    step = Step(1, 0, None, None, "issue", 1.0)
    work = Work((step,), (np.zeros(100, np.int64), np.zeros(1000, np.int64)), 1, 1, simulated, order=(0, 1, 1, 1))
    sm = replace(SM, block_replacement=0.0)
    whole = run(sm, replace(work, blocks=40)).cycles
    assert _cycles(run(sm, work), _shares_of_blocks(work), 40) == pytest.approx(whole, rel=0.03)
