"""Changes of how a kernel accesses memory: fewer passes and sectors, nearer caches, fewer atomics, no local memory."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.listing import source_of
from gpudissect.explanation.model.advice_occupancy import local_footprint
from gpudissect.explanation.model.advice_shared import conflicts_of
from gpudissect.explanation.model.requests import LINE, SECTOR, Requests, active
from gpudissect.explanation.model.traffic import SampledWarp
from gpudissect.explanation.model.trial import GLOBAL, Trial
from gpudissect.explanation.result import Advice
from gpudissect.explanation.rows import Ints, distinct_rows
from gpudissect.explanation.sentences import RESOURCES
from gpudissect.machine_code.units import Use
from gpudissect.units import format_bytes, format_bytes_rounded

MIN_PASSES = 1.5  # relative to the fewest, from which an access is named
MIN_REUSE = 1.5  # bytes that are loaded relative to those that are needed, from which loads are named
ATOMICS = ("atomic", "reduction")
MIN_PER_WORD = 4.0  # atomics of a word by each block that fits on the GPU at once, from which they can be combined
MAX_STRIDES = 4  # different ones between neighbouring lanes of a request whose addresses do not depend on data
MAX_WORDS_BYTES = 48 << 10  # shared memory of a block without an attribute (CUDA C++ Programming Guide)


def fewer_passes(trial: Trial) -> Iterator[Advice]:
    """Accesses without bank conflicts, and coalesced ones: all of one kind together."""
    uses, groups = trial.program.uses, defaultdict[tuple[bool, str], dict[int, Requests]](dict)
    combined = _combined(trial)
    for index, requests in trial.found.requests.items():
        use = uses[index]
        if use.space in ("constant", "local"):
            continue
        fewest = max(1.0, requests.lanes * (use.bytes or 4) / LINE)
        has_more = requests.passes >= MIN_PASSES * fewest
        if use.space != "shared":
            has_more = requests.sectors >= MIN_PASSES * _fewest_sectors(trial, index)
        if has_more and trial.executed[index] and index not in combined and not _is_contiguous(trial, index):
            in_shared, access = use.space == "shared", use.access or ""
            if in_shared and access not in ATOMICS:
                access = "load"  # one layout avoids the conflicts of loads and stores
            groups[in_shared, access][index] = _coalesced(requests, use, fewest)
    for (in_shared, access), found in groups.items():
        better = {index: found[index] for index in sorted(found, key=lambda index: -_excess(trial, index))}
        now = {index: trial.found.requests[index] for index in better}  # means too, not single sampled requests
        before, after = (trial.predict({**trial.assessment.requests, **each}) for each in (now, better))
        if in_shared:
            text = f"Avoid bank conflicts of {trial.places(better)}"
            evidence, is_limit = conflicts_of(trial, now, better)
        else:
            executed = [float(trial.executed[index]) for index in now]
            sectors = np.average([each.sectors for each in now.values()], weights=executed)
            fewest = np.average([_fewest_sectors(trial, index) for index in now], weights=executed)
            text = _coalescing(trial, now, access)
            evidence, is_limit = f"{sectors:.3g} sectors per request, {fewest:.3g} if coalesced", True
            if stride := _stride(trial, next(iter(now))):
                evidence = f"lanes are {format_bytes(stride)} apart; {evidence}"
        gain = trial.gain_from(before.nanoseconds, after)
        yield Advice(text=text, gain=gain, is_limit=is_limit, evidence=evidence)


def _coalescing(trial: Trial, requests: Mapping[int, Requests], access: str) -> str:
    """How to coalesce accesses: by sorting if their addresses depend on the data, otherwise by another layout."""
    places, index = _uncoalesced(trial, requests, access), next(iter(requests))
    if not _is_scattered(trial, index):
        text = (
            "let neighbouring threads access neighbouring elements (change the layout, or give a warp a compact tile)"
        )
        return f"Coalesce {places}: {text}"
    if access == "store":
        text = "write the data to shared memory first, then store neighbouring elements with neighbouring threads"
        return f"Coalesce {places}: {text}, or sort the data"
    if access not in ATOMICS:
        return f"Coalesce {places}: sort the data, so that neighbouring threads access neighbouring elements"
    size = _span(trial.assessment.facts.warps, trial.assessment.accessed[index], trial.program.uses[index].bytes or 4)
    text = f"Sort {trial.atomics_at(requests)} by address, so that a warp updates neighbouring words"
    most = trial.card.shared_bytes - trial.card.reserved_shared
    if size is None:
        return text
    if size > most:
        return f"{text} ({format_bytes_rounded(size)} of words do not fit in shared memory)"
    return f"{text}, or accumulate in shared memory: {format_bytes_rounded(size)} of words, {format_bytes(most)} fit"


def _strides(trial: Trial, index: int) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Strides in bytes between neighbouring active lanes in sampled requests of an instruction.

    Returns the number of active lanes of each request, shape (requests,), and for each pair of neighbouring lanes the
    index of its request and its stride, both of shape (pairs,).
    """
    access = trial.assessment.accessed[index]
    traces = [(warp.trace, warp.trace.accessed == access) for warp in trial.assessment.facts.warps]
    is_active = np.concatenate([active(trace.access_lanes[at]) for trace, at in traces])
    offsets = np.concatenate([trace.offsets[at] for trace, at in traces])
    request, lane = np.nonzero(is_active)
    pairs = np.flatnonzero(request[1:] == request[:-1])
    return is_active.sum(axis=1), request[pairs], np.diff(offsets[request, lane])[pairs] / np.diff(lane)[pairs]


