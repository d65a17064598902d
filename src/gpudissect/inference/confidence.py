"""How sure a method is of its answer, as a probability, where the data themselves do not tell.

Where they do (line size: a likelihood ratio; fetch granularity: a share of votes) their own number is given, never
above `EXACT`. The others are these. They hold the shares of right answers on simulated GPUs to a first order only: of
the random caches of the tests and the published ones of the validation every size was exact, and every latency within
its bracket. A reliability diagram over random GPUs, with noise, is still to come.
"""

EXACT = 0.99
"""A size to the byte: every lap over more of it misses, none over less of it does; and the occupancy agrees."""

LATENCY = 0.95
"""A latency within its bracket."""

BRACKETED = 0.9
"""A size that is only bracketed, or a line that could not be made to miss."""

CONFLICTED = 0.5
"""A size at which conflicts begin, while more lines are held at any one time than fit into it."""
