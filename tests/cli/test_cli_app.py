"""What every command shares: help, version, errors in one line, exit codes."""

import json

import jsonschema
import pytest

import gpudissect as package
from gpudissect.device import find


def test_version(gpudissect):
    assert gpudissect("--version") == (0, f"gpudissect {package.__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_names_every_command(gpudissect, arguments):
    code, out, err = gpudissect(*arguments)
    assert (code, err) == (0, "")
    assert all(name in out for name in ("discover", "devices", "chase", "stream", "mix", "show", "export", "schema"))


@pytest.mark.parametrize("command", ["discover", "devices", "chase", "stream", "mix", "show", "export", "schema"])
def test_every_command_has_help(gpudissect, command):
    code, out, _ = gpudissect(command, "-h")
    assert code == 0
    assert out.startswith(f"Usage: gpudissect {command}")


@pytest.mark.parametrize(
    ("arguments", "see"), [(("discovr",), "'gpudissect --help'"), (("show",), "'gpudissect show --help'")]
)
def test_wrong_usage_is_one_line_and_says_where_help_is(gpudissect, arguments, see):
    code, out, err = gpudissect(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("gpudissect: error: ")
    assert err.endswith(f"; see {see}\n")
    assert err.count("\n") == 1


def test_an_unknown_device_is_3_with_a_suggestion(gpudissect):
    code, out, err = gpudissect("discover", "-d", "sim:gtx98")
    assert (code, out) == (3, "")
    assert err.startswith("gpudissect: error: unknown device 'sim:gtx98'; did you mean sim:gtx980")
    assert err.count("\n") == 1


def test_a_bug_is_one_line_that_says_how_to_report_it(gpudissect, monkeypatch):
    def broken(folder=None):
        raise RuntimeError("two\nlines \x1b[31m")

    monkeypatch.setattr(find, "list_devices", broken)
    code, out, err = gpudissect("devices")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "unexpected RuntimeError: two lines \\x1b[31m" in err
    assert "report" in err
    code, _, err = gpudissect("--debug", "devices")
    assert code == 1
    assert "Traceback" in err
    assert "Traceback" not in gpudissect("devices", "--debug")[2]


def test_ctrl_c_outside_a_survey_is_130(gpudissect, monkeypatch):
    def interrupted(folder=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(find, "list_devices", interrupted)
    code, out, err = gpudissect("devices")
    assert (code, out, err) == (130, "", "gpudissect: interrupted\n")


def test_devices_lists_what_there_is_and_why_it_cannot_be_used(gpudissect, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(find, "_cuda_gpus", lambda: [find.Listing("cuda:0", "H200", "measured", "no driver")])
    code, out, _ = gpudissect("devices")
    assert code == 0
    assert "cannot be used: no driver" in out
    code, out, _ = gpudissect("devices", "--json")
    listed = {item["spec"]: item for item in json.loads(out)}
    assert listed["cuda:0"]["why_not"] == "no driver"
    assert listed["sim:gtx980"]["origin"] == "simulated"


def test_schema_prints_the_schema_of_results(survey, gpudissect):
    _, schema, _ = gpudissect("schema")
    _, result, _ = gpudissect("discover", "-d", "sim:gtx980", "--json")
    jsonschema.validate(json.loads(result), json.loads(schema))


def test_show_prints_what_discover_printed(survey, gpudissect):
    _, table, _ = gpudissect("discover", "-d", "sim:gtx980", "-o", "one.json")
    assert gpudissect("show", "one.json") == (0, table, "")
    code, both, _ = gpudissect("show", "-a", "one.json", "one.json")
    assert code == 0
    assert both.count("SIMULATED") == 2
    assert "evidence  1 workloads" in both


def test_show_refuses_a_stranger_in_one_line(gpudissect, tmp_path):
    (tmp_path / "x.json").write_text("{}")
    code, out, err = gpudissect("show", tmp_path / "x.json")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_a_choice_that_there_is_not_is_named_with_those_there_are(gpudissect):
    code, _, error = gpudissect("hide", "--access", "strem")
    assert code == 2 and "Invalid value for '--access': 'strem' is not one of 'streaming', 'stride2'" in error
