"""A mix on simulated SMs: one is run cycle by cycle, the others do the same with a clock of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.simulated.costs import costs_of
from gpudissect.device.simulated.noise import OUTLIER_MEAN, Noise
from gpudissect.errors import DeviceError, UnsupportedWorkload
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.simulation.sm.description import Processor
from gpudissect.simulation.sm.engine import FEWEST, Job, run_long
from gpudissect.trace import Array
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Mix

MOST_ISSUES = 1 << 15  # instructions simulated one by one, see `run_long`
MOST_SAMPLED = 1 << 21  # the same of mixes of which single loads are timed
MOST_AT_LEAST = 1 << 26  # of any mix, however long its body: some seconds
MOST_IN_ROUNDS = 1 << 25  # of mixes whose blocks are replaced, which are simulated to the end
CLOCKS_APART = 1 << 20  # cycles by which the clocks of two SMs may differ


def run_mix(
    mix: Mix, processor: Processor, hierarchy: Hierarchy, noise: Noise, seed: int, name: str
) -> dict[str, Array]:
    """Run a mix: `begin`, `end`, `sm` and `block` of every warp, `nanoseconds`, and single latencies, see `Mix`.

    `seed` decides all that is random, with the noise's. Raises `DeviceError` for what this GPU cannot run.
    """
    check_mix(mix, processor, name)
    sms = processor.sms if mix.sms is None else mix.sms
    per_block = mix.block_size // WARP_SIZE
    body = costs_of(mix, processor, hierarchy)
    blocks = mix.waves * mix.warps // per_block
    job = Job(body, mix.warps, per_block, mix.iterations, mix.ilp, blocks, mix.sampled)
    seen = run_long(processor, job, MOST_SAMPLED if mix.sampled else MOST_ISSUES, seed)
    draws = np.random.default_rng([seed, noise.seed])
    durations = disturbed(np.tile(seen.end - seen.begin, (sms, 1)).astype(np.float64), noise, draws)
    starts = draws.integers(0, CLOCKS_APART, size=(sms, 1)) + seen.begin
    ends = np.rint(starts + durations).astype(np.int64)
    span = float((ends.max(axis=1) - starts.min(axis=1)).max())
    numbers = np.repeat(np.arange(blocks), per_block)
    arrays = {
        "begin": starts.ravel(),
        "end": ends.ravel(),
        "sm": np.repeat(np.arange(sms), seen.begin.size),
        "block": (numbers * sms + np.arange(sms)[:, None]).ravel(),
        "nanoseconds": np.array([round(span / processor.clock_hz * 1e9)], dtype=np.int64),
    }
    if mix.sampled:
        taken = np.flatnonzero(seen.samples)
        arrays |= {"latency": taken, "count": seen.samples[taken], "overhead": np.zeros(1, dtype=np.int64),
                   "overflow_count": seen.samples[-1:]}  # fmt: skip
    return arrays


def check_mix(mix: Mix, processor: Processor, name: str) -> None:
    """Refuse, with `DeviceError`, what this GPU cannot run."""
    if lacking := [step.instruction for step in mix.body if step.instruction not in processor.operations]:
        raise DeviceError(f"{name} runs no {lacking[0].value!r}: its GPU file does not describe it")
    if mix.sms is not None and mix.sms > processor.sms:
        raise UnsupportedWorkload(f"{name} has {processor.sms} SMs: a mix cannot run on {mix.sms}")
    blocks = mix.warps * WARP_SIZE // mix.block_size
    if mix.warps > processor.warps or blocks > processor.blocks or mix.block_size > processor.block_size:
        raise UnsupportedWorkload(
            f"an SM of {name} holds {processor.warps} warps in {processor.blocks} blocks of at most "
            f"{processor.block_size} threads, not {mix.warps} in {blocks} of "
            f"{mix.block_size}"
        )
    if mix.footprint < (least := mix.min_footprint(processor.sms)):
        raise UnsupportedWorkload(
            f"{format_bytes(mix.footprint)} are too few for every chain to have a place of its own: ask for "
            f"{format_bytes(least)} or more"
        )
    body = mix.warps * mix.ilp * sum(step.count for step in mix.body)
    if (few := 2 * FEWEST * body) > MOST_AT_LEAST and mix.instructions * mix.warps > MOST_AT_LEAST:
        raise UnsupportedWorkload(
            f"{name}: of a mix {2 * FEWEST} iterations are simulated one by one, up to {MOST_AT_LEAST} "
            f"instructions an SM, asked for {few}: shorten the body"
        )
    if mix.waves > 1 and mix.waves * mix.warps * mix.instructions > MOST_IN_ROUNDS:
        raise UnsupportedWorkload(
            f"{name}: mixes in several waves are simulated up to {MOST_IN_ROUNDS} instructions an SM, "
            f"asked for {mix.waves * mix.warps * mix.instructions}"
        )


def disturbed(durations: NDArray[np.float64], noise: Noise, draws: np.random.Generator) -> NDArray[np.float64]:
    """Durations in cycles, with the noise of clocks: one cycle more or less, rare outliers, a drift of each row."""
    step = np.sign(draws.random(durations.shape) - 0.5) * (draws.random(durations.shape) < noise.jitter)
    late = draws.exponential(OUTLIER_MEAN, durations.shape) * (draws.random(durations.shape) < noise.outliers)
    drift = 1 + noise.drift * np.sin(2 * np.pi * draws.random((durations.shape[0], 1)))
    disturbed: NDArray[np.float64] = np.maximum(durations * drift + step + late, 0.0)
    return disturbed
