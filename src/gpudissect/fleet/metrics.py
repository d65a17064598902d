"""Metrics of a fleet in the text format of Prometheus (exposition format 0.0.4), for its text file collector."""

from collections.abc import Iterator, Sequence

from gpudissect.fleet.readings import Run
from gpudissect.fleet.report import FleetReport
from gpudissect.printable import clean

HEADER = {
    "gpudissect_value": "A measured value of the last run, in its unit.",
    "gpudissect_card_out": "1 if the card differs from its siblings or its earlier runs, else 0.",
}


def metrics(report: FleetReport, runs: Sequence[Run]) -> str:
    """The last value of each reading of each card, and whether the card is out."""
    by_file = {(run.file, run.card): run for run in runs}
    samples = {name: list[str]() for name in HEADER}
    for card in report.cards:
        run = by_file[card.files[-1], card.card]
        place = {"card": card.card, "label": card.label, "model": run.group[0], "settings": ", ".join(run.group[1:])}
        samples["gpudissect_card_out"].append(f"{_labels(place)} {card.is_out:d}")
        for (element, attribute), reading in run.readings.items():
            names = place | {"element": element, "attribute": attribute, "unit": reading.unit}
            samples["gpudissect_value"].append(f"{_labels(names)} {reading.value!r}")
    return "\n".join(_lines(samples)) + "\n"


def _lines(samples: dict[str, list[str]]) -> Iterator[str]:
    for name, text in HEADER.items():
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} gauge"
        for sample in samples[name]:
            yield name + sample


def _labels(labels: dict[str, str]) -> str:
    escaped = {name: clean(text).replace("\\", r"\\").replace('"', r"\"") for name, text in labels.items()}
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped.items()) + "}"
