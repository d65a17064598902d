"""The command as a process of its own: pipes, signals, and the real simulated GPU."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gpudissect
from gpudissect.results.files import load

COMMAND = [sys.executable, "-m", "gpudissect"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(gpudissect.__file__).parents[1])}


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=60, **options
    )


def test_records_and_replays_a_simulated_gpu_bit_for_bit(tmp_path):
    one = run("discover", "-d", "sim:gtx980", "--only", "l1", "--record", "rec", "-o", "one.json", cwd=tmp_path)
    assert one.returncode == 0
    two = run("discover", "-d", "rec:rec", "--json", cwd=tmp_path)
    assert two.returncode == 0
    assert json.loads(two.stdout)["findings"] == json.loads((tmp_path / "one.json").read_text())["findings"]
    chased = run("chase", "-d", "rec:rec", cwd=tmp_path)
    assert chased.returncode == 3
    assert "holds no workload" in chased.stderr
    assert chased.stderr.count("\n") == 1


def _heed_ctrl_c():
    """A shell's background job is started with Ctrl-C ignored, and so would be everything that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_in_the_middle_keeps_what_was_measured(tmp_path):
    command = [*COMMAND, "discover", "-d", "sim:a100", "-o", "r.json", "--record", "rec"]  # takes a while
    with subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_heed_ctrl_c
    ) as process:
        deadline = time.monotonic() + 30
        index = tmp_path / "rec" / "recording.jsonl"
        while not (index.exists() and index.read_bytes().count(b"\n") > 5):  # measuring has begun
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in err
    result = load(tmp_path / "r.json")
    assert result.interrupted
    assert any(finding.reason == "interrupted" for finding in result.findings)
    again = run("discover", "-d", "rec:rec", "--json", cwd=tmp_path)
    assert again.returncode == 4  # the recording is whole, and says that it ended early
    assert "it ended early" in again.stdout


def test_a_polite_kill_keeps_what_was_measured_too(tmp_path):
    command = [*COMMAND, "discover", "-d", "sim:a100", "-o", "r.json", "--record", "rec"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_heed_ctrl_c
    ) as process:
        index = tmp_path / "rec" / "recording.jsonl"
        while not (index.exists() and index.read_bytes().count(b"\n") > 5):
            assert process.poll() is None
            time.sleep(0.02)
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"interrupted" in err
    assert load(tmp_path / "r.json").interrupted


def test_closed_streams_change_no_exit_code():
    closed = [*COMMAND, "chase", "-d", "nope"]
    assert subprocess.run(f"{' '.join(closed)} 2>&-", shell=True, env=ENVIRONMENT, check=False).returncode == 3
    assert (
        subprocess.run(f"{' '.join(closed)} >&- 2>/dev/full", shell=True, env=ENVIRONMENT, check=False).returncode == 3
    )
    full = subprocess.run(f"{' '.join([*COMMAND, 'schema'])} >/dev/full", shell=True, env=ENVIRONMENT, check=False,
                          capture_output=True)  # fmt: skip
    assert full.returncode == 2
    assert b"cannot write the output" in full.stderr


def test_a_reader_that_leaves_is_no_error():
    process = subprocess.Popen([*COMMAND, "schema"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == 0


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder where even root cannot write")
@pytest.mark.parametrize("option", ["-o", "--record"])
def test_a_folder_that_cannot_be_written_is_known_before_measuring(option):
    done = run("discover", "-d", "sim:gtx980", option, "/proc/self/x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gpudissect: error: cannot ")
    assert done.stderr.count("\n") == 1


def test_a_full_disk_is_one_line_and_2():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    done = run("discover", "-d", "sim:gtx980", "--only", "timer", "-o", "/dev/full")
    assert done.returncode == 2
    assert done.stderr.endswith("gpudissect: error: cannot write /dev/full: No space left on device\n")


def test_no_colours_and_no_bar_in_a_pipe():
    done = run("discover", "-d", "sim:gtx980?noise=none", "--only", "timer")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr


def test_a_terminal_without_unicode_is_served():
    options = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run([*COMMAND, "devices"], capture_output=True, env=options, timeout=60)
    assert done.returncode == 0
    done.stdout.decode("ascii")


def test_no_module_comes_from_the_working_folder(tmp_path):
    (tmp_path / "json.py").write_text("open('was_run', 'w').close()\n")
    environment = {key: value for key, value in ENVIRONMENT.items() if key != "PYTHONSAFEPATH"}
    command = [sys.executable, "-m", "gpudissect", "schema"]
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert not (tmp_path / "was_run").exists()
