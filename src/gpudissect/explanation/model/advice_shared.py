"""Changes of accesses to shared memory: loops around atomics that it does not support, and bank conflicts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.listing import address_of, source_of
from gpudissect.explanation.model.assess import walked
from gpudissect.explanation.model.requests import BANK_BYTES, Requests, active, bank_passes
from gpudissect.explanation.model.retries import is_retried, retried_atomics, with_one_attempt
from gpudissect.explanation.model.trial import Trial
from gpudissect.explanation.result import Advice
from gpudissect.units import WARP_SIZE

MIN_ATTEMPTS = 1.5  # of a warp, from which a loop is named
_HOW = "use 32-bit integer atomics, combine the values of a warp first, or give each warp its own words"


def fewer_retries(trial: Trial) -> Iterator[Advice]:
    """Loops of the compiler around shared-memory atomics in which the first attempt succeeds."""
    assessment, program = trial.assessment, trial.program
    attempts = assessment.attempts
    found = {index: name for index, name in retried_atomics(program).items() if attempts.get(index, 0) >= MIN_ATTEMPTS}
    if not found:
        return
    counts = with_one_attempt(program, assessment.counts, attempts)
    path, _ = walked(program, counts, assessment.facts, assessment.card.sms)
    gain = trial.gain_of(replace(assessment, counts=counts, path=path, attempts={}))
    places = defaultdict[str, list[str]](list)
    for index, name in found.items():
        line = trial.lines[index]
        places[name].append(source_of(line) or address_of(line.address))
    loops = " and ".join(f"{name} at {', '.join(dict.fromkeys(each))}" for name, each in places.items())
    text = f"Avoid the retry loop (load, compute, compare and swap) that the compiler makes of the {loops}: {_HOW}"
    most = max(attempts[index] for index in found)
    evidence = f"{most:.3g} attempts per atomic; upper limit: the first one succeeds"
    yield Advice(text=text, gain=gain, is_limit=True, evidence=evidence)


def conflicts_of(trial: Trial, now: Mapping[int, Requests], better: Mapping[int, Requests]) -> tuple[str, bool]:
    """How many wavefronts requests take, how many lanes of a sampled one use one bank at most; whether that differs.

    It differs between sampled requests if their addresses depend on data or on the iteration.
    """
    degrees = np.concatenate([_degrees(trial, index) for index in now] or [np.zeros(0, np.int64)])
    passes, fewest = (float(np.mean([each.passes for each in group.values()])) for group in (now, better))
    means = f"{passes:.3g} wavefronts per request, {fewest:.3g} without conflicts"
    if not degrees.size or degrees.max() < 2:
        return means, False
    if degrees.min() == degrees.max() or round(passes, 2) == degrees.max():
        return f"{degrees.max()}-way conflicts: {means}", False
    return f"up to {degrees.max()}-way conflicts, which vary with the addresses: on average {means}", True


def _degrees(trial: Trial, index: int) -> NDArray[np.int64]:
    """Words of one bank that sampled requests of an instruction access at once, shape (requests,)."""
    access, use = trial.assessment.accessed.get(index), trial.program.uses[index]
    is_merged = use.access != "atomic" or is_retried(trial.program.instructions[index])
    group = WARP_SIZE // max(1, (use.bytes or BANK_BYTES) // BANK_BYTES)
    found = [np.zeros(0, np.int64)]
    for warp in trial.assessment.facts.warps:
        at = warp.trace.accessed == access
        if at.any():
            addresses, on = warp.trace.offsets[at].astype(np.uint64), active(warp.trace.access_lanes[at])
            parts = (slice(first, first + group) for first in range(0, WARP_SIZE, group))
            passes = [bank_passes(addresses[:, n], on[:, n], use.bytes or BANK_BYTES, merged=is_merged) for n in parts]
            found.append(np.max(passes, axis=0))
    return np.concatenate(found)
