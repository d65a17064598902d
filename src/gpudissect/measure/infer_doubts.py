"""Findings that contradict one another, held-out accesses or the driver, or that other processes may have changed.

At least one of two that contradict each other is wrong, and nothing shows which: a survey lowers the confidence of
both, and ``gpudissect check`` lists them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpudissect.estimate import Estimate, Status, Value
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL
from gpudissect.simulation.cache.geometry import RANDOM_POLICIES
from gpudissect.units import format_bytes
from gpudissect.vocabulary import PATHS, TLBS

MAX_PREDICTION_SHORTFALL = 0.05  # of the agreement below what is possible
MAX_POLICY_SHORTFALL = 0.1  # the same, if the policy is not known and the closest was simulated
MAX_SIZE_RATIO = 1.07  # of sets x ways x line size, or of the L2 size that the driver states, to the capacity
MAX_LATENCY_RATIO = 1.25  # of hit latency + miss penalty to the hit latency of the L2, or the reverse
MIN_REACH = 4 << 20  # bytes of the first TLB, over which first accesses to near and far lines are timed
MIN_REACH_IN_L2_SIZES = 2  # a far partition may be as large as the near one
MIN_TLB_PENALTY = 2.0  # cycles of a miss
SIZES = ("line_size", "capacity", "sets", "ways", "index_function")
OTHERS_USED_IT = "other processes used the GPU: their data may have taken room"
DISTURBED = {"l2": ("capacity", "segment_size", "replacement_policy", "max_miss_rate")} | dict.fromkeys(
    TLBS, ("ways", "replacement_policy", "entries", "page_size", "reach")
)
GEOMETRY = ("fetch_granularity", *SIZES, "entries", "page_size", "reach", "replacement_policy")
BY_GEOMETRY = ("max_miss_rate", "count_per_sm", "shared_with")  # measured over a footprint that the geometry gives

Counts = Mapping[str, int]
Bracketed = tuple[Value | None, float | None, float | None]
"""A value and the ends of its bracket; None where there is none."""


@dataclass(frozen=True)
class Doubt:
    """What does not fit, the findings concerned (``element.attribute``), what to do, and how certain they still are."""

    what: str
    about: tuple[str, ...]
    advice: str = "look at their evidence"
    confidence: float = DOUBTFUL


@dataclass(frozen=True)
class Agreement:
    """Share of random accesses to an element that were predicted, and the share that is possible."""

    element: str
    share: float
    possible: float

    @property
    def falls_short(self) -> bool:
        """Whether less was predicted than is possible."""
        return self.possible - self.share > MAX_PREDICTION_SHORTFALL


def path_agreements(wrong: Counts, misread: Counts, accesses: int, possible: float) -> list[Agreement]:
    """Agreement of each element of a path, from its mispredicted accesses (`wrong`).

    Accesses that random policies leave open, or that are `misread`, are not possible: no model predicts them.
    """
    return [
        Agreement(element, 1 - count / accesses, possible - misread.get(element, 0) / accesses)
        for element, count in wrong.items()
    ]


class _Numbers:
    """Findings by element and attribute, as numbers and intervals."""

    def __init__(self, findings: Mapping[tuple[str, str], Bracketed]) -> None:
        self.findings = findings

    def value(self, element: str, attribute: str) -> float | None:
        """A number, or the sum of a list; None without one."""
        value, _, _ = self.findings.get((element, attribute), (None, None, None))
        return sum(value) if isinstance(value, tuple) else value if isinstance(value, int | float) else None

    def interval(self, element: str, attribute: str) -> tuple[float, float] | None:
        """Ends of the bracket; the value where it has none."""
        value = self.value(element, attribute)
        if value is None:
            return None
        _, low, high = self.findings[element, attribute]
        return value if low is None else low, value if high is None else high

    def product(self, element: str) -> tuple[float, str] | None:
        """Bytes of all lines of all sets, and their factors."""
        sets, ways, line = (self.value(element, name) for name in ("sets", "ways", "line_size"))
        if sets is None or ways is None or line is None:
            return None
        if isinstance(self.findings[element, "ways"][0], tuple):
            return ways * line, f"{ways:g} lines x {format_bytes(line)}"
        return sets * ways * line, f"{sets:g} sets x {ways:g} ways x {format_bytes(line)}"


def contradictions(
    findings: Mapping[tuple[str, str], Bracketed], agreements: Sequence[Agreement], stated_l2: object
) -> Iterator[Doubt]:
    """All contradictions between findings; `stated_l2` is the size of the L2 in bytes that the driver states."""
    numbers = _Numbers(findings)
    predicted = {each.element for each in agreements} - {each.element for each in agreements if each.falls_short}
    for each in agreements:
        if each.falls_short:
            what = f"{each.element}: {each.share:.1%} of random accesses predicted, {each.possible:.1%} possible"
            advice = "sets, index function or policy may be wrong: look at their evidence"
            sets, policy = (numbers.findings.get((each.element, name)) for name in ("sets", "replacement_policy"))
            is_policy_unknown = sets and sets[0] is not None and policy and policy[0] is None
            if not is_policy_unknown or each.possible - each.share > MAX_POLICY_SHORTFALL:
                yield Doubt(what, _names(each.element, *GEOMETRY, *BY_GEOMETRY), advice)
    for element in dict.fromkeys(element for element, _ in findings):
        product, capacity = numbers.product(element), numbers.interval(element, "capacity")
        if not product or not capacity or (element in predicted and product[0] > capacity[1]):
            continue  # the simulated cache, too, has more tags than room for data
        if not capacity[0] <= product[0] * (1 + 1e-9) <= capacity[1] * MAX_SIZE_RATIO:
            what = f"{element}: {product[1]} is not {format_bytes(numbers.value(element, 'capacity') or 0)}"
            yield Doubt(what, _names(element, *SIZES), "part of the array may serve another purpose: see capacity")
    yield from _latencies(numbers)
    yield from _l2_sizes(numbers, stated_l2)
    for first, second in pairwise(TLBS):
        penalty = numbers.interval(second, "miss_penalty")
        if penalty and penalty[0] < MIN_TLB_PENALTY:
            what = f"{second}: a miss costs {penalty[0]:.0f} to {penalty[1]:.0f} cycles more than one of {first}"
            yield Doubt(what, tuple(f"{tlb}.{name}" for tlb in (first, second) for name in (*GEOMETRY, "miss_penalty")))


def _names(element: str, *attributes: str) -> tuple[str, ...]:
    return tuple(f"{element}.{attribute}" for attribute in attributes)


def _latencies(numbers: _Numbers) -> Iterator[Doubt]:
    """Doubts if a farther level is faster, or if hit + penalty of the last private cache is not an L2 hit."""
    ladder = [(each, value) for each in ("l1", "l2", "dram") if (value := numbers.value(each, "hit_latency"))]
    for (near, short), (beyond, long) in pairwise(ladder):
        if short > long:
            what = f"hit latency of {beyond} ({long:g} cycles) is below that of {near} ({short:g}): not a hierarchy"
            about = (f"{near}.hit_latency", f"{beyond}.hit_latency")
            yield Doubt(what, about, "run again with --record and look at the traces")
    l2, far = numbers.interval("l2", "hit_latency"), numbers.interval("l2", "far_latency")
    for name in (caches[-1] for caches in PATHS.values()):
        hit, penalty = numbers.interval(name, "hit_latency"), numbers.interval(name, "miss_penalty")
        if penalty and not l2 and ("l2", "hit_latency") in numbers.findings:
            yield Doubt(f"{name}: misses were timed, but no L2 was found", _names(name, "miss_penalty"))
        if not (l2 and hit and penalty):
            continue
        low, high = hit[0] + penalty[0], hit[1] + penalty[1]
        if low > MAX_LATENCY_RATIO * (far or l2)[1] or high * MAX_LATENCY_RATIO < l2[0]:
            what = f"{name}: a hit and the penalty of a miss take {low:.0f} to {high:.0f} cycles, but a hit of the L2"
            what = f"{what} {l2[0]:.0f} to {l2[1]:.0f}"
            yield Doubt(what, _names(name, "miss_penalty", *SIZES, "replacement_policy"))


def _l2_sizes(numbers: _Numbers, stated: object) -> Iterator[Doubt]:
    """Doubts about the L2 from the driver, the reach of the first TLB, and memory latencies of two partitions."""
    size, reach = numbers.interval("l2", "capacity"), numbers.value("tlb_l1", "reach")
    near, far = numbers.value("dram", "near_latency"), numbers.value("dram", "far_latency")
    if reach and near and reach < MIN_REACH:
        what = f"dram: near and far lines were timed, but tlb_l1 reaches no further than {format_bytes(reach)}"
        yield Doubt(what, ("dram.near_latency", "dram.far_latency"), "they may include TLB misses")
    if size is None:
        return
    if isinstance(stated, int) and not size[0] <= stated * MAX_SIZE_RATIO <= size[1] * MAX_SIZE_RATIO**2:
        what = f"l2: capacity of {format_bytes(size[0])} to {format_bytes(size[1])}, but the driver states "
        yield Doubt(what + format_bytes(stated), _names("l2", *SIZES, "segment_size"))
    if reach and reach < MIN_REACH_IN_L2_SIZES * size[1]:
        what = f"l2: capacity of {format_bytes(size[1])}, but tlb_l1 reaches no further than {format_bytes(reach)}"
        yield Doubt(what, _names("l2", *SIZES, "segment_size"), "misses of the TLB look like those of the L2")
    if near and far and not numbers.value("l2", "segment_size") and size[1] < 2 * size[0]:
        what = f"l2: memory is near ({near:.0f} cycles) or far ({far:.0f}), but no far partition was found"
        yield Doubt(what, (*_names("l2", *SIZES, "replacement_policy", "miss_penalty"), "dram.hit_latency"))


def ambiguities(findings: Mapping[tuple[str, str], Estimate]) -> Iterator[Doubt]:
    """Doubts about what depends on something ambiguous: sets, policies, line sizes, the window of the page table."""
    ambiguous = [name for name, each in findings.items() if each.status is Status.AMBIGUOUS]
    for element, attribute in ambiguous:
        if attribute == "sets":  # perhaps because both halves of a line are in one set
            what = f"{element}: lines conflict, but not as those of one set"
            yield Doubt(what, _names(element, "line_size", "fetch_granularity", "capacity"))
        sets = findings.get((element, "sets"))
        if attribute == "replacement_policy" and element not in TLBS and sets and sets.value == 1:
            what = f"{element}: lines conflict like those of one set, but no known policy explains which ones miss"
            yield Doubt(what, _names(element, "sets", "ways", "index_function"))  # perhaps their data lack room
        if attribute == "window":
            what = f"{element}: the window is ambiguous, and accesses to consecutive pages may change it"
            yield Doubt(what, tuple(f"{tlb}.miss_penalty" for tlb in TLBS))
    if ("l2", "line_size") in ambiguous and (each := findings.get(("l2", "segment_size"))) and each.status.has_value:
        what = "l2: partitions were measured with a line size that is ambiguous"
        yield Doubt(what, _names("l2", "capacity", "segment_size"))


def disturbances(findings: Mapping[tuple[str, str], Estimate]) -> Iterator[Doubt]:
    """What other processes may have changed: their lines take room.

    If the sets are unknown, the room left may be mistaken for the capacity. With random replacement, some victims
    are their lines, which biases the weights of the ways.
    """
    disturbed = {name: each for name, each in findings.items() if name[1] in DISTURBED.get(name[0], ())}
    for (element, attribute), each in disturbed.items():
        sets, confidence = findings.get((element, "sets")), BRACKETED
        are_sets_unclear = sets is not None and sets.status is Status.AMBIGUOUS
        is_partitioned = (segment := findings.get((element, "segment_size"))) is not None and segment.status.has_value
        if attribute == "replacement_policy":
            confidence = DOUBTFUL if str(each.value).startswith(RANDOM_POLICIES) else CONFLICTED
        elif (
            attribute in ("segment_size", "max_miss_rate")
            or (attribute == "capacity" and (are_sets_unclear or is_partitioned))
            or (element in TLBS and each.confidence == CONFLICTED)
        ):
            confidence = DOUBTFUL
        yield Doubt(OTHERS_USED_IT, _names(element, attribute), confidence=confidence)
