"""Sizes of an L2 that has a near and a far part: how much of many lines each part holds at any one time.

The near part is asked by every access, so its size is that of any cache: the share of random lines that hit in it
(`inference.occupancy`), whatever its policy and index. The far part is asked only for far lines that the near one
lacks; what the near one holds of them is counted to both, for what was fetched last lies in both.
"""

from __future__ import annotations

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import THINNED, Blocks, probed
from gpudissect.measure.cache.home_partition import first_touches, touches_of
from gpudissect.measure.cache.infer_level import Level, Parts
from gpudissect.measure.cache.infer_residency import Held, held_in_parts
from gpudissect.measure.infer_confidence import BRACKETED
from gpudissect.measure.plan import Ask, Bench
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Timing
from gpudissect.workload.digest import digest

BEYOND = 3  # lines cycled through, in footprints that the near part does not hold
PROBES = 16384  # at least, from so many rings at most:
MOST_RINGS = 4
METHOD = "share of random lines held at any one time"
ALIKE = "twice the near part; what the far one was seen to hold is within the bracket"


def parts_plan(level: Level, parts: Parts, line: int, bench: Bench) -> Ask[tuple[Estimate, Estimate]]:
    """Capacity of both parts together, and segment size, that of the near one."""
    count = min(BEYOND * parts.overflowed, bench.info.limit(level.path)) // line
    blocks = Blocks(count, line, (0,), count * line)
    rings = [
        probed(blocks, level.fetch.fetch or line, level.path.word, bench.rng("parts", count, turn), most=PROBES)
        for turn in range(min(MOST_RINGS, -(-PROBES * THINNED // count)))
    ]
    near, far_lines, found = [], [], []
    evidence = level.evidence
    for turn, ring in enumerate(rings):
        chase = Chase(path=level.path, order=ring.order, timing=Timing.EACH, picks=ring.picks, warmup=ring.warmup,
                      alone=True)  # fmt: skip
        asked = ring.order.offsets()[list(ring.picks)]
        touching = first_touches(level.path, asked, bench, "parts", turn)
        trace, *touches = yield [chase, *touching]
        evidence = (*evidence, *(digest(each) for each in (chase, *touching)))
        assert level.bounds is not None and level.homes is not None  # without them there would be no parts
        near.append(trace.cycles <= level.bounds.hit_max)
        far_lines.append(level.homes.are_far(touches_of(asked, touches)))
        found.append(trace.cycles < (parts.far.high + level.homes.far) / 2)
    pooled = (np.concatenate(near), np.concatenate(far_lines), np.concatenate(found))
    held = held_in_parts(*pooled, count * line, THINNED)
    return _estimate("capacity", held.both, evidence, (ALIKE,)), _estimate("segment_size", held.near, evidence)


def _estimate(attribute: str, held: Held, evidence: tuple[str, ...], caveats: tuple[str, ...] = ()) -> Estimate:
    grain = 1 << max(int(held.error), 1).bit_length() - 1
    return Estimate(
        element="l2", attribute=attribute, status=Status.FOUND, value=round(held.size / grain) * grain,
        low=int(held.low // grain) * grain, high=int(-(-held.high // grain)) * grain, confidence=BRACKETED,
        method=METHOD, evidence=evidence, caveats=(f"given to {format_bytes(grain)}", *caveats),
    )  # fmt: skip
