"""Completion in a real bash: the script that typer writes, asked as bash asks it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpudissect
from gpudissect.cli import completion as complete
from gpudissect.device.recording import format as recording

HIDING = Path(__file__).parents[2] / "docs" / "results" / "h200-latency-hiding.json"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(gpudissect.__file__).parents[1]), "LC_ALL": "C"}
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shell")
    command = folder / "gpudissect"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpudissect "$@"\n')
    command.chmod(0o755)
    made = subprocess.run(
        [command], env={**ENVIRONMENT, "_GPUDISSECT_COMPLETE": "source_bash"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    (folder / "complete.bash").write_text(made.stdout)
    return folder / "complete.bash"


def offered(script: Path, *words: str, at: int | None = None) -> list[str]:
    """What bash would show; words as bash breaks them."""
    name = next(line.split("()")[0] for line in script.read_text().splitlines() if "()" in line)
    quoted = " ".join(f"'{word}'" for word in ("gpudissect", *words))
    asked = f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) if at is None else at}; {name} gpudissect"
    environment = {**ENVIRONMENT, "PATH": f"{script.parent}:{os.environ['PATH']}"}
    told = subprocess.run(["bash", "-c", f'{asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'], env=environment,
                          capture_output=True, text=True, cwd=script.parent, timeout=60, check=True)  # fmt: skip
    assert told.stderr == ""
    return told.stdout.split()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("disc",), ["discover"]),
        (("discover", "-d", "cu"), ["cuda:0", "cuda:all"]),
        (("discover", "-d", "sim", ":", "gtx9"), ["gtx980"]),  # bash breaks words at colons
        (("chase", "-d", "sim", ":", "h"), ["h100", "h200"]),
        (("discover", "--only", "tlb"), ["tlb_l1", "tlb_l2", "tlb_l3"]),
        (("discover", "-d", "sim", ":", "gtx980", "--only", "te"), ["texture"]),
        (("export", "r.json", "--format", "mt"), ["mt4g"]),
        (("hide", "--access", "stri"), ["stride2"]),
        (("discover", "--device", "=", "cu"), ["cuda:0", "cuda:all"]),  # and at equals signs
        (("discover", "--device", "=", "sim", ":", "gtx9"), ["gtx980"]),
        (("export", "r.json", "--format", "=", "mt"), ["mt4g"]),
        (("mix", "--run", "fa"), ["fadd"]),
        (("predict", str(HIDING), "--run", "ldg"), ["ldg_streaming"]),
        (("predict", str(HIDING), "--run", "ldg_streaming", ":", "1,mma"), []),  # which this result does not know
        (("predict", "no.json", "--run", "ldg_streaming", ":", "1,fa"), ["1,fadd"]),
        (("predict", str(HIDING), "--warps", "8", "--access", "ld"), ["ldg_streaming"]),
        (("mix", "--run", "fadd", ":", "4,mma_f"), ["4,mma_f16", "4,mma_f64"]),
    ],
)
def test_what_is_offered(script, words, wanted):
    assert offered(script, *words) == wanted


@pytest.mark.parametrize("name", [
    "zz;touch${IFS}X;#", "a&b", "a b", "a$(b)", "a`b`", "a|b", "a\nb", "a*", "a'b", 'a"b', "a\\b", "a>b", "~a", "a!b",
])  # fmt: skip
def test_names_with_a_meaning_to_shells_are_not_offered(monkeypatch, tmp_path, name):
    monkeypatch.setattr(recording, "is_recording", lambda path: True)
    monkeypatch.chdir(tmp_path)
    for each in (name, "run-1_a.b"):
        (tmp_path / each).mkdir()
    assert complete.devices("rec:") == ["rec:run-1_a.b"]


def test_after_a_bare_colon_come_all_names(script):
    assert {"gtx980", "h200"} <= set(offered(script, "discover", "-d", "sim", ":"))


def test_after_a_bare_equals_sign_come_all_devices(script):
    assert {"cuda:0", "sim:gtx980"} <= set(offered(script, "discover", "--device", "="))
