"""What every command shares: help, version, errors on one line, exit codes."""

import json

import pytest

import gpudissect as package
from gpudissect.device import kinds

COMMANDS = [
    "discover",
    "devices",
    "chase",
    "stream",
    "mix",
    "hide",
    "links",
    "predict",
    "explain",
    "show",
    "check",
    "compare",
    "export",
    "schema",
    "get",
    "fleet",
]


def test_version(gpudissect):
    assert gpudissect("--version") == (0, f"gpudissect {package.__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_names_every_command(gpudissect, arguments):
    code, out, err = gpudissect(*arguments)
    assert (code, err) == (0, "")
    assert all(name in out for name in COMMANDS)


def test_the_description_of_every_command_is_whole(gpudissect):
    lines = gpudissect("--help")[1].partition("Commands:\n")[2].splitlines()
    assert len(lines) == len(COMMANDS)
    assert not [line for line in lines if line.endswith("...") or len(line) > 80]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(gpudissect, command):
    code, out, _ = gpudissect(command, "-h")
    assert code == 0
    assert out.startswith(f"Usage: gpudissect {command}")


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("discovr",), ["'gpudissect --help'"]),
        (("show",), ["'gpudissect show --help'"]),
        (("discover", "x", "cuda:0"), ["devices are given with -d: -d cuda:0"]),
        (("schema", "cuda:0"), ["(cuda:0); see"]),
        (("hide", "--access", "strem"), ["'--access'", "'strem'", "'streaming', 'stride2'"]),
    ],
)
def test_wrong_usage_names_what_is_wrong_and_the_help(error_of, arguments, facts):
    error = error_of(*arguments)
    assert all(fact in error for fact in facts)


def test_an_unknown_device_is_3_with_a_suggestion(error_of):
    error = error_of("discover", "-d", "sim:gtx98", code=3)
    assert "'sim:gtx98'" in error and "did you mean sim:gtx980" in error


def raise_instead(monkeypatch, error):
    def broken(folder=None):
        raise error

    monkeypatch.setattr(kinds, "list_devices", broken)


def test_a_bug_is_one_line_that_asks_for_a_report(gpudissect, error_of, monkeypatch):
    raise_instead(monkeypatch, RuntimeError("two\nlines \x1b[31m"))
    error = error_of("devices", code=1)
    assert "RuntimeError: two lines \\x1b[31m" in error and "report" in error
    code, _, err = gpudissect("--debug", "devices")
    assert code == 1 and "Traceback" in err
    assert "Traceback" not in gpudissect("devices", "--debug")[2]


def test_ctrl_c_outside_a_survey_is_130(gpudissect, monkeypatch):
    raise_instead(monkeypatch, KeyboardInterrupt())
    assert gpudissect("devices") == (130, "", "gpudissect: interrupted\n")


def test_devices_lists_all_and_why_one_cannot_be_used(gpudissect, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    gpus = [kinds.Listing("cuda:0", "H200", "measured", "no driver")]
    monkeypatch.setitem(kinds.KINDS, "cuda", kinds.DeviceKind(kinds._open_cuda, lambda folder: gpus))
    code, out, _ = gpudissect("devices")
    assert code == 0 and "cannot be used: no driver" in out
    listed = {item["spec"]: item for item in json.loads(gpudissect("devices", "--json")[1])}
    assert listed["cuda:0"]["why_not"] == "no driver"
    assert listed["sim:gtx980"]["origin"] == "simulated"
