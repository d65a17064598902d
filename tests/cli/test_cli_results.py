"""Pages, comparisons and checks on the command line: what is written, what is said, with which code."""

import json


def test_a_page_is_written_while_measuring_and_afterwards(survey, gpudissect, tmp_path):
    code, out, _ = gpudissect("discover", "-d", "sim:gtx980", "-o", "r.json", "--html", "r.html")
    assert code == 0 and "hit_latency" in out
    page = (tmp_path / "r.html").read_text()
    assert page.count('class="finding"') == 3 and "SIMULATED" in page
    code, out, _ = gpudissect("show", "r.json", "--html", "again.html")
    assert (code, out) == (0, "")
    assert (tmp_path / "again.html").read_text().count('class="finding"') == 3


def test_a_page_takes_the_place_of_nothing_that_is_read(survey, gpudissect, tmp_path):
    gpudissect("discover", "-o", "r.json")
    for line in (("show", "r.json", "--html", "r.json"), ("compare", "r.json", "r.json", "--html", "r.json"),
                 ("discover", "-o", "x", "--html", "x")):  # fmt: skip
        code, _, error = gpudissect(*line)
        assert code == 2 and ("it is what is read" in error or "something else is written there" in error)
    assert gpudissect("show", "r.json", "r.json", "--html", "x.html")[0] == 2
    assert gpudissect("discover", "--html", "nowhere/x.html")[0] == 2


def test_a_page_takes_no_results_place(survey, gpudissect, tmp_path):
    """Whatever is written as a page has the name of one: an earlier result stays."""
    gpudissect("discover", "-o", "old.json")
    gpudissect("discover", "-o", "r.json")
    before = (tmp_path / "old.json").read_bytes()
    for line in (("show", "r.json"), ("compare", "r.json", "r.json"), ("discover", "-d", "sim:gtx980"), ("hide",)):
        code, _, error = gpudissect(*line, "--html", "old.json")
        assert code == 2 and "the name of a page must end in .html" in error, line
    assert (tmp_path / "old.json").read_bytes() == before


def test_show_prints_json(survey, gpudissect):
    gpudissect("discover", "-o", "r.json")
    assert json.loads(gpudissect("show", "r.json", "--json")[1])["schema"] == "gpudissect/1"
    assert len(json.loads(gpudissect("show", "r.json", "r.json", "--json")[1])) == 2


def test_compare(survey, gpudissect, tmp_path):
    gpudissect("discover", "-o", "a.json")
    gpudissect("discover", "-o", "b.json", "--seed", "5")
    code, out, _ = gpudissect("compare", "a.json", "b.json")
    assert code == 0 and "3 different" in out
    assert json.loads(gpudissect("compare", "a.json", "b.json", "--json")[1])["counts"]["different"] == 3
    assert gpudissect("compare", "a.json", "b.json", "--html", "c.html")[0] == 0
    assert "Comparison" in (tmp_path / "c.html").read_text()
    code, _, error = gpudissect("compare", "a.json")
    assert code == 2 and "two results or more" in error


def test_check(survey, gpudissect):
    gpudissect("discover", "-o", "a.json")
    code, out, _ = gpudissect("check", "a.json")
    assert code == 0 and out.startswith("stable")
    gpudissect("discover", "-o", "b.json", "--seed", "5")
    code, out, _ = gpudissect("check", "a.json", "b.json")
    assert code == 4 and "3 values differ from run to run" in out
    code, out, _ = gpudissect("check", "a.json", "b.json", "--json")
    assert code == 4 and json.loads(out)["stable"] is False
    assert json.loads(out)["concerns"][0]["files"] == json.loads(out)["files"] == ["a.json", "b.json"]


def test_check_says_whose_each_concern_is(survey, gpudissect):
    gpudissect("discover", "-o", "a.json")
    gpudissect("discover", "-o", "quick.json", "--quick")
    code, out, _ = gpudissect("check", "a.json", "quick.json", "quick.json")
    assert code == 0 and "\nnote (quick.json, quick.json): a quick run" in out
    assert "note: a quick run" in gpudissect("check", "quick.json")[1]
