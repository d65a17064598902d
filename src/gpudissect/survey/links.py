"""The links of one GPU: to the host, and to every other GPU whose memory it can access."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpudissect.device.base import Device
from gpudissect.estimate import Estimate, Series
from gpudissect.measure.links.plan_peer import ATTRIBUTES, Bracketed
from gpudissect.measure.plan import Study
from gpudissect.survey.drive import Failure, Progress
from gpudissect.survey.run import run_survey

HOST, OTHER_GPUS = "host", "other GPUs"


@dataclass(frozen=True)
class LinkValues:
    """What was measured of one link.

    Attributes:
        source: the device that loads and stores, such as ``cuda:0``.
        target: whose memory: ``host``, or another GPU, such as ``cuda:1``; ``other GPUs`` where there are none.
        values: value, low and high by attribute of `ATTRIBUTES`, in its unit.
        reasons: why there is no value, by attribute.

    """

    source: str
    target: str
    values: Mapping[str, Bracketed]
    reasons: Mapping[str, str]


def measure_links(
    device: Device, seed: int = 0, progress: Progress | None = None
) -> tuple[list[LinkValues], tuple[Failure, ...], bool]:
    """Measure the links of a device: that to the host first; failed experiments; whether it was interrupted."""
    survey = run_survey(device, Study.LINKS, seed=seed, progress=progress)
    source = device.info.spec
    links = [_host(source, [each for each in survey.findings if each.element == HOST])]
    of_peers = [each for each in survey.findings if each.element == "peer"]
    for series in survey.series:
        if series.element == "peer":
            links += _peers(source, series)
    if len(links) == 1 and of_peers:
        links.append(LinkValues(source, OTHER_GPUS, {}, _reasons(of_peers)))
    return links, survey.failures, survey.interrupted


def _host(source: str, findings: list[Estimate]) -> LinkValues:
    values = {
        each.attribute: (float(each.value), each.low, each.high)
        for each in findings
        if isinstance(each.value, int | float) and each.low is not None and each.high is not None
    }
    return LinkValues(source, HOST, values, _reasons(findings))


def _reasons(findings: list[Estimate]) -> dict[str, str]:
    return {each.attribute: each.reason for each in findings if each.reason}


def _peers(source: str, series: Series) -> list[LinkValues]:
    """One for each row of the series of `measure.links.plan_peer`."""
    columns = {name: [float(value) for value in column] for name, column in series.columns.items()}
    return [
        LinkValues(
            source,
            f"cuda:{int(gpu)}",
            {
                name: (columns[name][row], columns[f"{name}_low"][row], columns[f"{name}_high"][row])
                for name in ATTRIBUTES
                if name in columns
            },
            {name: "not measured" for name in ATTRIBUTES if name not in columns},
        )
        for row, gpu in enumerate(columns["gpu"])
    ]
