"""Does the L2 fetch ahead of a run of misses, how far, and after how many?

After a flush, a run of equal steps up is followed by probes above it, the farthest first: a probe that misses fetches
nothing that a later one visits. All of a run and its probes lie in one page, and pages are farther apart than the L2 is
large. Whatever one miss fetches by itself is the fetch granularity, and not counted. What seems to be fetched ahead is
confirmed on other pages.
"""

from functools import partial

import numpy as np

from gpudissect.estimate import Series, Status
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import L2, absent, level_of
from gpudissect.measure.infer_confidence import EXACT
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Explicit, Timing

RUNS, REPEATS, CONFIRMATIONS = (*range(1, 9), 16, 32), 3, 2
MIN_STEP, DEFAULT_PAGE = 128, 64 << 10  # bytes
POINTS, ROUNDS = 16, 3  # of the search between the last distance present and the first that is not
ATTRIBUTES = ("prefetch_reach", "prefetch_run")
UNKNOWN = "hits and misses, what one miss fetches, or room for pages far apart are not known"


def prefetch_plan(bench: Bench, known: Known) -> Plan:
    """Bytes that a run of misses fetches ahead, and the shortest run that does."""
    level, tlb, capacity = level_of("l2", known), known[tlb_of("tlb_l1")], known[capacity_of("l2")]
    if level is None:
        return absent("l2", known, *ATTRIBUTES)
    fetch, page = level.fetch.fetch, tlb.page_size if tlb else DEFAULT_PAGE
    spacing = page * -(-2 * max(capacity or 0, (REPEATS + 1) * page) // page)
    step = max(fetch or 0, MIN_STEP)
    farthest = (page - RUNS[-1] * step) // (fetch or 1) * (fetch or 1)
    runs = tuple(run for i, run in enumerate(RUNS) if (i + 3) * spacing <= bench.info.limit(level.path))
    if level.bounds is None or fetch is None or farthest <= fetch or not runs:
        return Outcome(without(Status.NOT_FOUND, "l2", UNKNOWN, *ATTRIBUTES))
    distances = sorted({farthest, *(fetch << i for i in range((farthest // fetch).bit_length()))})
    rows, evidence = yield from _present(level, step, spacing, page, runs, distances)
    columns = {"distance": tuple(distances)} | {f"run of {run}": row for run, row in zip(runs, rows, strict=True)}
    series = (Series("l2", "present above a run of misses", columns, {"distance": "B"}, evidence),)
    first = None
    # What is present may have survived the flush. On other pages, other lines survive the next flush.
    for i in [i for i, row in enumerate(rows) if row[0]]:
        for repeat in range(1, 1 + CONFIRMATIONS):
            first_page = repeat * REPEATS
            ((flags,), more) = yield from _present(level, step, spacing, page, runs[i : i + 1], distances, first_page)
            rows[i] = tuple(map(min, rows[i], flags))
            evidence += more
        if rows[i][0]:
            first = i
            break
    make = partial(found, "l2", confidence=EXACT, method="accesses above a run of cold misses", evidence=evidence)
    if first is None:
        none = without(Status.NOT_FOUND, "l2", "nothing is fetched ahead of a run of misses", "prefetch_run")
        caveats = (f"runs of up to {runs[-1]} misses, {step} B apart, fetch nothing ahead",)
        return Outcome((make("prefetch_reach", 0, 0, 0, caveats=caveats), *none), series=series)
    low, high, between, flags = distances[0], farthest + fetch, distances, rows[first]
    for _ in range(ROUNDS):
        high = min([high, *(each for each, flag in zip(between, flags, strict=True) if not flag)])
        low = max([low, *(each for each, flag in zip(between, flags, strict=True) if flag and each < high)])
        between = sorted({low + (high - low) * i // POINTS // fetch * fetch for i in range(1, POINTS)} - {low})
        if not between or high > farthest:
            break
        ((flags,), _) = yield from _present(level, step, spacing, page, runs[first : first + 1], between)
    top, within = high - fetch if high <= farthest else None, f"followed within one page of {format_bytes(page)}"
    reach = make("prefetch_reach", low, low, top, caveats=(within,))
    return Outcome((reach, make("prefetch_run", runs[first], runs[first], runs[first])), series=series)


def _present(
    level: Level,
    step: int,
    spacing: int,
    page: int,
    runs: tuple[int, ...],
    distances: list[int],
    first_page: int = 0,
) -> Ask[tuple[list[tuple[float, ...]], tuple[str, ...]]]:
    """For each run of misses, which `distances` above its last miss are mostly present (1 or 0); and the evidence.

    Repetitions use the pages from `first_page` on.
    """
    orders = []
    for repeat in range(first_page, first_page + REPEATS):
        misses = [(1 + i) * spacing + repeat * page + step * np.arange(run) for i, run in enumerate(runs)]
        orders.append(np.concatenate([[*each, *(each[-1] + np.array(distances[::-1]))] for each in misses]))
    lengths = np.array(runs) + len(distances)
    picks = tuple(np.concatenate([end - np.arange(len(distances), 0, -1) for end in np.cumsum(lengths)]).tolist())
    make = partial(Chase, path=level.path, timing=Timing.EACH, warmup=0, flush=True, alone=True, picks=picks)
    traces = yield [make(order=Explicit(order)) for order in orders]
    far, bounds = level.far_partition, level.bounds
    hit_max = max(bounds.hit_max if bounds else 0, far.hits.high if far else 0)
    hits = np.mean([trace.cycles <= hit_max for trace in traces], axis=0).reshape(len(runs), -1)[:, ::-1]
    return [tuple(map(float, row > 0.5)) for row in hits], tuple(trace.workload for trace in traces)


EXPERIMENTS = (
    Experiment(Key("prefetch.l2"), prefetch_plan, ATTRIBUTES, needs=(L2, tlb_of("tlb_l1"), capacity_of("l2"))),
)
