"""From a survey to its result: estimates, verdicts, nanoseconds, and what is known of the device."""

from __future__ import annotations

import math
import platform
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import gpudissect
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Estimate
from gpudissect.estimate import Value as Known
from gpudissect.measure.prediction.infer_prediction import bound
from gpudissect.results.code import reading_code
from gpudissect.results.model import (
    Comparison,
    Conditions,
    Device,
    Failure,
    Finding,
    Number,
    Options,
    Published,
    Result,
    Series,
    Value,
)
from gpudissect.results.prediction import ElementPrediction, PathPrediction, Prediction
from gpudissect.results.verdict import Judgement, Verdict, judge_all
from gpudissect.series import Series as Seen
from gpudissect.survey.run import Survey
from gpudissect.units import cycles_to_ns
from gpudissect.vocabulary import unit_of

if TYPE_CHECKING:
    from gpudissect.catalogue import Gpu
    from gpudissect.catalogue import Published as KnownValue
    from gpudissect.measure.cache.plan_comparison import Reading
    from gpudissect.measure.prediction.infer_disagreement import Whole
    from gpudissect.measure.prediction.infer_prediction import Tally

_WHOLE_UNITS = ("B", "")  # bytes and counts
T = TypeVar("T")


def build(info: DeviceInfo, survey: Survey, options: Options, held_against: Gpu | None = None) -> Result:
    """Put a survey's findings together with what is published of `held_against` and what is known of the device."""
    conditions = _conditions(info, survey)
    by_name: dict[tuple[str, str], list[KnownValue]] = defaultdict(list)
    for item in held_against.published() if held_against is not None else ():
        by_name[item.element, item.attribute].append(item)
    simulated = Origin.SIMULATED in (info.origin, info.recorded_origin)
    return Result(
        schema="gpudissect/1",
        device=Device(
            spec=info.spec,
            name=info.name,
            origin=info.origin,
            recorded_origin=info.recorded_origin,
            catalogue=held_against.key if held_against is not None else info.catalogue,
            sm_count=info.sm_count,
            facts={key: _finite(value) for key, value in info.facts.items()},
            unsupported={path.value: reason for path, reason in info.unsupported.items()},
        ),
        environment={
            "gpudissect": gpudissect.__version__,
            "python": platform.python_version(),
            **info.environment,
        },
        options=options,
        conditions=conditions,
        findings=tuple(
            _finding(estimate, conditions.clock_hz, by_name[estimate.element, estimate.attribute], simulated)
            for estimate in survey.findings
        ),
        prediction=_prediction(survey),
        comparisons=tuple(_comparison(reading) for reading in survey.comparisons),
        series=tuple(_series(each) for each in survey.series),
        failures=tuple(Failure(experiment=item.experiment, reason=item.reason) for item in survey.failures),
        interrupted=survey.interrupted,
        seconds=_finite(round(survey.seconds, 3)),
        workloads=survey.workloads,
        code=reading_code(),
    )


def _conditions(info: DeviceInfo, survey: Survey) -> Conditions:
    seen = survey.conditions
    clock = info.facts.get("clock_hz") if seen.clock_hz is None else seen.clock_hz
    if not (isinstance(clock, int | float) and math.isfinite(clock) and clock > 0):
        clock = None
    return Conditions(
        clock_hz=None if clock is None else float(clock),
        clock_seen=seen.clock_hz is not None,
        clock_low=_finite(seen.clock_low),
        clock_high=_finite(seen.clock_high),
        notes=seen.notes,
    )


def _prediction(survey: Survey) -> Prediction | None:
    told: list[Tally | Whole] = [*survey.tallies, *survey.wholes]
    if not told:
        return None
    right, accesses = sum(each.right for each in told), sum(each.accesses for each in told)
    low, high = bound(right, accesses)
    return Prediction(
        agreement=right / accesses,
        low=low,
        high=high,
        accesses=accesses,
        elements=tuple(map(_of_element, survey.tallies)),
        paths=tuple(map(_of_path, survey.wholes)),
        unforetold={each.name: each.reason for each in survey.unforetold},
    )


def _of_element(tally: Tally) -> ElementPrediction:
    low, high = bound(tally.right, tally.accesses)
    return ElementPrediction(element=tally.element, agreement=tally.agreement, low=low, high=high,
                             accesses=tally.accesses, hits_wrong=tally.hits_wrong, misses_wrong=tally.misses_wrong,
                             possible=tally.possible)  # fmt: skip


def _of_path(whole: Whole) -> PathPrediction:
    low, high = bound(whole.right, whole.accesses)
    return PathPrediction(
        path=whole.name,
        agreement=whole.agreement,
        low=low,
        high=high,
        accesses=whole.accesses,
        wrong=dict(whole.wrong),
        possible=whole.possible,
        assumed=whole.assumed,
        open=whole.open,
    )


def _comparison(reading: Reading) -> Comparison:
    unit = unit_of(reading.attribute)
    return Comparison(
        element=reading.element,
        attribute=reading.attribute,
        method=reading.method,
        value=_number(reading.value, unit),
        unit=unit,
        note=reading.note,
    )


def _series(seen: Seen) -> Series:
    columns = {name: tuple(_finite(each) for each in column) for name, column in seen.columns.items()}
    return Series(element=seen.element, name=seen.name, columns=columns, units=dict(seen.units), evidence=seen.evidence)


def _finding(found: Estimate, clock_hz: float | None, published: Sequence[KnownValue], simulated: bool) -> Finding:
    value = _value(found.value, found.unit)
    value_ns = None
    if found.unit == "cycles" and isinstance(value, int | float) and clock_hz is not None:
        value_ns = round(cycles_to_ns(value, clock_hz), 4)
    return Finding(
        element=found.element,
        attribute=found.attribute,
        status=found.status,
        value=value,
        unit=found.unit,
        low=_number(found.low, found.unit),
        high=_number(found.high, found.unit),
        value_ns=value_ns,
        confidence=_finite(found.confidence),
        method=found.method,
        evidence=found.evidence,
        caveats=found.caveats,
        reason=found.reason,
        published=_published(found, published, simulated),
    )


def _published(found: Estimate, published: Sequence[KnownValue], simulated: bool) -> Published | None:
    """The verdict; of a simulated GPU on what it was made to have."""
    comparable = [known for known in published if known.simulated or not simulated]
    judged = judge_all(found, comparable)
    if judged is None and published:
        judged = published[0], Judgement(Verdict.NOT_COMPARABLE, "not part of what is simulated")
    if judged is None:
        return None
    known, judgement = judged
    return Published(
        value=_value(known.value, known.unit),
        low=_number(known.low, known.unit),
        high=_number(known.high, known.unit),
        unit=known.unit,
        printed=_number(known.printed, known.unit),
        source=known.source or "",
        note=known.note or "",
        verdict=judgement.verdict,
        text=judgement.text,
    )


def _value(value: Known | None, unit: str) -> Value | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return tuple(item for each in value if (item := _number(each, unit)) is not None)
    return _number(value, unit)


def _number(value: float | None, unit: str) -> Number | None:
    """Finite or None; bytes and counts as whole numbers where they are whole."""
    value = _finite(value)
    if value is not None and unit in _WHOLE_UNITS and value == int(value):
        return int(value)
    return value


def _finite(value: T) -> T | None:
    """JSON knows no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
