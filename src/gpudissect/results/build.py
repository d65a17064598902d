"""From a survey to its result: findings with verdicts and nanoseconds, conditions, and what is known of the device."""

from __future__ import annotations

import hashlib
import math
import platform
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpudissect import __version__
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Estimate
from gpudissect.measure.prediction.infer_agreement import wilson_interval
from gpudissect.results import model
from gpudissect.results.verdict import Judgement, Verdict, judge_all
from gpudissect.survey.drive import Statement
from gpudissect.survey.run import Survey
from gpudissect.units import cycles_to_ns
from gpudissect.vocabulary import unit_of

if TYPE_CHECKING:
    from gpudissect.catalogue import Gpu
    from gpudissect.catalogue import Published as Reference
    from gpudissect.measure.prediction.infer_agreement import PredictionCounts

ANALYSIS_FOLDERS = ("measure", "models", "simulation", "survey")
"""Folders whose code chooses workloads and analyses their traces."""
SETTINGS = {("l2", "fetch_granularity"): "l2_fetch_limit"}
"""Attributes that a setting of the driver limits, with the fact that has it."""
CODE_DIGITS = 12  # hexadecimal
_WHOLE_UNITS = ("B", "")  # bytes and counts
R = TypeVar("R", bound=model.Record)
T = TypeVar("T")


def build(info: DeviceInfo, survey: Survey, options: model.Options, reference: Gpu | None = None) -> model.Result:
    """The result of a survey. `reference` is the catalogue entry whose published values the findings are compared with.

    Published values of a simulated GPU are compared only where the simulation includes them.
    """
    conditions = _conditions(info, survey)
    published: dict[tuple[str, str], list[Reference]] = defaultdict(list)
    for value in reference.published(alternatives=True) if reference is not None else ():
        published[value.element, value.attribute].append(value)
    simulated = Origin.SIMULATED in (info.origin, info.recorded_origin)

    def finding(statements: Sequence[Statement]) -> model.Finding:
        *earlier, last = statements
        estimate, value_ns = last.estimate, None
        if estimate.unit == "cycles" and isinstance(estimate.value, int | float) and conditions.clock_hz is not None:
            value_ns = round(cycles_to_ns(estimate.value, conditions.clock_hz), 4)
        return _copy(
            model.Finding,
            estimate,
            value_ns=value_ns,
            published=_published(estimate, published[estimate.element, estimate.attribute], simulated, info.facts),
            experiment=last.experiment,
            revised=tuple(_copy(model.Revision, each.estimate, experiment=each.experiment) for each in earlier),
        )

    return model.Result(
        schema="gpudissect/2",
        device=_copy(
            model.Device,
            info,
            catalogue=reference.key if reference is not None else info.catalogue,
            facts={name: _finite(value) for name, value in info.facts.items()},
            unsupported={path.value: reason for path, reason in info.unsupported.items()},
        ),
        provenance=model.Provenance.model_validate(dict(info.provenance)),
        environment={"gpudissect": __version__, "python": platform.python_version(), **info.environment},
        options=options,
        conditions=conditions,
        findings=tuple(map(finding, survey.statements.values())),
        prediction=_prediction(survey),
        comparisons=tuple(_copy(model.Comparison, each, unit=unit_of(each.attribute)) for each in survey.comparisons),
        series=tuple(
            _copy(model.Series, each, columns={name: tuple(map(_finite, data)) for name, data in each.columns.items()})
            for each in survey.series
        ),
        failures=tuple(_copy(model.Failure, each) for each in survey.failures),
        interrupted=survey.interrupted,
        seconds=_finite(round(survey.seconds, 3)),
        workloads=survey.workloads,
        code=analysis_code(),
    )


@cache
def analysis_code() -> str:
    """Digest of the sources that choose workloads and analyse their traces; empty if they cannot be read."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    try:
        sources = sorted(path for folder in ANALYSIS_FOLDERS for path in (root / folder).rglob("*.py"))
        for path in sources:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    except OSError:
        return ""
    return digest.hexdigest()[:CODE_DIGITS] if sources else ""


def _copy(kind: type[R], source: object, /, **values: Any) -> R:
    """A record with the fields that `source` has under the same names, and these values; numbers as JSON has them."""
    names = [name for name in kind.model_fields if name not in values and hasattr(source, name)]
    values |= {name: _finite(getattr(source, name)) for name in names}
    unit = values.get("unit", getattr(source, "unit", None))
    if isinstance(unit, str):
        values |= {name: _plain(values[name], unit) for name in ("value", "low", "high", "printed") if name in values}
    return kind(**values)


def _conditions(info: DeviceInfo, survey: Survey) -> model.Conditions:
    observed = survey.conditions.clock_hz
    clock = info.facts.get("clock_hz") if observed is None else observed
    usable = isinstance(clock, int | float) and math.isfinite(clock) and clock > 0
    clock_hz = float(clock or 0) if usable else None
    return _copy(model.Conditions, survey.conditions, clock_hz=clock_hz, clock_observed=observed is not None)


def _prediction(survey: Survey) -> model.Prediction | None:
    caches, paths = survey.predictions, survey.path_predictions
    if not caches and not paths:
        return None
    return _agreement(
        model.Prediction,
        *(*caches, *paths),
        elements=tuple(_agreement(model.ElementPrediction, each, element=each.name) for each in caches),
        paths=tuple(_agreement(model.PathPrediction, each, path=each.name, open=each.not_predicted) for each in paths),
        not_predicted={each.name: each.reason for each in survey.not_predicted},
    )


def _agreement(kind: type[R], *counts: PredictionCounts, **values: Any) -> R:
    right, accesses = sum(each.right for each in counts), sum(each.accesses for each in counts)
    low, high = wilson_interval(right, accesses)
    return _copy(kind, counts[0], agreement=right / accesses, low=low, high=high, accesses=accesses, **values)


def _published(
    estimate: Estimate, references: Sequence[Reference], simulated: bool, facts: Mapping[str, object]
) -> model.Published | None:
    judged = judge_all(estimate, [each for each in references if each.simulated or not simulated])
    if judged is None and references:
        judged = references[0], Judgement(Verdict.NOT_COMPARABLE, "not part of what is simulated")
    if judged is None:
        return None
    reference, judgement = judged
    setting = facts.get(SETTINGS.get((estimate.element, estimate.attribute), ""))
    if judgement.verdict is Verdict.DIFFERS and setting is not None and setting == estimate.value:
        judgement = Judgement(Verdict.NOT_COMPARABLE, "a setting of the driver")
    texts = {"source": reference.source or "", "note": reference.note or ""}
    return _copy(model.Published, reference, **vars(judgement), **texts)


def _plain(value: Any, unit: str) -> Any:
    """A value as JSON has it: finite or null; bytes and counts as whole numbers where they are whole."""
    if isinstance(value, tuple):
        return tuple(item for each in value if (item := _plain(each, unit)) is not None)
    value = _finite(value)
    if isinstance(value, float) and unit in _WHOLE_UNITS and value == int(value):
        return int(value)
    return value


def _finite(value: T) -> T | None:
    """JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
