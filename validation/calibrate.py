"""Hold confidences against truth: of random simulated GPUs, how often is what was found within its bracket?"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from gpudissect.cachemodel.geometry import (
    Cache,
    Hierarchy,
    Index,
    IndexKind,
    Partition,
    Policy,
    PolicyKind,
    Route,
    Scope,
    Tlb,
)
from gpudissect.cachemodel.index import canonical
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Estimate, Status, Value
from gpudissect.experiments.sets import REACH
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path

KIB, MIB = 1 << 10, 1 << 20
PAGE = 2 * MIB
UNEQUAL = 0.2  # share of caches whose sets differ in ways
IN_PARTS = 0.3  # share of GPUs whose L2 has two parts
TRANSLATED = 0.4  # share of GPUs with a TLB
Truth = dict[tuple[str, str], Value]


@dataclass(frozen=True)
class Answer:
    """One finding of one random GPU, and whether the truth lies in its bracket (None: nothing was found)."""

    seed: int
    found: Estimate
    truth: Value | None
    right: bool | None


def random_cache(draw: random.Random, least: int, most: int, scope: Scope = Scope.SM) -> Cache:
    """A cache of about `least` to `most` bytes: any policy, three kinds of index, sectors, sometimes unequal sets."""
    sector = draw.choice([32, 32, 64, 128])
    line = min(256, sector * draw.choice([1, 1, 2, 4]))
    kind = draw.choice(list(PolicyKind))
    ways = draw.choice([4, 8, 16] if kind is PolicyKind.PLRU else [2, 3, 4, 6, 8, 12, 16, 24])
    sets = max(1, int(draw.uniform(least, most)) // line // ways)
    low, bits = line.bit_length() - 1, sets.bit_length() - 1
    index = Index(IndexKind.MODULO)
    if (shape := draw.choice([IndexKind.BITS, IndexKind.XOR, IndexKind.MODULO, IndexKind.MODULO])) is IndexKind.BITS:
        index = Index(shape, bits=tuple(range(low, low + bits)))
    elif shape is IndexKind.XOR:
        places = range(low, low + bits)
        index = Index(shape, masks=tuple(1 << b | 1 << b + bits | 1 << b + 2 * bits + 1 for b in places))
    if shape is not IndexKind.MODULO:
        sets = 1 << bits
    of_sets = (ways,) * sets
    if kind not in (PolicyKind.PLRU, PolicyKind.WEIGHTED) and draw.random() < UNEQUAL and sets > 1:
        of_sets = tuple(max(1, ways + draw.choice([-1, 0, 0, 1, 2])) for _ in range(sets))
    weights = [draw.randint(1, 6) for _ in range(ways)]
    shares = tuple(weight / sum(weights) for weight in weights) if kind is PolicyKind.WEIGHTED else ()
    return Cache(of_sets, line, sector, index, Policy(kind, shares), scope)


def random_gpu(seed: int) -> tuple[SimulatedGpu, Truth]:
    """A GPU with an L1, a texture cache in copies, an L2 and memory, and what should be found."""
    draw = random.Random(seed)
    l1, l2 = random_cache(draw, 2 * KIB, 96 * KIB), random_cache(draw, 256 * KIB, 3 * MIB, Scope.GPU)
    texture = replace(random_cache(draw, KIB, 48 * KIB), copies=draw.choice([1, 1, 2, 4]))
    near = draw.uniform(25, 90)
    hit = near + draw.uniform(80, 250)
    memory = hit + draw.uniform(120, 400)
    partition = None
    if draw.random() < IN_PARTS:
        home = sum(1 << bit for bit in draw.sample(range(9, 24), 4))
        partition = Partition("l2", home, draw.uniform(0.3, 0.7) * (memory - hit), draw.uniform(0.15, 0.4) * memory)
    tlbs = (Tlb((16,), PAGE, Index(IndexKind.MODULO), Policy(PolicyKind.LRU), 0.0),) * (draw.random() < TRANSLATED)
    routes = {
        Path.GLOBAL: Route(("l1", "l2"), (near, hit), memory, timer=draw.randint(0, 30)),
        Path.GLOBAL_L2: Route(("l2",), (hit,), memory, timer=14),
        Path.TEXTURE: Route(("texture", "l2"), (near + 30, hit + 25), memory + 25, timer=11),
    }
    delayed = draw.choice([0, 0, 0.0005, 0.002, 0.005, 0.01])
    noise = Noise(seed=seed, jitter=draw.choice([0, 0.05, 0.3]), outliers=delayed, drift=draw.choice([0, 0, 0.002]))
    hierarchy = Hierarchy(
        caches={"l1": l1, "texture": texture, "l2": l2}, routes=routes, partition=partition, sm_count=8, tlbs=tlbs,
        tlb_walk_penalty=draw.uniform(10, 80) if tlbs else 0.0,
    )  # fmt: skip
    truth: Truth = {("l1", "miss_penalty"): hit - near, ("texture", "count_per_sm"): texture.copies}
    for name, cache, cycles in (("l1", l1, near), ("texture", texture, near + 30), ("l2", l2, hit)):
        truth |= {(name, "line_size"): cache.line, (name, "fetch_granularity"): cache.sector}
        truth |= {(name, "capacity"): cache.capacity, (name, "hit_latency"): cycles}
        if partition is None or name != "l2":
            truth |= _structure(name, cache)
    if partition is not None:
        truth |= {("l2", "capacity"): 2 * l2.capacity, ("l2", "segment_size"): l2.capacity}
        truth |= {("l2", "far_latency"): hit + partition.far_penalty, ("dram", "near_latency"): memory}
        truth |= {("dram", "far_latency"): memory + partition.far_memory_penalty}
    return SimulatedGpu(hierarchy, spec=f"sim:random-{seed}", name=f"random {seed}", noise=noise), truth


def _structure(name: str, cache: Cache) -> Truth:
    """Sets are numbered at will: unequal ways are compared in order of size."""
    ways: Value = cache.ways[0] if len(set(cache.ways)) == 1 else tuple(sorted(cache.ways))
    index = canonical(_seen(cache.index), cache.line, cache.sets)
    return {(name, "sets"): cache.sets, (name, "ways"): ways, (name, "index_function"): index}


def _seen(index: Index) -> Index:
    """What shows of an index below the bytes that are looked at."""
    return replace(index, masks=tuple(mask % REACH for mask in index.masks))


def answers(seed: int) -> list[Answer]:
    """What a survey of a random GPU finds, for everything whose truth is known, and for parts where there are none."""
    gpu, truth = random_gpu(seed)
    parts = {("l2", "segment_size"), ("l2", "far_latency"), ("dram", "near_latency"), ("dram", "far_latency")}
    out = []
    for found in run_survey(gpu, elements=["l1", "texture", "l2", "dram"], seed=seed).findings:
        name = (found.element, found.attribute)
        if name in truth or name in parts:
            right = _right(found, truth.get(name)) if found.status is Status.FOUND else None
            out.append(Answer(seed, found, truth.get(name), right))
    return out


def _right(found: Estimate, truth: Value | None) -> bool:
    if isinstance(truth, str | tuple):
        return (tuple(sorted(found.value)) if isinstance(found.value, tuple) else found.value) == truth
    if truth is None or not isinstance(found.value, int | float):
        return False
    open_end = found.low is not None and found.high is None
    low = found.value if found.low is None else found.low
    high = found.value if found.high is None else found.high
    return low <= truth and (open_end or truth <= high)


def main() -> None:
    """Draw, survey, and print: what was wrong, how many of each attribute, and the share right by confidence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--gpus", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as pool:
        every = [each for one in pool.map(answers, range(options.first, options.first + options.gpus)) for each in one]
    for each in every:
        if each.right is False:
            it = each.found
            print(f"{each.seed} {it.element} {it.attribute}: {it.value} [{it.low}, {it.high}] at {it.confidence}, "
                  f"truth {each.truth}")  # fmt: skip
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for each in every:
        said = each.found.status.value if each.right is None else "right" if each.right else "wrong"
        kinds.setdefault((each.found.element, each.found.attribute), Counter())[said] += 1
    for (element, attribute), counts in kinds.items():
        print(f"{element:8} {attribute:18} " + ", ".join(f"{count} {said}" for said, count in counts.most_common()))
    print(f"{options.gpus} GPUs from seed {options.first}: confidence, answers, share right")
    for level in sorted({each.found.confidence for each in every if each.found.confidence is not None}):
        own = [each.right for each in every if each.found.confidence == level]
        print(f"{level:.3f}  {len(own):5}  {sum(map(bool, own)) / len(own):.3f}")


if __name__ == "__main__":
    main()
