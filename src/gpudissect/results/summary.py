"""A result in one screen: a row per level, the TLBs, the warps needed, and what is uncertain or different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.results.check import Weight, concerns
from gpudissect.results.folded import folded, folded_published, rounded, rounded_range
from gpudissect.results.model import Finding, Result, Series
from gpudissect.results.scope import share_of_peak, warps_share
from gpudissect.results.text import percent, title_of, words
from gpudissect.results.verdict import Verdict
from gpudissect.vocabulary import HIDING, TLBS

BANDWIDTH_SERIES = "read bandwidth against footprint"
"""Series with the columns footprint (B) and bandwidth (B/s)."""
RATE_SERIES = "rate against warps and chains"
"""Series with the columns warps, chains and rate (operations per cycle)."""
_BANDWIDTH_UNITS = {"footprint": "B", "bandwidth": "B/s"}
SAME_RATE = 0.01  # relative difference of bandwidths, up to which they count as one
CONFIDENT = 0.99  # from which on a confidence is not mentioned
_VIEWS = ("readonly", "texture")  # of the L1's array on most GPUs; rows of their own elsewhere
_LEVELS = {
    "l1": "L1 data cache",
    "readonly": "Read-only cache",
    "texture": "Texture cache",
    "shared": "Shared memory",
    "constant_l1": "Constant L1",
    "constant_l15": "Constant L1.5",
    "icache_l0": "L0 I-cache",
    "icache_l1": "L1 I-cache",
    "icache_l15": "L1.5 I-cache",
    "l2": "L2 cache",
    "dram": "Device memory",
    "host": "Host memory",
}
_SIZES = ("capacity", "line_size", "sets", "ways")
_BANDWIDTHS = ("read_bandwidth", "read_rate")
_SHOWN = (*_SIZES, "replacement_policy", "hit_latency", *_BANDWIDTHS, "entries", "page_size", "reach", "warps_needed")
_WARPS = {
    "ffma": "FFMA",
    "dfma": "DFMA",
    "mma_f16": "mma.sync f16",
    "lds": "shared loads",
    "ldg": "L1 loads",
    "ldg_streaming": "streaming loads",
}
_UNCERTAIN = (Status.AMBIGUOUS, Status.NOT_FOUND)
_DIFFERENT = (Verdict.DIFFERS, Verdict.AS_PRINTED)


@dataclass(frozen=True)
class Level:
    """One level of the memory hierarchy; attributes that were not measured are None.

    `partition_size`: of an L2 in two partitions, the one near an SM, whose lines are fast.
    `latency` of an L2 in two partitions is that of the near one, and `far_latency` that of the other.
    `bandwidths`: footprint in bytes and read bandwidth in B/s, where the bandwidth depends on the footprint.
    """

    element: str
    name: str
    size: Finding | None
    partition_size: Finding | None
    line: Finding | None
    sets: Finding | None
    ways: Finding | None
    latency: Finding | None
    far_latency: Finding | None
    bandwidth: Finding | None
    bandwidths: tuple[tuple[float, float], ...]
    agreement: str
    """``agrees``, ``overlaps`` or what differs from published values; empty without published values."""

    @property
    def bandwidth_ends(self) -> tuple[tuple[float, float], ...]:
        """Of `bandwidths` the fastest and that of the largest footprint; empty if they differ by less than 1 %."""
        if not self.bandwidths:
            return ()
        fastest, largest = max(self.bandwidths, key=lambda each: each[1]), max(self.bandwidths)
        return (fastest, largest) if fastest[1] > (1 + SAME_RATE) * largest[1] else ()


@dataclass(frozen=True)
class Tlb:
    """One level of the TLB: how many pages it maps, and what a miss costs."""

    element: str
    name: str
    sharing: str
    """``24 TLBs, 4 or 6 SMs each``; empty if that is not known, or if all SMs share it."""
    entries: Finding | None
    page_size: Finding | None
    reach: Finding | None
    miss_cache: Finding | None
    miss_penalty: Finding | None


@dataclass(frozen=True)
class Warps:
    """Warps per SM that reach a share of the peak rate of one instruction, with one chain per warp."""

    instruction: str
    name: str
    share: str
    needed: Finding
    with_chains: str
    """``64 with 2 chains`` where one chain per warp is too few: warps that suffice with more; empty if not known."""

    @property
    def text(self) -> str:
        """The number, or ``> 64 (64 with 2 chains)`` where as many warps as fit are too few."""
        return folded(self.needed) + (f" ({self.with_chains})" if self.with_chains else "")


@dataclass(frozen=True)
class Remark:
    """Attributes of one element that are uncertain, or one that differs from what is published, with the reason."""

    element: str
    attributes: tuple[str, ...]
    value: str
    reason: str
    is_difference: bool


@dataclass(frozen=True)
class Summary:
    """What a result says in one screen."""

    levels: tuple[Level, ...]
    tlbs: tuple[Tlb, ...]
    warps: tuple[Warps, ...]
    rates: Mapping[str, str]
    """Rates of the whole GPU as text, by the name of the instruction."""
    latency_by_sm: str
    """Mean hit latency of the L2 by SM, as text, where it was measured."""
    remarks: tuple[Remark, ...]
    reference: str
    """Catalogue entry that published values are of, where it is another GPU model; else empty."""
    skipped: int
    """Number of attributes that were left out by request (``--quick``)."""
    instabilities: tuple[str, ...]
    """Why the result is not stable, as ``gpudissect check`` finds."""
    is_of_card: bool
    """Whether the values are those of one card, not of a simulated GPU."""

    @property
    def warps_needed(self) -> str:
        """``for 95% of peak with one dependent chain per warp: FFMA 16; for 90%: streaming loads > 64``, or empty."""
        texts = (
            f"for {share}: {', '.join(f'{each.name} {each.text}' for each in self.warps if each.share == share)}"
            for share in dict.fromkeys(each.share for each in self.warps)
        )
        return "; ".join(texts).replace("%", "% of peak with one dependent chain per warp", 1)


def summarize(result: Result) -> Summary:
    """The summary of a result; empty parts where nothing was measured."""
    by_element: dict[str, dict[str, Finding]] = {}
    for finding in result.findings:
        by_element.setdefault(finding.element, {})[finding.attribute] = finding
    bandwidths = {each.element: each for each in result.series if each.name == BANDWIDTH_SERIES}
    levels = (
        _level(element, name, by_element[element], bandwidths.get(element))
        for element, name in _LEVELS.items()
        if element in by_element
    )
    by_sm = by_element.get("l2", {}).get("latency_by_sm")
    tlbs = (_tlb(element, by_element[element]) for element in TLBS if element in by_element)
    return Summary(
        levels=tuple(level for level in levels if _is_own_level(level, by_element)),
        tlbs=tuple(tlb for tlb in tlbs if _has_value(tlb.entries) or _has_value(tlb.reach)),
        warps=tuple(_warps(by_element, result.series)),
        rates={name: folded(rate) for name, rate in _rates(by_element)},
        latency_by_sm=_range_of(by_sm),
        remarks=tuple(_remarks(result)),
        reference=_reference(result),
        instabilities=tuple(each.what for each in concerns([result]) if each.weight is Weight.UNSTABLE),
        is_of_card=Origin.MEASURED in (result.device.origin, result.device.recorded_origin),
        skipped=sum(finding.status is Status.SKIPPED for finding in result.findings),
    )


def _level(element: str, name: str, found: dict[str, Finding], bandwidths: Series | None) -> Level:
    near, far = found.get("near_latency"), found.get("far_latency")
    two_partitions = element == "l2" and _has_value(near) and _has_value(far)
    return Level(
        element=element,
        name=name,
        size=found.get("capacity"),
        partition_size=found.get("segment_size") if two_partitions else None,
        line=found.get("line_size"),
        sets=found.get("sets"),
        ways=found.get("ways"),
        latency=near if two_partitions else found.get("hit_latency"),
        far_latency=far if two_partitions else None,
        bandwidth=next((found[name] for name in _BANDWIDTHS if name in found), None),
        bandwidths=tuple(_points(bandwidths)) if bandwidths else (),
        agreement=_agreement(found),
    )


def _points(bandwidths: Series) -> Iterator[tuple[float, float]]:
    """Footprint and bandwidth of each row that has both; none of a series in other units or with other columns."""
    columns = [bandwidths.columns.get(name, ()) for name in _BANDWIDTH_UNITS]
    if all(bandwidths.units.get(name, unit) == unit for name, unit in _BANDWIDTH_UNITS.items()):
        for size, rate in zip(*columns, strict=False):
            if isinstance(size, int | float) and isinstance(rate, int | float):
                yield float(size), float(rate)


def _is_own_level(level: Level, by_element: dict[str, dict[str, Finding]]) -> bool:
    """Whether a level has a value, and is not a view of the L1's array that the L1's row stands for."""
    values = (level.size, level.line, level.latency, level.bandwidth)
    if not any(_has_value(each) or (each is not None and each.low is not None) for each in values):
        return False
    shared = by_element[level.element].get("shared_with")
    shares_l1 = shared is not None and isinstance(shared.value, str) and "l1" in shared.value.split(", ")
    return not (level.element in _VIEWS and shares_l1)


def _tlb(element: str, found: dict[str, Finding]) -> Tlb:
    attributes = ("entries", "page_size", "reach", "miss_cache", "miss_penalty")
    findings = map(found.get, attributes)
    return Tlb(element, title_of(element), _sharing(found.get("tlb_by_sm")), *findings)


def _sharing(by_sm: Finding | None) -> str:
    if by_sm is None or not by_sm.status.has_value or not isinstance(by_sm.value, tuple):
        return ""
    counts = Counter(by_sm.value)
    sizes = " or ".join(map(str, sorted(set(counts.values()))))
    return f"{len(counts)} TLBs, {sizes} SM{'' if sizes == '1' else 's'} each" if len(counts) > 1 else ""


def _warps(by_element: dict[str, dict[str, Finding]], series: Sequence[Series]) -> Iterator[Warps]:
    surfaces = {each.element: each for each in series if each.name == RATE_SERIES}
    for instruction, name in _WARPS.items():
        found = by_element.get(instruction, {})
        needed = found.get("warps_needed")
        if needed is not None and (_has_value(needed) or needed.low is not None):
            too_few = needed.status is Status.NOT_FOUND
            with_chains = _with_chains(found.get("rate"), surfaces.get(instruction)) if too_few else ""
            yield Warps(instruction, name, warps_share(instruction), needed, with_chains)


def _rates(by_element: Mapping[str, Mapping[str, Finding]]) -> Iterator[tuple[str, Finding]]:
    for instruction, name in _WARPS.items():
        rate = by_element.get(instruction, {}).get("gpu_rate")
        if rate is not None and _has_value(rate):
            yield name, rate


def _with_chains(rate: Finding | None, surface: Series | None) -> str:
    """The fewest chains of a warp that reach the share of the rate, and with how many of the measured warps."""
    if rate is None or surface is None or not isinstance(rate.value, int | float):
        return ""
    target = share_of_peak(rate.element) * rate.value
    columns = (surface.columns.get(name, ()) for name in ("chains", "warps", "rate"))
    rows = [tuple(each for each in row if isinstance(each, int | float)) for row in zip(*columns, strict=False)]
    sufficient = [row[:2] for row in rows if len(row) == 3 and row[0] > 1 and row[2] >= target]
    return "{1:g} with {0:g} chains".format(*min(sufficient)) if sufficient else ""


def _agreement(found: dict[str, Finding]) -> str:
    verdicts = {
        name: each.published.verdict
        for name, each in found.items()
        if each.published is not None and each.published.verdict is not Verdict.NOT_COMPARABLE
    }
    different = [words(name) for name, verdict in verdicts.items() if verdict in _DIFFERENT]
    if different:
        return f"{', '.join(different)} {'differs' if len(different) == 1 else 'differ'}"
    if Verdict.OVERLAPS in verdicts.values():
        return "overlaps"
    return "agrees" if verdicts else ""


def _remarks(result: Result) -> Iterator[Remark]:
    """Differences from published values first, then one remark per element that is uncertain."""
    for finding in result.findings:
        if (known := finding.published) is not None and known.verdict in _DIFFERENT:
            caveat = "".join(f"; {text}" for text in finding.caveats[:1])
            reason = f"published {folded_published(known)}, {known.text} ({known.source}){caveat}"
            yield Remark(finding.element, (finding.attribute,), folded(finding), reason, True)
    for element, group in groupby(result.findings, key=lambda finding: finding.element):
        if element in HIDING:
            continue
        findings = [finding for finding in group if finding.attribute in _SHOWN]
        if missing := [each for each in findings if each.status in _UNCERTAIN and each.low is None]:
            attributes = tuple(each.attribute for each in missing)
            yield Remark(element, attributes, missing[0].status.value, missing[0].reason, False)
        for each in findings:
            if each.status is Status.FOUND and (each.confidence or 1) < CONFIDENT and each.attribute in _SIZES:
                yield Remark(element, (each.attribute,), folded(each), f"confidence {percent(each.confidence)}", False)


def _reference(result: Result) -> str:
    device = result.device
    simulated = Origin.SIMULATED in (device.origin, device.recorded_origin)
    named = device.catalogue is not None and (simulated or device.catalogue in device.name.lower().replace(" ", ""))
    return "" if named or not any(each.published for each in result.findings) else device.catalogue or ""


def _range_of(by_sm: Finding | None) -> str:
    """Lowest and highest value of a list by SM; empty without one, and where all are equal in three digits."""
    if by_sm is None or not by_sm.status.has_value or not isinstance(by_sm.value, tuple) or not by_sm.value:
        return ""
    low, high = min(by_sm.value), max(by_sm.value)
    text = rounded_range(low, high, by_sm.unit)
    return "" if text == rounded(high, by_sm.unit) else text


def _has_value(finding: Finding | None) -> bool:
    return finding is not None and finding.status.has_value
