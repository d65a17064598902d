"""How sure a method is of its answer, as a probability, where the data themselves do not tell.

Where they do (line size: a likelihood ratio; fetch granularity: a share of votes) their own number is given, never
above `EXACT`. The others are these, set by hand and held against random simulated GPUs by `validation/calibrate.py`:
how often answers of each were right stands in docs/calibration.md. So far they are rather too low than too high.
`BANDWIDTH`, `RATE` and `BANKS` were held against the catalogue's GPUs only: random ones have no processor yet.
"""

EXACT = 0.99
"""A size to the byte: every lap over more of it misses, none over less of it does; and the occupancy agrees."""

LATENCY = 0.95
"""A latency within its bracket."""

BANDWIDTH = 0.9
"""A bandwidth within its bracket; another configuration might have moved more. Held against nothing yet."""

BRACKETED = 0.9
"""A size that is only bracketed or not cross-checked, or a line that could not be made to miss."""

CONFLICTED = 0.5
"""A size at which conflicts begin, while more lines are held at any one time than fit into it; or maybe of a part."""

BANKS = 0.95
"""A layout of banks that explains every stride, and no other does."""

RATE = 0.9
"""The rate of an instruction within its bracket."""

WARPS = 0.9
"""How many warps reach a share of a rate, within its bracket."""
