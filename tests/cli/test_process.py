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
from gpudissect.__main__ import _named_device
from gpudissect.cli import console
from gpudissect.results.files import load

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "tests" / "recordings" / "kernels" / "h200" / "hamming.json"
H200 = ROOT / "docs" / "results" / "h200.json"
COMMAND = [sys.executable, "-m", "gpudissect"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(gpudissect.__file__).parents[1])}


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=60, **options
    )


def test_a_recording_of_a_simulated_gpu_replays_bit_for_bit(tmp_path):
    options = ("--only", "l1", "--quick", "--record", "rec", "-o", "one.json")
    one = run("discover", "-d", "sim:gtx980", *options, cwd=tmp_path)
    assert one.returncode == 0
    two = run("discover", "-d", "rec:rec", "--json", cwd=tmp_path)
    assert two.returncode == 0
    assert json.loads(two.stdout)["findings"] == json.loads((tmp_path / "one.json").read_text())["findings"]
    chase = run("chase", "-d", "rec:rec", cwd=tmp_path)
    assert chase.returncode == 3
    assert "no workload" in chase.stderr and chase.stderr.count("\n") == 1


def _default_ctrl_c():
    """Background jobs of a shell are started with Ctrl-C ignored, which their children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_measuring_keeps_what_was_measured(tmp_path, stop):
    command = [*COMMAND, "discover", "-d", "sim:a100", "-o", "r.json", "--record", "rec"]  # takes a while
    options = {"cwd": tmp_path, "env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **options, preexec_fn=_default_ctrl_c) as process:
        index = tmp_path / "rec" / "recording.jsonl"
        while not (index.exists() and index.read_bytes().count(b"\n") > 5):  # measuring has begun
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(stop)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in err and b"Traceback" not in err
    result = load(tmp_path / "r.json")
    assert result.interrupted
    assert any(finding.reason == "interrupted" for finding in result.findings)
    if stop == signal.SIGINT:
        again = run("discover", "-d", "rec:rec", "--json", cwd=tmp_path)
        found = any(finding["status"] == "found" for finding in json.loads(again.stdout)["findings"])
        assert again.returncode == (4 if found else 3)  # the recording is readable, and reports that it ended early
        assert "it ended early" in again.stdout


LOST = """
import time
from gpudissect.cli.console import stopped_at_once
from gpudissect.interrupts import catch_stop_signals
catch_stop_signals()
with stopped_at_once("nothing was written"):
    print(flush=True)
    while True:
        try:
            time.sleep(9)
        except KeyboardInterrupt:  # as in a callback of a compiler
            pass
