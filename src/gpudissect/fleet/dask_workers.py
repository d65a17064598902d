"""Measures the cards of a fleet on Dask workers (https://distributed.dask.org): one task a card."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudissect.errors import DeviceError, UsageError, shorten_message
from gpudissect.fleet.measure_card import Gpu, gpus_here, measure_card

if TYPE_CHECKING:
    from distributed import Client

CONNECT_S = 10.0  # until a scheduler answers
WORKERS_S = 60.0  # until a scheduler has its first worker
POLL_S = 0.5  # between looks for lost workers
RESOURCE = "GPU"  # of workers started with ``--resources GPU=N``
QUEUES = ("SLURMCluster", "PBSCluster", "LSFCluster", "HTCondorCluster", "SGECluster", "OARCluster", "MoabCluster")


@dataclass(frozen=True)
class Card:
    """A card to measure: its name in the run, its device spec, and the workers that reach it; () for all of them."""

    name: str
    spec: str
    workers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """What became of a card: its result file (None without one), and what went wrong ("" if nothing did)."""

    card: Card
    content: bytes | None
    problem: str


@contextmanager
def workers_of(scheduler: str | None, cluster: Path | None, local: int) -> Iterator[tuple[Client, int]]:
    """A client of a scheduler's address, of a cluster described by a file, or of `local` workers of this machine.

    Also the number of workers that will come, at least. Raises `DeviceError` if no scheduler answers, `UsageError`
    without Dask or for a file that describes no cluster.
    """
    try:
        import distributed
    except ImportError:
        raise UsageError("'fleet run' needs Dask: pip install '.[fleet]'") from None
    import logging

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # losses are reported by card
    own: Any = None
    expected = 1 if scheduler is not None else local
    if cluster is not None:
        own, expected = _queued_cluster(cluster)
    elif scheduler is None:
        own = distributed.LocalCluster(
            n_workers=local, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        )
    try:
        try:
            client = distributed.Client(own or scheduler, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            hint = "start one with 'dask scheduler'"
            raise DeviceError(f"no Dask scheduler answers at {scheduler}: {hint} ({error})") from None
        with client:
            yield client, expected
    finally:
        if own is not None:
            own.close()


def _queued_cluster(file: Path) -> tuple[Any, int]:
    """A cluster of a batch system and its number of jobs.

    The file is TOML with `kind`, a class of dask-jobqueue, `jobs`, and `options` of the class.
    """
    import tomllib

    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        kind, jobs, options = content["kind"], content.get("jobs", 1), content.get("options", {})
        if kind not in QUEUES or not isinstance(jobs, int) or jobs < 1 or not isinstance(options, dict):
            raise ValueError(f"'kind' is one of {', '.join(QUEUES)}, 'jobs' a number from 1 on, 'options' a table")
        import dask_jobqueue

        cluster = getattr(dask_jobqueue, kind)(**options)
        cluster.scale(jobs=jobs)
        return cluster, jobs
    except ImportError:
        raise UsageError("--cluster needs dask-jobqueue: pip install dask-jobqueue") from None
    except KeyError as error:
        raise UsageError(f"{file} describes no cluster: it lacks {error}") from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        raise UsageError(f"{file} describes no cluster: {error}") from None


class Finder:
    """Finds the GPUs of workers as they come, each once. Raises `DeviceError` without a worker in `timeout_s`.

    Several workers of a host see the same GPU, perhaps by different numbers: a card keeps those that agree.
    `unusable` has a line for each GPU that cannot be used.
    """

    def __init__(self, client: Client, timeout_s: float | None = WORKERS_S) -> None:
        try:
            client.wait_for_workers(1, timeout=timeout_s)
        except TimeoutError:
            raise DeviceError(f"no worker came within {timeout_s:g} s: start some with 'dask worker ADDRESS'") from None
        self.unusable: list[str] = []
        self.workers: set[str] = set()
        self._client = client
        self._known: set[tuple[str, str]] = set()

    def new_cards(self) -> list[Card]:
        """The usable GPUs of the workers that came since the last call."""
        if not (new := sorted(set(self._client.nthreads()) - self.workers)):
            return []
        self.workers.update(new)
        cards = dict[tuple[str, str], Card]()
        seen: dict[str, list[Gpu]] = self._client.run(gpus_here, workers=new, on_error="ignore")
        for address, gpu in sorted((address, gpu) for address, gpus in seen.items() for gpu in gpus):
            place = gpu.host, gpu.uuid
            if place in self._known:
                continue
            if gpu.why_not is not None:
                self._known.add(place)
                self.unusable.append(f"{gpu.host} {gpu.spec} cannot be used: {gpu.why_not}")
                continue
            card = cards.setdefault(place, Card(f"{gpu.host}-{gpu.uuid}", gpu.spec))
            if card.spec == gpu.spec:
                cards[place] = replace(card, workers=(*card.workers, address))
        self._known.update(cards)
        return list(cards.values())


def measure_cards(
    client: Client, more: Callable[[], Sequence[Card] | None], options: Sequence[str], timeout_s: float
) -> Iterator[Measured]:
    """What became of each card, as they end. A lost worker costs the cards that no other worker reaches.

    `more` is called again and again: it returns further cards, or None once there will be none.
    """
    import distributed

    waiting: dict[Any, Card] = {}
    while (cards := more()) is not None or waiting:
        with_gpus = set(client.run_on_scheduler(_workers_with_gpus)) if cards else set()
        for card in cards or ():
            place: dict[str, Any] = {"workers": card.workers} if card.workers else {}
            if card.workers and with_gpus.issuperset(card.workers):
                place["resources"] = {RESOURCE: 1}
            waiting[client.submit(measure_card, card.spec, options, timeout_s, **place, pure=False)] = card
        if not waiting:
            time.sleep(POLL_S)  # for the next workers
            continue
        with suppress(TimeoutError):
            distributed.wait(list(waiting), timeout=POLL_S, return_when="FIRST_COMPLETED")
        is_up = client.status == "running"
        left = set(client.nthreads()) if is_up else set()
        for future, card in list(waiting.items()):
            if future.done():  # not where its worker was lost with the result: another one repeats it
                yield _outcome(future, card)
            elif not is_up or (card.workers and left.isdisjoint(card.workers)):
                future.cancel()
                yield Measured(card, None, "no worker is left that reaches it")
            else:
                continue
            del waiting[future]


def _workers_with_gpus(dask_scheduler: Any) -> list[str]:
    """Runs on the scheduler: addresses of the workers that offer GPUs."""
    return [address for address, worker in dask_scheduler.workers.items() if worker.resources.get(RESOURCE)]


def _outcome(future: Any, card: Card) -> Measured:
    try:
        content, problem = future.result()
    except Exception as error:  # whatever ended the task
        return Measured(card, None, shorten_message(f"it was not measured: {error}"))
    return Measured(card, content, problem)
