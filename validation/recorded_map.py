"""What the checks on recorded runs of one GPU model share: `l2_map.py`, `l2_policy.py`, `tlb_map.py`, `code_map.py`."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def save(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays, compressed."""
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # numpy's stub takes them for its own options


def joined(files: list[Path]) -> dict[str, NDArray[Any]]:
    """The arrays that a probe wrote on each GPU, by the number of the GPU and their names: undoes `by_gpu`."""
    found: dict[str, NDArray[Any]] = {}
    for gpu, file in enumerate(files):
        with np.load(file, allow_pickle=False) as arrays:
            found |= {f"{gpu}_{name}": arrays[name] for name in arrays.files}
    return found


def by_gpu(data: Mapping[str, NDArray[np.integer[Any]]]) -> dict[str, dict[str, NDArray[np.int64]]]:
    """The arrays of each GPU, by its number and their names."""
    found: dict[str, dict[str, NDArray[np.int64]]] = {}
    for each in sorted(data):
        gpu, _, name = each.partition("_")
        found.setdefault(gpu, {})[name] = data[each].astype(np.int64)
    return found


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
