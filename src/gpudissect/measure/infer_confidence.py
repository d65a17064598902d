"""Confidence of methods whose data give no probability of their own.

If the data give a probability (line size: a likelihood ratio), it is reported, at most `EXACT`. The constants below
are shares of correct answers on random simulated GPUs (`validation/calibrate.py`, seeds 2000000 to 2000999, 2100000
to 2100532, 2200000 to 2200545, 2300000 to 2300999, 2400000 to 2400410, 2500000 to 2500999 and 2600000 to 2600999;
docs/calibration.md has the code, and a test on 2900000 to 2900999). They apply to a real GPU as far as it resembles
these; the share of its accesses that is predicted indicates how far (`prediction`). Those of throughput are compared
with random SMs by `validation/calibrate_throughput.py`, seeds 3000 to 3089.
"""

EXACT = 0.9999  # a size to the byte: all larger footprints, no smaller one, miss in every lap; residency agrees
LATENCY = 0.9999  # a latency within its bracket
BRACKETED = 0.9995  # a size only bracketed, or a line that could not be made to miss: 21935 of 21944 right
CONFLICTED = 0.99
"""A size if more lines are resident, of one partition, of lines of unknown size, or of a TLB that may hold more;
a policy that is random in a TLB, or not random and disturbed by other processes. 1232 of 1236 right.
"""
UNTRIED = 0.9  # not modelled by random GPUs (code, partitions by SM), or in few of them (XOR TLBs): set by hand
DOUBTFUL = 0.92  # by its own evidence, by a failed prediction or by another finding: 572 of 619 of the last 2000 GPUs
TIMED = 0.95  # a time that random GPUs do not model: instructions, conflicts, launches, clusters, spectra
BANKS = 0.95  # a bank layout that alone explains every stride: 180 of 180
RATE = 0.95  # the rate of an instruction within its bracket: 443 of 443
SCHEDULERS = 0.95  # schedulers of an SM by two instructions that agree: 90 of 90, and 31 of 31 of unusual SMs
WARPS = 0.95  # warps that reach a share of a rate, within its bracket: 331 of 333
BANDWIDTH = 0.9
"""A bandwidth within its bracket: 801 of 802. Not higher, for on a real GPU an untried configuration may be faster:
blocks, threads, accesses in flight and their width are searched, the order of addresses is not."""
