"""The host's cores one after the other: some take longer than others for the same, other ones in every process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CAN_BIND = hasattr(os, "sched_setaffinity")
"""Linux only."""


@contextmanager
def each_core(most: int) -> Iterator[Iterator[None]]:
    """Bind this thread to one core after another, at most so many, evenly spread over those that it may use.

    Where it may not be bound it stays where it is, once. In the end it may use all of them again.
    """
    allowed = os.sched_getaffinity(0)
    cores = sorted(allowed)

    def bound() -> Iterator[None]:
        for number, core in enumerate(cores[:: -(-len(cores) // most)]):
            try:
                os.sched_setaffinity(0, {core})
            except OSError:
                if number == 0:
                    yield
                return
            yield

    try:
        yield bound()
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)
