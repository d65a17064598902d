"""How sure a method is of its answer, as a probability, where the data themselves do not tell.

Where they do (line size: a likelihood ratio) their own number is given, never above `EXACT`. The others are these: how
often answers of each kind were right on random simulated GPUs, seeds 120000 to 120419, 140000 to 140499, 150000 to
150325, 160000 to 160309 and 170000 to 170499 of `validation/calibrate.py`. Whether that holds for GPUs that were not
counted is on docs/calibration.md. Of a real GPU they say as much as it is built like one of these; that its accesses
are foretold (`prediction`) tells whether it is. Those of throughput are held against random simulated SMs by
`validation/calibrate_throughput.py`; the counts below are of its seeds 3000 to 3089.
"""

EXACT = 0.9998
"""A size to the byte: every lap over more of it misses, none over less of it does; and the occupancy agrees."""

LATENCY = 0.999
"""A latency within its bracket."""

BANDWIDTH = 0.9
"""A bandwidth within its bracket: 801 of 802. Not more, for on a real GPU what nobody tried may do better: blocks,
threads, accesses in flight and their width are searched, not the order in which memory is gone through."""

BRACKETED = 0.995
"""A size that is only bracketed or not cross-checked, or a line that could not be made to miss."""

CONFLICTED = 0.9
"""A size at which conflicts begin, while more lines are held at any one time than fit into it; or maybe of a part."""

UNTRIED = 0.9
"""What random GPUs do not have (code, parts by SM) or was not held against them: set by hand."""

DOUBTFUL = 0.5
"""The same, where something speaks against it."""

TIMED = 0.95
"""A time within its bracket, of what random GPUs have not: instructions, conflicts, launches, clusters, spectra."""

BANKS = 0.95
"""A layout of banks that explains every stride, and no other does: 180 of 180."""

RATE = 0.95
"""The rate of an instruction within its bracket: 443 of 443."""

WARPS = 0.95
"""How many warps reach a share of a rate, within its bracket: 331 of 333."""
