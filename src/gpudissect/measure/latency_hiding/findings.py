"""Findings of latency hiding from what is known of it, and its series (VV16 ch 4, 6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import BANDWIDTH, RATE, TIMED, UNTRIED, WARPS
from gpudissect.measure.latency_hiding.infer_hiding import NEAR_BEST, Level
from gpudissect.measure.latency_hiding.known import SHARES, Hiding, cusp_of, needed
from gpudissect.measure.latency_hiding.mixes import reachable
from gpudissect.measure.plan import Bench, without
from gpudissect.measure.throughput.rate_estimates import MAX_EXCESS
from gpudissect.series import Series
from gpudissect.units import WARP_SIZE

ARITHMETIC_SHARE = 0.98  # of the peak, for additions alone: they do not saturate gradually
LATENCY_ERROR, RATE_ERROR = 0.01, 0.01  # relative, at least
SAID = 0.0001  # relative: an excess over a bound that is worth a word
PLATEAU = (
    f"plateau: median of the mixes within {NEAR_BEST:.0%} of the fastest, of occupancies that give each scheduler "
    "equally many warps"
)


def _evidence(hiding: Hiding, *alphas: float) -> tuple[str, ...]:
    """Digests of the mixes of some alphas; of all without any."""
    return tuple(dict.fromkeys(point.source for point in hiding.points if point.alpha in (alphas or hiding.alphas)))


def estimates_of(
    hiding: Hiding, bench: Bench, clock: float | None, caveats: tuple[str, ...]
) -> tuple[Estimate, ...]:  # fmt: skip
    """All of them, found or not. `clock`: Hz while mixes ran, None if not seen; `caveats` go with what was found.

    A rate by more than `MAX_EXCESS` above what bounds it was misread: it is not found, nor what is a share of it.
    """
    element = hiding.kind.element

    def found(
        attribute: str, value: float, error: float, confidence: float, method: str, least: float = 0.0
    ) -> Estimate:
        evidence = _evidence(hiding, *(() if attribute == "issue_rate" else (math.inf,)
                                       if attribute.startswith("arithmetic") else (0.0,)))  # fmt: skip
        return Estimate(
            element=element, attribute=attribute, status=Status.FOUND, value=value,
            low=max(least, value * (1 - error)),
            high=value * (1 + error), confidence=confidence, method=method, evidence=evidence, caveats=caveats,
        )  # fmt: skip

    def rate(
        attribute: str, level: Level, what: str, scale: float = WARP_SIZE, confidence: float = RATE
    ) -> Estimate:  # fmt: skip
        """Of a level, in another unit: `scale` of them for one instruction a cycle of one SM."""
        told = found(attribute, level.rate * scale, 0.0, confidence, f"{PLATEAU}: {what}")
        if reason := misread(level):
            return Estimate(element=element, attribute=attribute, status=Status.NOT_FOUND, reason=reason,
                            method=told.method, evidence=told.evidence)  # fmt: skip
        return replace(told, low=level.low * scale, high=level.high * scale, caveats=(*caveats, *_words(level)))

    estimates = [
        found("access_latency", hiding.access_latency, LATENCY_ERROR, TIMED,
              "smallest mean latency of a warp at any occupancy (VV16 table 6.2)"),
        rate("access_rate", hiding.accesses, "accesses alone, with 1, 2 and 4 chains a warp (VV16 s6.3)"),
        found("arithmetic_latency", hiding.arithmetic_latency, LATENCY_ERROR, TIMED,
              "additions alone, smallest mean latency of a warp (VV16 table 6.2)"),
        rate("arithmetic_rate", hiding.arithmetic, "additions alone (VV16 table 6.1)"),
        rate("issue_rate", hiding.issue, "the fastest mixes, one chain a warp: schedulers start at least so many"),
        found("load_imbalance", max(p.imbalance for p in hiding.curve(0.0).values()), RATE_ERROR, UNTRIED,
              "accesses alone: the longest time of an SM over the mean one, worst occupancy (VV16 s5.5)", least=1.0),
    ]  # fmt: skip
    if hiding.kind.of_memory:
        hertz = clock if clock is not None else bench.info.facts.get("clock_hz")
        if isinstance(hertz, int | float):
            scale = hiding.access_bytes * bench.info.sm_count * hertz
            how = "accesses alone, with 1, 2 and 4 chains a warp (VV16 table 6.4)"
            estimates.append(rate("read_bandwidth", hiding.accesses, how, scale, BANDWIDTH))
        estimates.append(found("access_bytes", float(hiding.access_bytes), 0.0, UNTRIED,
                               f"{hiding.width} bytes a lane: with fewer, memory is not filled" if hiding.width > 4
                               else "4 bytes a lane fill the memory"))  # fmt: skip
    estimates += _warps(hiding, bench, caveats)
    estimates += _cusp(hiding, bench, caveats)
    return tuple(estimates)


def misread(*levels: Level) -> str:
    """Why one of these cannot be: more than bounds it, and by more than is cut off. Empty if all can."""
    over = max(levels, key=lambda level: level.over)
    return f"{over.over:.1%} more were measured than {over.bound} can give" if over.over > MAX_EXCESS else ""


def _words(level: Level) -> Iterator[str]:
    """What stands beside a rate: how many reached it, and what was cut off."""
    if level.members == 1:
        yield f"one mix alone is that fast, others by {NEAR_BEST:.0%} or more slower: there may be more to be had"
    if level.over > SAID:
        yield f"{level.over:.2%} more were measured than {level.bound} can give: misread"


def _fewest_left(measured: Iterable[int], warps: int, bench: Bench) -> int:
    """The fewest warps that may do as well as `warps`: an SM can be given them, and fewer that were run fall short."""
    short = max((each for each in measured if each < warps), default=0)
    return min((each for each in reachable(bench.info) if short < each <= warps), default=warps)


def _warps(hiding: Hiding, bench: Bench, caveats: tuple[str, ...]) -> list[Estimate]:
    rows = [("warps_for_90", 0.0, SHARES[0]), ("warps_for_95", 0.0, SHARES[1]),
            ("arithmetic_warps", math.inf, ARITHMETIC_SHARE)]  # fmt: skip
    found: list[Estimate] = []
    for attribute, alpha, share in rows:
        if reason := misread(hiding.issue, hiding.arithmetic if math.isinf(alpha) else hiding.accesses):
            found += without(Status.NOT_FOUND, hiding.kind.element, reason, attribute)
            continue
        curve, peak, evidence = hiding.curve(alpha), hiding.peak(alpha), _evidence(hiding, alpha)
        at, most = needed(hiding, alpha, share), max(curve)
        if at.warps is None:
            got = max(point.rate for point in curve.values()) / peak
            reason = f"up to {most} warps of one chain each reach {got:.0%} of the peak, not {share:.0%}"
            found.append(Estimate(element=hiding.kind.element, attribute=attribute, status=Status.NOT_FOUND, low=most,
                                  reason=reason, evidence=evidence))  # fmt: skip
            continue
        found.append(Estimate(
            element=hiding.kind.element, attribute=attribute, status=Status.FOUND, value=at.warps,
            low=_fewest_left(curve, at.low or at.warps, bench), high=at.high or most, confidence=WARPS,
            method=f"fewest warps of an SM at {share:.0%} of the peak", evidence=evidence, caveats=caveats,
        ))  # fmt: skip
    return found


def _cusp(hiding: Hiding, bench: Bench, caveats: tuple[str, ...]) -> Sequence[Estimate]:
    element, at = hiding.kind.element, cusp_of(hiding)
    if reason := misread(hiding.issue, hiding.arithmetic, hiding.accesses):
        return without(Status.NOT_FOUND, element, reason, "cusp_alpha", "cusp_warps")
    if at is None:
        reason = "warps needed for 90 % of the peak do not rise and then fall with arithmetic intensity"
        return without(Status.NOT_FOUND, element, reason, "cusp_alpha", "cusp_warps")
    evidence = _evidence(hiding, *(alpha for alpha in hiding.alphas if at.low <= alpha <= at.high))
    where = Estimate(
        element=element, attribute="cusp_alpha", status=Status.FOUND, value=at.alpha, low=at.low, high=at.high,
        confidence=UNTRIED, method="additions an access at which 90 % of the peak needs most warps (VV16 s4.5)",
        evidence=evidence, caveats=caveats,
    )  # fmt: skip
    measured = sorted({point.warps for point in hiding.points if at.low <= point.alpha <= at.high and point.ilp == 1})
    if at.warps is None:
        most = measured[-1]
        reason = f"not even {most} warps reach 90 % of the peak there"
        return where, Estimate(element=element, attribute="cusp_warps", status=Status.NOT_FOUND, low=most,
                               reason=reason, evidence=evidence)  # fmt: skip
    return where, Estimate(
        element=element, attribute="cusp_warps", status=Status.FOUND, value=at.warps,
        low=_fewest_left(measured, at.warps, bench), high=at.warps,
        confidence=UNTRIED, method="warps of an SM that it takes there", evidence=evidence, caveats=caveats,
    )  # fmt: skip


def series_of(hiding: Hiding) -> Series:
    """Every point, by alpha, chains, warps and block."""
    ordered = sorted(hiding.points, key=lambda point: (point.alpha, point.ilp, point.warps, point.block))
    return Series(
        element=hiding.kind.element,
        name="throughput against warps and alpha",
        columns={
            "alpha": tuple("inf" if math.isinf(point.alpha) else point.alpha for point in ordered),
            "warps": tuple(float(point.warps) for point in ordered),
            "chains": tuple(float(point.ilp) for point in ordered),
            "block": tuple(float(point.block) for point in ordered),
            "overall": tuple(point.overall for point in ordered),
            "latency": tuple(point.latency for point in ordered),
            "imbalance": tuple(point.imbalance for point in ordered),
            "rate": tuple(point.rate for point in ordered),
        },
        units={"block": "threads", "rate": "instructions/cycle", "overall": "instructions/cycle", "latency": "cycles"},
        evidence=_evidence(hiding),
    )
