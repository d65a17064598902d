"""Completion in a real bash: the script that typer writes, called as bash calls it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpudissect
from gpudissect.cli import completion
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
    environment = {**ENVIRONMENT, "_GPUDISSECT_COMPLETE": "source_bash"}
    written = subprocess.run([command], env=environment, capture_output=True, text=True, check=True)
    (folder / "complete.bash").write_text(written.stdout)
    return folder / "complete.bash"


def completions(script: Path, *words: str) -> list[str]:
    """What bash would offer for the last word; words as bash splits them."""
    function = next(line.split("()")[0] for line in script.read_text().splitlines() if "()" in line)
    quoted = " ".join(f"'{word}'" for word in ("gpudissect", *words))
    call = f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; {function} gpudissect"
    environment = {**ENVIRONMENT, "PATH": f"{script.parent}:{os.environ['PATH']}"}
    command = ["bash", "-c", f'{call}; printf "%s\\n" "${{COMPREPLY[@]}}"']
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=script.parent, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("disc",), ["discover"]),
        (("discover", "-d", "cu"), ["cuda:0", "cuda:all"]),
        (("discover", "-d", "sim", ":", "gtx9"), ["gtx980"]),  # bash splits words at colons
        (("discover", "--only", "tlb"), ["tlb_l1", "tlb_l2", "tlb_l3"]),
        (("discover", "-d", "sim", ":", "gtx980", "--only", "te"), ["texture"]),
        (("hide", "--access", "stri"), ["stride2"]),
        (("discover", "--device", "=", "cu"), ["cuda:0", "cuda:all"]),  # and at equals signs
        (("discover", "--device", "=", "sim", ":", "gtx9"), ["gtx980"]),
        (("export", "r.json", "--format", "=", "mt"), ["mt4g"]),
        (("get", str(HIDING), "hiding.cusp"), ["hiding.cusp_alpha", "hiding.cusp_warps"]),
        (("get", "-d", "cuda", ":", "0", "l1.ca"), ["l1.capacity"]),
        (("get", "l1.ca"), []),  # a file comes first
        (("mix", "--run", "fa"), ["fadd"]),
        (("mix", "--run", "fadd", ":", "4,mma_f"), ["4,mma_f16", "4,mma_f64"]),
        (("predict", str(HIDING), "--run", "ldg"), ["ldg_streaming"]),
        (("predict", str(HIDING), "--run", "ldg_streaming", ":", "1,mma"), []),  # not in this result
        (("predict", "no.json", "--run", "ldg_streaming", ":", "1,fa"), ["1,fadd"]),
        (("predict", str(HIDING), "--warps", "8", "--access", "ld"), ["ldg_streaming"]),
    ],
)
def test_completions(script, words, expected):
    assert completions(script, *words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [(("discover", "-d", "sim", ":"), {"gtx980", "h200"}), (("discover", "--device", "="), {"cuda:0", "sim:gtx980"})],
)
def test_all_names_follow_a_bare_colon_or_equals_sign(script, words, expected):
    assert expected <= set(completions(script, *words))


UNSAFE = ["zz;touch${IFS}X;#", "a&b", "a b", "a$(b)", "a`b`", "a\nb", "a*", "a'b", 'a"b', "a\\b", "a>b", "~a", "a!b"]


@pytest.mark.parametrize("name", [*UNSAFE, "a|b"])
def test_names_with_a_meaning_to_shells_are_not_offered(monkeypatch, tmp_path, name):
    monkeypatch.setattr(recording, "is_recording", lambda path: True)
    monkeypatch.chdir(tmp_path)
    for folder in (name, "run-1_a.b"):
        (tmp_path / folder).mkdir()
    assert completion.devices("rec:") == ["rec:run-1_a.b"]
