"""The result built from a survey: its content, its schema, and the digest of the analysis code."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import jsonschema
import pytest

from gpudissect.catalogue import Published
from gpudissect.estimate import Estimate, Status
from gpudissect.results import build as building
from gpudissect.results.model import Options, Result, json_schema
from gpudissect.survey.drive import Statement
from gpudissect.views.terminal.layout import console
from gpudissect.views.terminal.table import print_result
from tests.support.result_fixtures import INFO, KNOWN, stated
from tests.support.results import PLAIN, result


def test_a_result_holds_the_content_of_its_survey(result):
    content = json.loads(result.to_json(), parse_constant=pytest.fail)
    assert content["schema"] == "gpudissect/2"
    assert content["device"]["origin"] == "simulated" and content["device"]["facts"]["odd"] is None
    assert content["conditions"] == {
        "clock_hz": 1.9e9,
        "clock_observed": True,
        "clock_low": 1.8e9,
        "clock_high": 2e9,
        "notes": {"throttling": ["power"], "driver": ["580.1"]},
    }
    assert [(item["value"], item["unit"]) for item in content["comparisons"]] == [(24320, "B"), (None, "")]
    assert content["environment"]["driver"] == "580.1"
    options = {"seed": 3, "quick": True, "elements": ["l1", "l2", "dram"], "compare_methods": False, "methods": []}
    assert content["options"] == options | {"precision": None, "profile": None}
    assert content["failures"] == [{"experiment": "line.texture", "reason": "KernelFailed: misaligned"}]
    assert content["interrupted"] is True
    capacity, latency, ways, ambiguous, skipped = content["findings"]
    assert capacity["caveats"] == ["one SM only"]
    assert capacity["published"]["verdict"] == "agrees" and capacity["published"]["printed"] == 12420
    assert latency["value_ns"] == round(82.25 / 1.9, 4)
    assert latency["published"]["verdict"] == "differs"
    assert ways["published"] is None
    assert (ambiguous["value"], ambiguous["low"], ambiguous["status"]) == (None, 1000000, "ambiguous")
    assert skipped["reason"] == "interrupted"


def test_a_finding_names_its_experiment_and_what_it_revised(survey):
    (key, (first,)), *others = survey.statements.items()
    second = Statement("sets.l1", replace(first.estimate, value=24320.0, low=24320.0, high=24576.0))
    revised = replace(survey, statements=dict([(key, (first, second)), *others]))
    finding, other, *_ = building.build(INFO, revised, Options(), KNOWN).findings
    assert (finding.value, finding.experiment, other.experiment, other.revised) == (24320, "sets.l1", "test.l1", ())
    (earlier,) = finding.revised
    assert (earlier.experiment, earlier.value, earlier.low, earlier.high) == ("test.l1", 24576, 24544, 24576)
    assert earlier.status is first.estimate.status and isinstance(earlier.value, int)


@pytest.mark.parametrize(("limit", "verdict"), [(64, "not comparable"), (128, "differs"), (None, "differs")])
def test_what_a_setting_of_the_driver_decides_is_not_called_different(survey, limit, verdict):
    fetch = Estimate(element="l2", attribute="fetch_granularity", status=Status.FOUND, value=64, confidence=0.99)
    known = SimpleNamespace(key="x", published=lambda **_: [Published("l2", "fetch_granularity", 32, unit="B")])
    info = replace(INFO, facts={"l2_fetch_limit": limit})
    (finding,) = building.build(info, replace(survey, statements=stated((fetch,))), Options(), known).findings
    assert finding.published.verdict == verdict


def test_bytes_and_counts_are_whole_numbers(result):
    text = result.to_json()
    assert '"value": 24576,' in text and '"value": 4,' in text and '"value": 82.25,' in text


def test_conditions_without_a_usable_clock_have_none(survey):
    silent = replace(survey, conditions=replace(survey.conditions, clock_hz=None))
    result = building.build(replace(INFO, facts={"clock_hz": float("nan")}), silent, Options(), KNOWN)
    assert result.conditions.clock_hz is None and not result.conditions.clock_observed
    assert result.findings[1].value_ns is None


def test_the_json_schema_is_valid_and_holds_for_results(result):
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.validate(json.loads(result.to_json()), schema)
    for field, wrong in [("status", "fonud"), ("confidence", 1.5), ("value", {}), ("element", None)]:
        broken = json.loads(result.to_json())
        broken["findings"][0][field] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)
    definitions = [schema, *schema["$defs"].values()]
    fields = [(one["title"], *item) for one in definitions for item in one.get("properties", {}).items()]
    assert [(title, name) for title, name, field in fields if "description" not in field] == []


def test_a_result_is_immutable(result):
    with pytest.raises(Exception, match="frozen"):
        result.interrupted = False


def digest_of(folder, monkeypatch):
    monkeypatch.setattr(building, "__file__", str(folder / "results" / "build.py"))
    building.analysis_code.cache_clear()
    return building.analysis_code()


def test_the_digest_covers_the_analysis_code_only(tmp_path, monkeypatch):
    for folder in ("measure", "views"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "some.py").write_text("one")
    first = digest_of(tmp_path, monkeypatch)
    (tmp_path / "views" / "some.py").write_text("two")
    assert len(first) == building.CODE_DIGITS and digest_of(tmp_path, monkeypatch) == first
    (tmp_path / "measure" / "some.py").write_text("two")
    assert digest_of(tmp_path, monkeypatch) not in (first, "")
    assert digest_of(tmp_path / "nowhere", monkeypatch) == ""
    building.analysis_code.cache_clear()


def test_the_analysis_version_is_shown():
    example = result(PLAIN).model_copy(update={"code": "abc123", "environment": {"gpudissect": "0.1.0"}})
    print_result(console(out := io.StringIO()), example, everything=True)
    assert any("0.1.0" in line and "abc123" in line for line in out.getvalue().splitlines())
    assert "abc123" in example.to_html()
    content = json.loads(result(PLAIN).to_json())
    del content["code"]
    assert Result.model_validate_json(json.dumps(content)).code == ""
