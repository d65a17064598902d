"""Schedulers of every simulated GPU with a processor, of random ones, and of two real cards."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpudissect.catalogue import load, names
from gpudissect.device.recording.device import RecordedGpu
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.infer_confidence import SCHEDULERS, UNTRIED
from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.instructions.instructions import in_warps
from gpudissect.measure.instructions.plan_rate import FIRST_REPETITION
from gpudissect.measure.instructions.plan_schedulers import INSTRUCTIONS
from gpudissect.simulation.sm.description import Operation, Pipe, Scheduling
from gpudissect.workload import Instruction as Op
from tests.support.driving import estimates, learned

OPERATIONS = {
    Op.FADD: Operation(Pipe.CORE, 1.0, 4),
    Op.I2F: Operation(Pipe.CONVERT, 2.0, 8),
    Op.RSQ: Operation(Pipe.SPECIAL, 8.0, 20),
}
PIPES = frozenset(operation.pipe for operation in OPERATIONS.values())
RECORDINGS = Path(__file__).parents[2] / "recordings"


def found(noise=None, facts=None, **changes):
    described = load("gtx980")
    processor = replace(described.processor(), **({"operations": OPERATIONS} | changes))
    facts = described.facts() if facts is None else facts
    gpu = SimulatedGpu(
        described.hierarchy(), spec="sim:x", name="x", facts=facts, noise=noise or Noise.none(), processor=processor
    )
    return estimates(gpu, ["schedulers.issue"])["issue", "schedulers"]


@pytest.mark.parametrize("name", names())
def test_schedulers_of_every_gpu_of_the_catalogue(name):
    described = load(name)
    processor = described.processor()
    gpu = SimulatedGpu(
        described.hierarchy(), spec=f"sim:{name}", name=name, facts=described.facts(), processor=processor
    )
    estimate = estimates(gpu, ["schedulers.issue"])["issue", "schedulers"]
    if processor is None:
        assert estimate.status is Status.NOT_SUPPORTED
    elif processor.schedulers == 1:  # Tesla: indistinguishable from units that all schedulers share
        assert (estimate.status, estimate.low) == (Status.AMBIGUOUS, 1)
    else:
        assert estimate.value == estimate.low == estimate.high == processor.schedulers


@pytest.mark.parametrize("schedulers", [2, 3, 4, 6])
def test_any_number_of_schedulers_in_noise(schedulers):
    estimate = found(Noise(seed=3, jitter=0.3, outliers=0.002, drift=0.002), schedulers=schedulers)
    assert (estimate.value, estimate.confidence) == (schedulers, SCHEDULERS)
    assert any("other findings use that" in caveat for caveat in estimate.caveats) == (schedulers != 4)


@pytest.mark.parametrize(
    "changes",
    [{"issue_interval": 2}, {"issue_width": 2, "reissue": 3}, {"reissue": 6}, {"reissue": 6, "schedulers": 2}],
)
def test_whatever_keeps_a_scheduler_busy(changes):
    assert found(**changes).value == changes.get("schedulers", 4)


def test_one_unit_of_its_own_suffices_at_a_lower_confidence():
    estimate = found(single=frozenset({Pipe.MEMORY, Pipe.BARRIER, Pipe.CORE, Pipe.SPECIAL}))
    assert (estimate.value, estimate.confidence) == (4, UNTRIED) and "by i2f;" in estimate.caveats[0]


def test_schedulers_that_share_all_units_are_not_counted():
    estimate = found(single=frozenset({Pipe.MEMORY, Pipe.BARRIER, *PIPES}))
    assert (estimate.status, estimate.value, estimate.low) == (Status.AMBIGUOUS, None, 1)


def test_schedulers_that_prefer_old_warps_are_not_counted():
    """With a pause of three cycles after each instruction, rounds have three warps of each of four schedulers."""
    fast = {name: Operation(operation.pipe, 1.0, 4) for name, operation in OPERATIONS.items()}
    estimate = found(operations=fast, reissue=3, schedulers=2, scheduling=Scheduling.OLDEST)
    assert estimate.status is Status.NOT_FOUND and "rounds of 6 warps, but" in estimate.reason
    assert found(operations=fast, reissue=3, schedulers=2).value == 2


def test_without_instructions_there_is_a_reason():
    assert found(operations={}).status is Status.NOT_SUPPORTED
    assert found(operations={Op.FADD: OPERATIONS[Op.FADD]}).confidence == UNTRIED
    assert set(OPERATIONS) == set(INSTRUCTIONS)


@pytest.mark.parametrize("name", ["h200", "h100"])
def test_warps_of_real_cards_run_in_rounds_of_four(name):
    """The recordings are older than this experiment, but have 8 to 12 warps of one chain of rsq.

    The recording is opened again, because each trace is returned once.
    """
    with RecordedGpu.open(RECORDINGS / name) as gpu:
        pattern = learned(gpu, ["rate.rsq"])[1]["rate.rsq"].pattern
        mixes = [
            replace(in_warps(pattern, warps, 1, gpu.info), repetition=FIRST_REPETITION if warps % 4 else 0)
            for warps in (8, 9, 10, 11, 12)
        ]
    with RecordedGpu.open(RECORDINGS / name) as gpu:
        spans = [float(np.median(SmTotals.of(trace).spans)) for trace in gpu.run(mixes)]
    assert spans[1:] == pytest.approx([spans[-1]] * 4, rel=0.005)
    assert spans[1] / spans[0] == pytest.approx(1.41, abs=0.01)
