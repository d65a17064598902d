"""Scripts of this repository that use the inside of the package run to their end."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import gpudissect

ROOT = Path(__file__).parents[1]


def run(script, *arguments):
    command = [sys.executable, str(ROOT / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)


def test_a_survey_is_timed_in_both_processes():
    ended = run("benchmarks/time_survey.py", "sim:gtx280", "--quick")
    rows = dict(line.strip("| ").split(" | ") for line in ended.stdout.splitlines() if line.startswith("| "))
    assert ended.returncode == 0, ended.stderr
    assert float(rows["survey: plans"]) > 0 and float(rows["device: run"]) > 0


def test_the_longest_experiments_of_a_survey_are_listed():
    ended = run("benchmarks/survey_timeline.py", "sim:gtx280", "--quick", "--rows", 2)
    assert ended.returncode == 0, ended.stderr
    *_, first, second, _, infer = ended.stdout.splitlines()
    _, begin, end, rounds, *times = first.strip("| ").split(" | ")
    assert 0 <= float(begin) < float(end) and int(rounds) > 0 and max(map(float, times)) > 0
    assert second.startswith("|") and "%" in infer


def test_a_thinned_recording_replays_to_the_same_values(tmp_path):
    recorded, file, thin = (tmp_path / name for name in ("recorded", "result.json", "thin"))
    file.write_text(gpudissect.discover("sim:gtx980", only=["tlb_l2"], record=recorded).to_json())
    ended = run("validation/thin_recording.py", recorded, file, thin, "--step", 4)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    header = json.loads(gzip.decompress((thin / "recording.jsonl.gz").read_bytes()).splitlines()[0])
    assert int(re.match(r"cycles of (\d+) chases", header["rounded"])[1]) > 0
