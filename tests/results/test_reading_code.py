"""Results name the code that read their traces, and those that do not are read all the same."""

import json

from gpudissect.results import code
from gpudissect.results.files import load
from gpudissect.results.model import Result, json_schema
from tests.support.made_up import PLAIN, result


def digest_of(folder, monkeypatch):
    monkeypatch.setattr(code.gpudissect, "__file__", str(folder / "__init__.py"))
    code.reading_code.cache_clear()
    return code.reading_code()


def test_the_digest_changes_with_what_reads_and_with_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "measure").mkdir()
    (tmp_path / "views").mkdir()
    (tmp_path / "measure" / "line.py").write_text("one")
    (tmp_path / "views" / "page.py").write_text("one")
    first = digest_of(tmp_path, monkeypatch)
    (tmp_path / "views" / "page.py").write_text("two")
    assert len(first) == code.LENGTH and digest_of(tmp_path, monkeypatch) == first
    (tmp_path / "measure" / "line.py").write_text("two")
    assert digest_of(tmp_path, monkeypatch) not in (first, "")
    assert digest_of(tmp_path / "nowhere", monkeypatch) == ""
    code.reading_code.cache_clear()


def test_a_result_without_it_is_read(tmp_path):
    content = json.loads(result(PLAIN).to_json())
    del content["code"]
    (tmp_path / "old.json").write_text(json.dumps(content))
    assert load(tmp_path / "old.json").code == ""
    assert "code" in json_schema()["properties"]


def test_it_is_shown():
    made = result(PLAIN).model_copy(update={"code": "abc123", "environment": {"gpudissect": "0.1.0"}})
    assert str(made).endswith("read by gpudissect 0.1.0, code abc123")
    assert "abc123" in made.to_html()
    assert "read by" not in str(Result.model_validate_json(result(PLAIN).to_json()))