def _is_scattered(trial: Trial, index: int) -> bool:
    """Whether most requests of an instruction have no constant stride between neighbouring lanes."""
    lanes, request, strides = _strides(trial, index)
    first, _ = distinct_rows(request, np.unique(strides, return_inverse=True)[1])
    different = np.bincount(request[first], minlength=lanes.size)
    irregular = different > np.maximum(1, np.minimum(MAX_STRIDES, lanes // 2))
    return bool(irregular.size) and bool(irregular.mean() > 0.5)


def _stride(trial: Trial, index: int) -> int | None:
    """The stride in bytes between neighbouring lanes that all requests of an instruction have; None if they differ."""
    strides = np.unique(_strides(trial, index)[2])
    stride = abs(float(strides[0])) if strides.size == 1 else 0.0
    return int(stride) if stride.is_integer() and stride else None


def _is_contiguous(trial: Trial, index: int) -> bool:
    """Whether neighbouring lanes access neighbouring elements already, with gaps where lanes are inactive."""
    return index in trial.assessment.accessed and _stride(trial, index) == trial.program.uses[index].bytes


def _uncoalesced(trial: Trial, requests: Mapping[int, Requests], access: str) -> str:
    """Accesses of one kind, that with most work first: their common source line, or the first and how many more."""
    sources = {source_of(trial.lines[index]) for index in requests}
    if len(requests) == 1 or len(sources) > 1 or "" in sources:
        return trial.places(requests)
    return f"the {len(requests)} {access or 'accesse'}s at {sources.pop()}"


def reuse_in_block(trial: Trial) -> Iterator[Advice]:
    """Loads that miss the L1 only for what their block has not loaded before."""
    now, better, loaded, saved = dict[int, Requests](), dict[int, Requests](), [0.0, 0.0], dict[int, float]()
    for index, each in trial.found.requests.items():
        use = trial.program.uses[index]
        if use.space not in GLOBAL or use.access != "load" or not each.sectors or not trial.executed[index]:
            continue
        access = trial.assessment.accessed[index]
        missed = (1 - each.in_sm) * each.l2_bytes / (SECTOR * each.sectors)
        first = trial.new_shares.get(access, missed)
        if missed and missed >= MIN_REUSE * first:
            in_sm = 1 - (1 - each.in_sm) * first / missed
            now[index], better[index] = each, replace(each, in_sm=in_sm, in_l2=max(each.in_l2, in_sm))
            saved[index] = trial.executed[index] * each.sectors * (missed - first)
            for place, share in enumerate((missed, first)):
                loaded[place] += trial.warps * trial.executed[index] * each.sectors * SECTOR * share
    if not now or trial.found.limiter not in ("latency", "l2", "memory"):
        return
    before, after = (trial.predict({**trial.assessment.requests, **each}) for each in (now, better))
    most = dict.fromkeys(sorted(saved, key=lambda index: -saved[index]))
    text = f"Keep data of {trial.places(most)} in shared memory or registers: each block loads the same data again"
    bytes_now, bytes_first = map(format_bytes_rounded, loaded)
    evidence = f"{bytes_now} from the L2, of which {bytes_first} are first loads; upper limit: only first loads"
    yield Advice(text=text, gain=trial.gain_from(before.nanoseconds, after), is_limit=True, evidence=evidence)


def combined_atomics(trial: Trial) -> Iterator[Advice]:
    """Atomics on few words, moved to shared memory."""
    chosen = _combined(trial)
    if not chosen:
        return
    now = {index: trial.found.requests[index] for index in chosen}
    blocks = _blocks_at_once(trial)
    kept = {index: blocks / per_word for index, per_word in chosen.items()}  # share of the atomics
    local = {
        index: replace(
            each,
            operations=kept[index] * each.operations,
            l2_bytes=kept[index] * each.l2_bytes,
            dram_bytes=kept[index] * each.dram_bytes,
        )
        for index, each in now.items()
    }
    text = f"Combine {trial.atomics_at(chosen)} in shared memory first, then one atomic per block and word"
    evidence = f"{max(chosen.values()):,.0f} atomics per word are serialized, {blocks:,} would be "
    evidence += f"with a grid-stride loop in {blocks:,} blocks; upper limit: combining is free"
    gain = trial.gain(trial.predict({**trial.assessment.requests, **local}).nanoseconds)
    yield Advice(text=text, gain=gain, is_limit=True, evidence=evidence)


STACK = ("[R1]", "[R1+")
"""Addresses at constant places of the stack: of spilled registers, and of arrays with constant indices."""


def no_local_memory(trial: Trial) -> Iterator[Advice]:
    """No local-memory accesses: neither spills nor arrays with variable indices."""
    uses, stack = trial.program.uses, trial.program.kernel.stack_bytes
    spills = {index: use for index, use in enumerate(uses) if use.space == "local" and trial.executed[index]}
    if not stack or not spills:
        return
    if trial.found.limiter in ("l2", "memory"):
        work, resource = [line.limiting for line in trial.lines], RESOURCES[trial.found.limiter]
    else:
        work = [line.executed * line.issue_cycles if line.unit == "lsu" else 0.0 for line in trial.lines]
        resource = RESOURCES["lsu"]
    share = sum(work[index] for index in spills) / (sum(work) or 1.0)
    spills = {index: spills[index] for index in sorted(spills, key=lambda index: -work[index])}
    operands = [trial.program.instructions[index].operands for index in spills]
    if any(not any(each.startswith(STACK) for each in some) for some in operands):
        how = "index arrays with constants (unroll their loops), shrink or pack them"
        if stack * trial.assessment.facts.threads <= trial.card.shared_bytes - trial.card.reserved_shared:
            how += ", or put them in shared memory"
    else:
        how = "keep fewer values live, or raise the limit of registers (__launch_bounds__, -maxrregcount)"
    text = f"Avoid local memory ({format_bytes(stack)} per thread; {trial.places(spills)}): {how}"
    count = sum(float(trial.executed[index]) for index in spills)
    evidence = f"{count:.0f} accesses per warp, {share:.0%} of the work of the {resource}"
    more = (*local_footprint(trial), *_local_hits(trial, spills), "upper limit: no local memory")
    evidence = "; ".join((evidence, *more))
    yield Advice(text=text, gain=trial.gain_of(trial.without(spills)), is_limit=True, evidence=evidence)


def _local_hits(trial: Trial, spills: Iterable[int]) -> list[str]:
    """Hit rates of loads from local memory; empty without loads, or without their addresses."""
    rates = trial.hit_rates(trial.found.requests, set(spills)) if trial.assessment.facts.warps else None
    if rates is None:
        return []
    in_sm, in_l2 = rates
    return [f"its loads: L1 {in_sm:.0%}, L2 {in_l2 - in_sm:.0%}, device memory {1 - in_l2:.0%}"]


def _combined(trial: Trial) -> dict[int, float]:
    """Atomics whose words fit into the shared memory of a block, with how many there are of each word."""
    found, warps = {}, trial.launch.blocks * trial.launch.warps_per_block
    for index, access in trial.assessment.accessed.items():
        use = trial.program.uses[index]
        if use.access not in ATOMICS or use.space not in GLOBAL:
            continue
        size = _span(trial.assessment.facts.warps, access, use.bytes or 4)
        if size is not None and size <= MAX_WORDS_BYTES:
            lanes = warps * float(trial.executed[index]) * trial.found.requests[index].lanes
            per_word = lanes / max(1.0, size / (use.bytes or 4))
            if per_word >= MIN_PER_WORD * _blocks_at_once(trial):
                found[index] = per_word
    return found


def _blocks_at_once(trial: Trial) -> int:
    """Blocks that the GPU runs at once."""
    return min(trial.launch.blocks, trial.resident * trial.card.sms)


def _span(warps: Sequence[SampledWarp], access: int, size: int) -> int | None:
    """Bytes from the first to the last word of `size` bytes that sampled warps access; None if in several arrays."""
    arrays, low, high = set[int](), [], []
    for warp in warps:
        at = np.flatnonzero(warp.trace.accessed == access)
        is_active = active(warp.trace.access_lanes[at])
        arrays |= set(warp.trace.allocations[at][is_active].tolist())
        offsets = warp.trace.offsets[at][is_active]
        if offsets.size:
            low.append(int(offsets.min()))
            high.append(int(offsets.max()))
    return max(high) - min(low) + size if len(arrays) == 1 else None


def _fewest_sectors(trial: Trial, index: int) -> float:
    """Sectors of a request whose lanes access neighbouring elements."""
    return max(1.0, trial.found.requests[index].lanes * (trial.program.uses[index].bytes or 4) / SECTOR)


def _excess(trial: Trial, index: int) -> float:
    """Sectors, or passes of shared memory, that an access takes more than needed, for a warp."""
    requests, use = trial.found.requests[index], trial.program.uses[index]
    more = requests.passes - 1 if use.space == "shared" else requests.sectors - _fewest_sectors(trial, index)
    return float(trial.executed[index]) * more


def _coalesced(requests: Requests, use: Use, fewest: float) -> Requests:
    moved, lines, operations = requests.l2_bytes, requests.lines, requests.operations
    if use.space != "shared":
        moved, lines = min(moved, max(float(SECTOR), requests.lanes * (use.bytes or 4))), fewest
        operations = min(operations, moved / SECTOR)
    changed = replace(requests, passes=fewest, tags=min(requests.tags, lines), l2_bytes=moved, lines=lines)
    changed = replace(changed, scattered=0.0, operations=operations)
    return replace(changed, dram_bytes=min(moved, requests.dram_bytes), covered=1.0)
