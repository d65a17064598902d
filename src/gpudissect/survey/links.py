"""The links of one GPU: to the host, and to every other GPU whose memory it can access."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gpudissect.device.base import Described, Device
from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate
from gpudissect.measure.plan import Study
from gpudissect.survey.drive import Failure, Progress
from gpudissect.survey.registry import experiments
from gpudissect.survey.run import run_experiments

HOST, PEER, OTHER_GPUS = "host", "peer", "other GPUs"
Bracketed = tuple[float, float, float]  # value, low, high


@dataclass(frozen=True)
class LinkValues:
    """What was measured of one link.

    Attributes:
        source: the device that loads and stores, such as ``cuda:0``.
        target: whose memory: ``host``, or another GPU, such as ``cuda:1``; ``other GPUs`` where there are none.
        values: value, low and high by attribute of `ATTRIBUTES`, in its unit.
        reasons: why there is no value, by attribute.
        texts: findings without a number, by attribute.

    """

    source: str
    target: str
    values: Mapping[str, Bracketed]
    reasons: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Links:
    """The links of one GPU, that to the host first; failed experiments; whether it was interrupted."""

    values: list[LinkValues] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False


def measure_links(
    device: Device,
    seed: int = 0,
    progress: Progress | None = None,
    names: Collection[str] | None = None,
    among: Collection[str] | None = None,
) -> Links:
    """Measure the links of a device, each in a survey of its own: a failure on one link does not affect the others.

    `names`: experiments to run; links that none of them measures are skipped. `among`: GPUs to measure links to.
    None for all.
    """
    peers = str(device.info.facts.get("peers", "")).split()
    others: dict[str, Device] = {f"cuda:{peer}": Described(device, partial(_with_peer, peer)) for peer in peers}
    others = {name: one for name, one in others.items() if among is None or name in among}
    targets: dict[str, Device] = {HOST: device} | (others if peers else {OTHER_GPUS: device})
    registered, links = experiments(Study.LINKS), Links()
    chosen = [each for each in registered.values() if names is None or each.name in names]
    for number, (name, one) in enumerate(targets.items()):

        def report(done: int, total: int, what: str, number: int = number) -> None:
            if progress is not None:
                progress(number, len(targets), what)

        if not (requested := [each for each in chosen if each.element == (HOST if name == HOST else PEER)]):
            continue
        survey = run_experiments(one, requested, registered, seed=seed, progress=report)
        links.values.append(_values(device.info.spec, name, survey.findings))
        links.failures += [replace(each, experiment=f"{each.experiment} to {name}") for each in survey.failures]
        links.interrupted = survey.interrupted
        if survey.interrupted:
            break
    return links


def _with_peer(peer: str, info: DeviceInfo) -> DeviceInfo:
    """A description as if the device could access the memory of one other GPU alone."""
    return replace(info, facts={**info.facts, "peers": peer})


def _values(source: str, target: str, findings: Sequence[Estimate]) -> LinkValues:
    values = {
        each.attribute: (float(each.value), each.low, each.high)
        for each in findings
        if isinstance(each.value, int | float) and each.low is not None and each.high is not None
    }
    reasons = {each.attribute: each.reason for each in findings if each.reason}
    texts = {each.attribute: each.value for each in findings if isinstance(each.value, str)}
    return LinkValues(source, target, values, reasons, texts)
