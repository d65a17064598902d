"""Confidence of methods whose data give no probability of their own.

Where they do (line size: a likelihood ratio) that number is reported, never above `EXACT`. The others are these: the
share of correct answers of each kind on random simulated GPUs of `validation/calibrate.py`; counts are of seeds 2000000
to 2000999. docs/calibration.md checks them on others. They hold for a real GPU as far as it resembles these; how far,
the share of its accesses that are predicted shows (`prediction`). Those of throughput are compared with random SMs by
`validation/calibrate_throughput.py`, seeds 3000 to 3089.
"""

from gpudissect.estimate import Value
from gpudissect.simulation.cache.geometry import RANDOM_POLICIES
from gpudissect.vocabulary import TLBS

EXACT = 0.9998  # a size to the byte: all larger footprints miss in every lap, no smaller one; the residency agrees
LATENCY = 0.9998  # a latency within its bracket
BRACKETED = 0.999  # a size only bracketed, or a line that could not be made to miss: 4061 of 4061
CONFLICTED = 0.99
"""A size where conflicts begin with more lines resident, of one partition, of a cache of unknown line size, or of a TLB
that may hold more; a random policy of a TLB, and any other that other processes disturb: 225 of 225.
"""
CONTRADICTED = 0.94  # by another finding, a prediction or the driver: 55 of 55 right, of unusual GPUs 166 of 184
UNTRIED = 0.9  # what random GPUs do not model (code, partitions by SM) or was not calibrated on them: set by hand
DOUBTFUL = 0.7  # what some evidence of its own contradicts: 79 of 106
TIMED = 0.95  # a time that random GPUs do not model: instructions, conflicts, launches, clusters, spectra
BANKS = 0.95  # a bank layout that alone explains every stride: 180 of 180
RATE = 0.95  # the rate of an instruction within its bracket: 443 of 443
SCHEDULERS = 0.95  # schedulers of an SM by two instructions that agree: 90 of 90, and 31 of 31 of unusual SMs
WARPS = 0.95  # warps that reach a share of a rate, within its bracket: 331 of 333
BANDWIDTH = 0.9
"""A bandwidth within its bracket: 801 of 802. Not higher, for on a real GPU an untried configuration may be faster:
blocks, threads, accesses in flight and their width are searched, the order of addresses is not."""

_DISTURBED = {"l2": ("capacity", "segment_size", "replacement_policy")} | dict.fromkeys(
    TLBS, ("ways", "replacement_policy", "entries", "page_size", "reach")
)


def disturbed_limit(element: str, attribute: str, value: Value | None, has_ambiguous_sets: bool) -> float | None:
    """Highest confidence of a finding where other processes use the GPU; None if they do not change it.

    Their lines take room. Where sets are not known, what is left may be taken for all. Ways that are replaced at random
    seem to be replaced in other shares, for some victims are theirs.
    """
    if attribute not in _DISTURBED.get(element, ()):
        return None
    if attribute == "replacement_policy":
        return DOUBTFUL if str(value).startswith(RANDOM_POLICIES) else CONFLICTED
    return DOUBTFUL if attribute == "capacity" and has_ambiguous_sets else BRACKETED
