"""The command line of the checks on recorded runs of one GPU model: `l2_map.py`, `tlb_map.py` and `code_map.py`."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def main(doc: str, data: Path, check: Callable[[Mapping[str, Any]], bool], pack: Callable[[list[Path]], None]) -> int:
    """Print what was found in `data`; with ``--check``, exit status 1 if it is not what the page says.

    ``--pack`` writes `data` first, from what was measured on each GPU. `doc`: what the program does.
    """
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--pack", nargs="+", type=Path, metavar="PATH")
    options = parser.parse_args()
    if options.pack:
        pack(options.pack)
    with np.load(data, allow_pickle=False) as arrays:
        return int(not check(arrays) and options.check)
