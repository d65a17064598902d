"""How many loads of one warp are in flight at once (VV16 s3.7, listing 3.2), from the time of independent chains."""

from collections.abc import Mapping
from dataclasses import dataclass

MAX_SHARE = 0.7  # of the most chains in flight at once, if there is a limit
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
    highest = max(loads.values())
    is_constant = abs(loads[most] / loads[before] - 1) <= MAX_DIFFERENCE
    if highest > MAX_SHARE * most or not is_constant:
        reason = f"up to {highest:.1f} loads of a warp are in flight at once, with {most} chains: no limit up to there"
        return LoadsInFlight(None, highest, None, reason)
    limit = max(1, round(loads[most]))
    return LoadsInFlight(limit, min(limit, loads[most] * (1 - MAX_ERROR)), max(limit, loads[most] * (1 + MAX_ERROR)))
