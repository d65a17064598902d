"""The links of GPUs, to the host and to other GPUs: the order in which they are measured, and one of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gpudissect.device.base import Described, Device
from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate
from gpudissect.measure.plan import Experiment, Study
from gpudissect.survey.registry import experiments
from gpudissect.survey.run import run_experiments

HOST, PEER, OTHER_GPUS = "host", "peer", "other GPUs"
Bracketed = tuple[float, float, float]  # value, low, high
Pair = tuple[str, str]
"""A link: the device that loads and stores, and whose memory it is: `HOST` or another GPU, such as ``cuda:1``."""
Round = list[list[Pair]]
"""Lists of pairs that are measured at once; the pairs of a list one after the other."""


@dataclass(frozen=True)
class LinkValues:
    """What was measured of one link.

    Attributes:
        source: the device that loads and stores, such as ``cuda:0``.
        target: whose memory: ``host``, or another GPU, such as ``cuda:1``; ``other GPUs`` where there are none.
        values: value, low and high by attribute of `ATTRIBUTES`, in its unit.
        reasons: why there is no value, by attribute.
        texts: findings without a number, by attribute.
        pairs_at_once: number of pairs of GPUs that were measured at the same time, this one included.
        failures: a line for each experiment that failed.

    """

    source: str
    target: str
    values: Mapping[str, Bracketed]
    reasons: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    pairs_at_once: int = 1
    failures: tuple[str, ...] = ()


def failed_link(source: str, target: str, reason: object) -> LinkValues:
    """A link without values."""
    return LinkValues(source, target, {}, {}, failures=(f"{source}: link to {target}: {reason}",))


def pairs_of(
    spec: str, info: DeviceInfo, names: Collection[str] | None = None, among: Collection[str] | None = None
) -> list[Pair]:
    """The links of a device, that to the host first, then by number of the other GPU.

    `names`: experiments to run; links that none of them measures are left out. `among`: GPUs to measure links to. None
    for all.
    """
    peers = [f"cuda:{peer}" for peer in str(info.facts.get("peers", "")).split()]
    others = [peer for peer in peers if among is None or peer in among] if peers else [OTHER_GPUS]
    return [(spec, target) for target in (HOST, *others) if _requested(target, names)]


def nvlink_pairs(spec: str, info: DeviceInfo) -> list[Pair]:
    """The links of a device to GPUs that NVLink connects with it, as NVML states."""
    return [(spec, f"cuda:{peer}") for peer in str(info.facts.get("nvlink_peers", "")).split()]


def schedule(pairs: Sequence[Pair], at_once: Collection[Pair] = ()) -> list[Round]:
    """The order in which links are measured: pairs of `at_once` first, links to the host last.

    Pairs of `at_once` are measured in the rounds of a round-robin tournament (circle method). In a round, each GPU is
    in at most one list, which holds both directions of a pair. The other links are measured one after the other.
    """
    together = {pair for pair in pairs if pair in at_once}
    gpus = sorted({gpu for pair in together for gpu in pair})
    gpus += [""] * (len(gpus) % 2)  # no GPU: its opponent waits
    rounds: list[Round] = []
    for _ in gpus[1:]:
        opponents = [*zip(gpus, reversed(gpus), strict=True)][: len(gpus) // 2]
        both = [[pair for pair in ((one, other), (other, one)) if pair in together] for one, other in opponents]
        rounds.append([each for each in both if each])
        gpus = [gpus[0], gpus[-1], *gpus[1:-1]]
    others = sorted((pair for pair in pairs if pair not in together), key=lambda pair: pair[1] == HOST)
    return [each for each in rounds if each] + [[[pair]] for pair in others]


def measure_link(
    device: Device, target: str, seed: int = 0, names: Collection[str] | None = None, pairs_at_once: int = 1
) -> LinkValues:
    """Measure a link in a survey of its own: a failure on one link does not affect the others. `names`: see `pairs_of`.

    Raises `DeviceError` if the device cannot be opened.
    """
    name = device.info.spec
    if target not in (HOST, OTHER_GPUS):
        device = Described(device, partial(_with_peer, target.removeprefix("cuda:")))
    survey = run_experiments(device, _requested(target, names), experiments(Study.LINKS), seed=seed)
    failures = tuple(f"{name}: {each.experiment} to {target}: {each.reason}" for each in survey.failures)
    return replace(_values(name, target, survey.findings), pairs_at_once=pairs_at_once, failures=failures)


def _requested(target: str, names: Collection[str] | None) -> list[Experiment]:
    """The experiments that measure a link to `target`."""
    chosen = [each for each in experiments(Study.LINKS).values() if names is None or each.name in names]
    return [each for each in chosen if each.element == (HOST if target == HOST else PEER)]


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
