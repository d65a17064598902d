"""One result with everything in it."""

import math
from types import SimpleNamespace

import pytest

from gpudissect.catalogue import Published
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_comparison import Reading
from gpudissect.results.build import build
from gpudissect.results.model import Options, Result
from gpudissect.survey.drive import Failure, Statement
from gpudissect.survey.run import Conditions, Survey
from gpudissect.workload import Path

INFO = DeviceInfo(
    spec="sim:gtx980",
    name="GTX 980",
    origin=Origin.SIMULATED,
    sm_count=16,
    span_limits={Path.GLOBAL: 1 << 30},
    unsupported={Path.TEXTURE: "none here"},
    facts={"clock_hz": 2e9, "odd": math.inf, "compute_capability": "5.2"},
    environment={"driver": "580.1"},
)
CAPACITY = {"method": "first miss", "evidence": ("ab" * 16, "cd" * 16), "caveats": ("one SM only",)}


def found(attribute: str, value: float, confidence: float, **fields) -> Estimate:
    status = Status.FOUND
    return Estimate(element="l1", attribute=attribute, status=status, value=value, confidence=confidence, **fields)


FINDINGS = (
    found("capacity", 24576.0, 0.97, low=24544, high=24576, **CAPACITY),
    found("hit_latency", 82.25, 0.9, low=82, high=82.5),
    found("ways", 4.0, 0.999),
    Estimate(element="l2", attribute="capacity", status=Status.AMBIGUOUS, low=1e6, high=2e6, reason="a ramp"),
    Estimate(element="dram", attribute="hit_latency", status=Status.SKIPPED, reason="interrupted"),
)
PUBLISHED = (
    Published("l1", "capacity", 24576.0, None, None, "B", 12420.0, "MC16 table 5", "note"),
    Published("l1", "hit_latency", 110.0, None, None, "cycles", None, "MT22 table 5.4"),
    Published("l2", "capacity", 2097152.0, None, None, "B", None, "MC16 s4.6"),
)
KNOWN = SimpleNamespace(key="gtx980", published=lambda **_: list(PUBLISHED))
READINGS = (
    Reading("l1", "capacity", "Wong 2010", 24320),
    Reading("l1", "sets", "Wong 2010", None, "no steps"),
)


def stated(findings) -> dict:
    """Findings as statements of made-up experiments."""
    return {(each.element, each.attribute): (Statement(f"test.{each.element}", each),) for each in findings}


@pytest.fixture
def survey() -> Survey:
    failures = (Failure("line.texture", "KernelFailed: misaligned"),)
    conditions = Conditions(1.9e9, 1.8e9, 2e9, {"throttling": ("power",), "driver": ("580.1",)})
    return Survey(stated(FINDINGS), failures, True, 1.23456, 99, READINGS, conditions)


@pytest.fixture
def result(survey) -> Result:
    return build(INFO, survey, Options(seed=3, quick=True, elements=("l1", "l2", "dram")), KNOWN)
