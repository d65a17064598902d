"""A run of a fleet: measure every card that has no result yet, and store each result as it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpudissect.child_processes import usable_cores
from gpudissect.device.kinds import open_device
from gpudissect.errors import DeviceError, UsageError
from gpudissect.fleet.dask_workers import WORKERS_S, Card, Finder, measure_cards, workers_of
from gpudissect.fleet.measure_card import gpus_here
from gpudissect.fleet.store import run_folder

SPREAD_SEED, MIN_FACTOR = 0, 0.05  # of the bandwidths of simulated cards
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class FleetRequest:
    """What to measure, and by whom.

    Attributes:
        device: spec of a simulated GPU; None for all real GPUs of the workers.
        count: number of simulated cards, each with a noise seed of its own.
        options: of ``gpudissect discover``.
        timeout_s: after which a card is given up.
        scheduler: address of a Dask scheduler.
        cluster: file that describes a batch system, see `dask_workers`; without either, workers run on this machine.
        workers: their number there; None for one a GPU, or one a CPU core for simulated cards.
        spread: relative standard deviation of the memory bandwidth from one simulated card to another.
        faults: of simulated cards, ``17:dram=0.95&sms=131``: the number of a card and options of its device.

    """

    device: str | None
    count: int
    options: tuple[str, ...]
    timeout_s: float
    scheduler: str | None = None
    cluster: Path | None = None
    workers: int | None = None
    spread: float = 0.0
    faults: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What is measured, on one line; a run is resumed with the same."""
        spread = (f"--spread {self.spread:g}",) if self.spread else ()
        return " ".join(
            (self.device or "all GPUs", *spread, *(f"--fault {each}" for each in self.faults), *self.options)
        )


@dataclass
class FleetRun:
    """What became of a run.

    Attributes:
        folder: of its results.
        cards: their number.
        measured: number of those with a result.
        problems: a line for each card that failed or could not be used.
        interrupted: whether a stop signal ended it.

    """

    folder: Path
    cards: int
    measured: int
    problems: list[str] = field(default_factory=list)
    interrupted: bool = False


def run_fleet(folder: Path, request: FleetRequest, resume: bool, progress: Progress) -> FleetRun:
    """Measure the cards that have no result in a new run of `folder`, or in its last one; `progress` counts results.

    Raises `DeviceError` without a scheduler, a worker or a usable GPU, `UsageError` as `run_folder` and `workers_of`.
    """
    simulated = list[Card]()
    if request.device is not None:
        simulated = simulated_cards(request.device, request.count, request.spread, request.faults)
    here = request.workers or min(len(simulated), usable_cores()) or max(1, len(gpus_here()))
    with workers_of(request.scheduler, request.cluster, here) as (client, expected):
        finder = (
            None if simulated else Finder(client, None if request.cluster else WORKERS_S)
        )  # jobs may wait for hours
        cards = finder.new_cards() if finder else simulated
        if not cards and expected == 1:
            raise _no_gpu(finder)
        with run_folder(folder, request.what, resume) as results:
            ended, first = FleetRun(results.path, 0, 0), [cards]

            def more() -> list[Card] | None:
                found = first.pop() if first else finder.new_cards() if finder else []
                if not found and (finder is None or len(finder.workers) >= expected):
                    return None
                missing = [card for card in found if not results.holds(card.name)]
                ended.cards += len(found)
                ended.measured += len(found) - len(missing)
                return missing

            try:
                for one in measure_cards(client, more, request.options, request.timeout_s):
                    try:
                        if one.content is not None:
                            results.write(one.card.name, one.content)
                            ended.measured += 1
                    except UsageError as error:
                        ended.problems.append(f"{one.card.name}: {error}")
                    if one.problem:
                        ended.problems.append(f"{one.card.name}: {one.problem}")
                    progress(ended.measured, ended.cards, one.card.name)
            except KeyboardInterrupt:
                ended.interrupted = True
            if not ended.cards and not ended.interrupted:
                raise _no_gpu(finder)
            ended.problems += finder.unusable if finder else []
    return ended


def _no_gpu(finder: Finder | None) -> DeviceError:
    return DeviceError(f"no usable GPU: {finder.unusable[0] if finder and finder.unusable else 'the workers see none'}")


def simulated_cards(spec: str, count: int, spread: float, faults: Sequence[str]) -> list[Card]:
    """Cards of one model that differ by noise, memory bandwidth and planted faults, as `FleetRequest` has them.

    Raises `UsageError` for a fault of no card or with unknown options, `DeviceError` for an unknown model.
    """
    name, mark, common = spec.partition("?")
    if "seed=" in common:
        raise UsageError(f"each card has a seed of its own: name {name} without one")
    mark = "&" if mark else "?"
    planted = dict(_fault(text, count) for text in faults)
    for text in ("seed=0", *(text.partition(":")[2] for text in faults)):
        open_device(spec + mark + text)
    factors = 1 + spread * np.random.default_rng(SPREAD_SEED).standard_normal(count)
    cards = list[Card]()
    for number, factor in enumerate(factors.tolist()):
        options = {"seed": str(number)} | planted.get(number, {})
        if spread:
            options["dram"] = f"{max(MIN_FACTOR, factor) * float(options.get('dram', '1')):.6g}"
        cards.append(Card(f"{spec}-{number:05d}", spec + mark + _text(options)))
    return cards


def _text(options: Mapping[str, str]) -> str:
    return "&".join(f"{key}={value}" for key, value in options.items())


def _fault(text: str, count: int) -> tuple[int, dict[str, str]]:
    number, _, options = text.partition(":")
    pairs = [option.partition("=") for option in options.split("&")]
    is_card = number.isascii() and number.isdecimal() and len(number) < 7 and int(number) < count
    if not (is_card and all(value for _, _, value in pairs)):
        raise UsageError(
            f"--fault takes CARD:OPTION=VALUE with a card below {count}, as 17:dram=0.95, got {text!r:.60}"
        )
    return int(number), {key: value for key, _, value in pairs}
