"""How many loads of one warp are in flight at once (VV16 s3.7, listing 3.2), from the time of independent chains."""

from collections.abc import Mapping
from dataclasses import dataclass

MIN_SHARE = 0.85  # of the chains in flight at once: no limit yet
MAX_SHARE = 0.7  # with less, there is one
MAX_DIFFERENCE = 0.1  # relative, between the loads in flight of the two largest numbers of chains, if there is a limit
MAX_ERROR = 0.05  # relative, of the loads in flight


@dataclass(frozen=True)
class LoadsInFlight:
    """The limit of a warp and its bracket; None with `at_least` and the reason if none was seen."""

    limit: int | None
    low: float
    high: float | None
    reason: str = ""


def in_flight(cycles: Mapping[int, float]) -> dict[int, float]:
    """Mean number of loads in flight by number of chains, from the cycles in which each chain loads once.

    By Little's law: loads per cycle times the latency, that of one chain alone. Raises `ValueError` without a single
    chain, and for times that are not positive.
    """
    if 1 not in cycles or min(cycles.values()) <= 0:
        raise ValueError("loads in flight need the time of one chain, and positive times")
    return {chains: chains * cycles[1] / time for chains, time in cycles.items()}


def loads_in_flight(cycles: Mapping[int, float]) -> LoadsInFlight:
    """The limit from the cycles in which each chain of a warp loads once, by number of chains, of at least three."""
    loads = in_flight(cycles)
    *_, before, most = sorted(loads)
    high = loads[most]
    if high >= MIN_SHARE * most:
        return LoadsInFlight(None, high, None, f"{high:.0f} of {most} loads of a warp are in flight at once: no limit")
    if high > MAX_SHARE * most or abs(high / loads[before] - 1) > MAX_DIFFERENCE:
        reason = f"{loads[before]:.1f} loads are in flight with {before} chains, {high:.1f} with {most}: not yet constant"
        return LoadsInFlight(None, min(high, loads[before]), None, reason)
    limit = max(1, round(high))
    return LoadsInFlight(limit, min(limit, high * (1 - MAX_ERROR)), max(limit, high * (1 + MAX_ERROR)))
