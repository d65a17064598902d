"""What an H200 showed: plots of its result file by the project's own hand, drawn anew with every build."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator

from making import h200

SHOWN = (
    ("l1", "latency against footprint"),
    ("l1", "misses against footprint"),
    ("constant_l1", "latency against footprint"),
    ("icache_l0", "cycles of a line against footprint"),
    ("spectrum_global", "cycles of P1 to P6"),
    ("l2", "latency by SM"),
    ("l1", "set of every line of memory"),
    ("shared", "latency against stride"),
    ("dram", "read bandwidth by configuration"),
    ("ffma", "rate against warps and chains"),
)
"""Element, and how the title goes on behind its name. What the result does not hold is left out."""


def gallery() -> str:
    """Pictures beside one another; empty if the result holds none of them."""
    return "\n".join(_pictures())


def _pictures() -> Iterator[str]:
    for element, wanted in SHOWN:
        for title, svg in h200.plots(element).items():
            if title.partition(": ")[2].startswith(wanted):
                source = base64.b64encode(svg.encode()).decode()
                name = html.escape(title, quote=True)
                yield f'<img class="seen" alt="{name}" src="data:image/svg+xml;base64,{source}">'
