"""Types of the flat arrays that compiled loops work on, and those of a hierarchy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int8 = NDArray[np.int8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
Float64 = NDArray[np.float64]


class Arrays(NamedTuple):
    """Every cache and TLB of a hierarchy, packed.

    Attributes:
        shape: (arrays, COLUMNS). LINE_SHIFT, SECTOR_SHIFT: log2 of the bytes; SECTORS a line; INDEX: which kind;
            TABLE: start in `tables`; PER: lines a granule; PERIOD: of MODULO and LOOKUP; FIRST: start in `tags`;
            WAYS: 0 for unequal sets; STARTS: of their list in `tables`; POLICY: which; ODDS: start in `odds`;
            TOUCHED: start in `touched`.
        tables: index tables and, for unequal sets, where in `tags` each set starts and the last ends.
        odds: cumulative probabilities of WEIGHTED.
        tags: one a way, the line number there, or EMPTY.
        marks: one a way, reference bits, predictions, ranks (SLRU), or nodes of the PLRU tree (1 the root, 0 unused).
        sectors: one a way, bit i is set when sector i is there. A single element if nothing is sectored.
        touched: one a set, the numbers of the sets that hold anything, so that a reset is cheap.
        filled: (arrays,), how many entries of `touched` count.
        draws: (arrays,), states of the random streams.

    """

    shape: Int64
    tables: Int32
    odds: Float64
    tags: Int32
    marks: Int8
    sectors: Int32
    touched: Int32
    filled: Int64
    draws: UInt64
