"""``gpudissect links``: latency and bandwidth from every GPU to the host and to every other GPU."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from gpudissect import __version__
from gpudissect.cli.console import DONE, INTERRUPTED, PARTIAL, print_error, print_json, progress_on_stderr
from gpudissect.cli.options import DeviceOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpudissect.device_info import DeviceInfo
    from gpudissect.survey.links import LinkValues

SCHEMA = "gpudissect-links/1"
TABLES = {
    "link_latency": ("Latency of a load, ns", 1.0),
    "read_bandwidth": ("Loads, GB/s", 1e9),
    "write_bandwidth": ("Stores, GB/s", 1e9),
    "copy_bandwidth": ("Loads and stores at once, GB/s of both directions together", 1e9),
}
"""Title and unit of each matrix."""


def links(
    device: DeviceOption = None,
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="Seed of all random choices.")] = 0,
    as_json: Annotated[bool, Option("--json", help="Print every value with its bracket as JSON.")] = False,
) -> int:
    """Measure the links from GPUs to the host and to each other.

    Rows are the GPUs that load and store, columns whose memory it is. Nothing else should use these GPUs meanwhile.
    Without -d all CUDA GPUs are measured, one after the other.
    """
    from gpudissect.device.kinds import choose, open_device
    from gpudissect.survey.links import measure_links

    measured: list[LinkValues] = []
    failures, interrupted = [], False
    infos: list[DeviceInfo] = []
    with progress_on_stderr() as progress:
        for spec in choose(device or "cuda:all").specs:
            with open_device(spec) as each:  # one at a time: each may lock a share of the host's free memory
                found = measure_links(each, seed, progress)
                infos.append(each.info)
            measured += found.values
            failures += [f"{spec}: {failure.experiment}: {failure.reason}" for failure in found.failures]
            if interrupted := found.interrupted:
                break
    if as_json:
        print_json(json.dumps(_to_json(infos, measured), indent=1))
    else:
        _print_matrices(measured)
    for failure in failures:
        print_error(failure)
    return INTERRUPTED if interrupted else PARTIAL if failures else DONE


def _to_json(infos: Sequence[DeviceInfo], measured: Sequence[LinkValues]) -> dict[str, Any]:
    from gpudissect.vocabulary import unit_of

    facts = ("pcie_generation", "pcie_lanes")
    gpus: list[dict[str, Any]] = [
        {"spec": info.spec, "name": info.name, "origin": info.origin, "gpu_uuid": info.provenance.get("gpu_uuid")}
        for info in infos
    ]
    for gpu, info in zip(gpus, infos, strict=True):
        gpu |= {name: info.facts.get(name) for name in facts}
        gpu["peers"] = [int(number) for number in str(info.facts.get("peers", "")).split()]
    rows = [
        {"from": link.source, "to": link.target, "missing": dict(link.reasons)}
        | {
            name: {"value": value, "low": low, "high": high, "unit": unit_of(name)}
            for name, (value, low, high) in link.values.items()
        }
        for link in measured
    ]
    return {"schema": SCHEMA, "version": __version__, "gpus": gpus, "links": rows}


def _print_matrices(measured: Sequence[LinkValues]) -> None:
    from rich.text import Text

    from gpudissect.survey.links import HOST, OTHER_GPUS
    from gpudissect.views.terminal.layout import console, fitting_table, print_table

    out = console(sys.stdout)
    sources = list(dict.fromkeys(link.source for link in measured))
    gpus = {link.target for link in measured} - {HOST, OTHER_GPUS}
    targets = [HOST, *sorted(gpus, key=lambda name: int(name.rpartition(":")[2]))]
    by_pair = {(link.source, link.target): link.values for link in measured}
    for attribute, (title, unit) in TABLES.items():
        rows = []
        for source in sources:
            row = {"from": Text(source)}
            for target in targets:
                values = by_pair.get((source, target), {})
                row[target] = Text(f"{values[attribute][0] / unit:.4g}" if attribute in values else "-")
            rows.append(row)
        out.file.write(f"{title}\n")
        print_table(out, fitting_table(out, ["from", *targets], rows))
    for link in measured:
        for reason in dict.fromkeys(link.reasons.values()):
            names = ", ".join(name for name, text in link.reasons.items() if text == reason)
            out.file.write(f"{link.source} to {link.target}: no {names}: {reason}\n")