"""


def test_a_signal_whose_exception_is_lost_ends_the_process():
    options = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", LOST], **options) as process:
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted; nothing was written" in err and err.count(b"\n") == 1


IN_AN_IMPORT = """
import os, signal, sys
class Finder:
    count = 1
    def find_spec(self, name, path=None, target=None):
        if name == "numpy.dtypes" and self.count:
            self.count -= 1
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from gpudissect.__main__ import main
main()
"""


def test_a_signal_in_an_import_is_reported_in_one_line():
    command = [sys.executable, "-c", IN_AN_IMPORT, "explain", str(RECORDING), "--machine", str(H200)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=60, preexec_fn=_default_ctrl_c)
    assert (done.returncode, done.stdout) == (130, b"")
    assert b"interrupted" in done.stderr and done.stderr.count(b"\n") == 1


def test_a_signal_in_an_import_does_not_wait_for_a_device_that_started_before():
    command = [sys.executable, "-c", IN_AN_IMPORT, "discover", "-d", "sim:gtx980", "--quick"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=60, preexec_fn=_default_ctrl_c)
    assert (done.returncode, done.stdout) == (130, b"")


@pytest.mark.parametrize(
    ("arguments", "device"),
    [
        ("discover -d sim:a --seed=3", ("sim:a", 3)),
        ("hide --device=sim:a", ("sim:a", 0)),
        ("discover -d sim:a -d sim:b", ("sim:b", 0)),
        ("discover -d sim:a --device sim:b", (None, 0)),
        ("discover -d sim:a --seed x", (None, 0)),
        ("discover -d", (None, 0)),
        ("discover -d sim:a --help", (None, 0)),
        ("chase -d sim:a", (None, 0)),
        ("", (None, 0)),
        (f"discover -d sim:a --seed {'1' * 5000}", (None, 0)),
    ],
)
def test_a_device_is_found_in_the_arguments(arguments, device):
    assert _named_device(arguments.split()) == device


@pytest.mark.parametrize("files", range(6, 12, 2))
def test_too_few_open_files_end_in_one_line(files):
    command = ["bash", "-c", f'ulimit -n {files}; exec "$0" -m gpudissect discover -d sim:gtx980 --only timer']
    done = subprocess.run([*command, sys.executable], env=ENVIRONMENT, capture_output=True, timeout=60)
    assert done.returncode == 3 and done.stderr.count(b"\n") == 1


def test_a_second_signal_does_not_cut_the_message_of_the_first(monkeypatch, capsys):
    def print_and_interrupt(message):
        os.kill(os.getpid(), signal.SIGINT)
        print(message, file=sys.stderr)

    monkeypatch.setattr(console, "print_note", print_and_interrupt)
    console.print_interrupted()
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("chase -d nope 2>&-", 3),
        ("chase -d nope >&- 2>/dev/full", 3),
        ("schema >/dev/full", 2),
        ("discover -d sim:gtx980 --only timer >&- 2>&-", 0),
    ],
)
def test_closed_and_full_streams_change_no_exit_code(command, code):
    line = f"{' '.join(COMMAND)} {command}"
    done = subprocess.run(line, shell=True, env=ENVIRONMENT, check=False, capture_output=True)
    assert done.returncode == code
    assert code != 2 or b"cannot write the output" in done.stderr


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
    assert done.stderr.startswith("gpudissect: error: cannot ") and done.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_costs_neither_the_page_nor_the_printed_explanation(tmp_path):
    page = tmp_path / "page.html"
    done = run("explain", str(RECORDING), "--machine", str(H200), "-o", "/dev/full", "--html", str(page))
    assert done.returncode == 2 and "Limited by" in done.stdout and "</html>" in page.read_text()
    assert f"wrote {page}" in done.stderr and "wrote /dev/full" not in done.stderr
    assert done.stderr.endswith("gpudissect: error: cannot write /dev/full: No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_after_measuring_is_one_line_and_4():
    done = run("discover", "-d", "sim:gtx980", "--only", "timer", "-o", "/dev/full")
    assert done.returncode == 4
    assert done.stderr.endswith("gpudissect: error: cannot write /dev/full: No space left on device\n")


def test_no_colours_and_no_bar_in_a_pipe():
    done = run("discover", "-d", "sim:gtx980?noise=none", "--only", "timer")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr


def test_a_terminal_without_unicode():
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run([*COMMAND, "devices"], capture_output=True, env=environment, timeout=60)
    assert done.returncode == 0
    done.stdout.decode("ascii")


def test_no_module_is_imported_from_the_working_folder(tmp_path):
    (tmp_path / "json.py").write_text("open('was_run', 'w').close()\n")
    environment = {key: value for key, value in ENVIRONMENT.items() if key != "PYTHONSAFEPATH"}
    subprocess.run([*COMMAND, "schema"], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert not (tmp_path / "was_run").exists()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_a_recorded_kernel_is_explained_in_less_than_a_gigabyte():
    """By its own account: what the system reports of a child includes the parent that it was copied from."""
    code = """if True:
        import os, runpy, sys
        leave = os._exit
        os._exit = lambda code: (sys.stderr.write(open("/proc/self/status").read()), sys.stderr.flush(), leave(code))
        runpy.run_module("gpudissect", run_name="__main__")"""
    recording = ROOT / "tests" / "recordings" / "kernels" / "h200" / "attention.json"
    machine = ROOT / "docs" / "results" / "h200.json"
    command = [sys.executable, "-c", code, "explain", str(recording), "--machine", str(machine)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    (peak,) = (line.split()[1] for line in done.stderr.splitlines() if line.startswith("VmHWM:"))
    assert int(peak) << 10 < 1e9
