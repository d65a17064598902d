"""A run of a fleet: measure every card that has no result yet, and store each result as it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpudissect.child_processes import usable_cores
from gpudissect.device.kinds import open_device
from gpudissect.errors import DeviceError, UsageError
from gpudissect.fleet.dask_workers import Card, cards_of, measure_cards, workers_of
from gpudissect.fleet.measure_card import gpus_here
from gpudissect.fleet.store import run_folder

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

    """

    device: str | None
    count: int
    options: tuple[str, ...]
    timeout_s: float
    scheduler: str | None = None
    cluster: Path | None = None
    workers: int | None = None

    @property
    def what(self) -> str:
        """What is measured, on one line; a run is resumed with the same."""
        return " ".join((self.device or "all GPUs", *self.options))


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
    simulated = _simulated(request.device, request.count) if request.device else []
    here = request.workers or min(len(simulated), usable_cores()) or max(1, len(gpus_here()))
    with workers_of(request.scheduler, request.cluster, here) as client:
        cards, problems = (simulated, list[str]()) if simulated else cards_of(client)
        if not cards:
            raise DeviceError(f"no usable GPU: {problems[0] if problems else 'the workers see none'}")
        with run_folder(folder, request.what, resume) as results:
            missing = [card for card in cards if not results.holds(card.name)]
            ended = FleetRun(results.path, len(cards), len(cards) - len(missing), problems)
            try:
                for one in measure_cards(client, missing, request.options, request.timeout_s):
                    try:
                        if one.content is not None:
                            results.write(one.card.name, one.content)
                            ended.measured += 1
                    except UsageError as error:
                        problems.append(f"{one.card.name}: {error}")
                    if one.problem:
                        problems.append(f"{one.card.name}: {one.problem}")
                    progress(ended.measured, len(cards), one.card.name)
            except KeyboardInterrupt:
                ended.interrupted = True
    return ended


def _simulated(spec: str, count: int) -> list[Card]:
    """Cards of one model that differ by their noise. Raises `DeviceError` for an unknown one."""
    separator = "&" if "?" in spec else "?"
    cards = [Card(f"{spec}-{number:05d}", f"{spec}{separator}seed={number}") for number in range(count)]
    open_device(cards[0].spec)
    return cards
