"""Child processes and temporary folders: limits, and what is left when a process ends at once."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpudissect import child_processes
from gpudissect.child_processes import run_limited, temporary_folder
from gpudissect.errors import UsageError
from gpudissect.interrupts import delayed
from tests.cli.test_process import COMMAND, ENVIRONMENT, ROOT, _default_ctrl_c

FAMILY = "sleep 300 & echo $! > child; echo started; wait"
MACROS = "".join(f"#define a{i} a{i - 1} a{i - 1}\n" for i in range(1, 30))
ENDLESS = f'#define a0 x+=1;\n{MACROS}extern "C" __global__ void k(int* p) {{ int x = 0; a29 *p = x; }}\n'


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_program_gets_input_and_gives_output():
    ended = run_limited(["sh", "-c", "cat; echo wrong >&2; exit 3"], given=b"data")
    assert (ended.code, ended.output, ended.messages) == (3, b"data", b"wrong\n")


def test_a_program_that_takes_too_long_ends_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(child_processes, "TIME_LIMIT_S", 1)
    with pytest.raises(TimeoutError, match="more than 1 s"):
        run_limited(["sh", "-c", FAMILY], folder=tmp_path)
    assert wait_for(lambda: not is_running(int((tmp_path / "child").read_text())))
    assert not child_processes._groups


def test_a_program_has_a_limit_of_memory():
    assert run_limited([sys.executable, "-c", "bytes(1 << 28)"]).code == 0
    assert run_limited([sys.executable, "-c", "bytes(2 << 30)"]).code != 0


def test_a_temporary_folder_is_removed():
    with temporary_folder() as folder:
        (folder / "file").write_text("x")
    assert not folder.exists() and not child_processes._folders


def test_a_signal_is_handled_after_what_was_started_is_noted():
    done, before = [], signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), delayed():
        os.kill(os.getpid(), signal.SIGINT)
        done.append(1)
    assert done and signal.getsignal(signal.SIGINT) is before


LOST = """
import sys, threading
from gpudissect.child_processes import run_limited, temporary_folder
from gpudissect.errors import UsageError
from gpudissect.cli.console import stopped_at_once
from gpudissect.interrupts import catch_stop_signals
catch_stop_signals()
with stopped_at_once("nothing was written"), temporary_folder() as folder:
    print(folder, flush=True)
    waiting = threading.Thread(target=run_limited, args=(["sh", "-c", sys.argv[1]],), kwargs={"folder": folder})
    waiting.start()
    while True:
        try:
            waiting.join()
        except KeyboardInterrupt:  # as in a callback of a compiler
            pass
"""


def test_a_process_that_ends_at_once_leaves_neither_children_nor_files():
    options = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", LOST, FAMILY], **options, preexec_fn=_default_ctrl_c) as process:
        folder = Path(process.stdout.readline().decode().strip())
        assert wait_for(lambda: (folder / "child").is_file() and (folder / "child").read_text().strip())
        child = int((folder / "child").read_text())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.count(b"\n")) == (130, 1)
    assert wait_for(lambda: not is_running(child)) and not folder.exists()


def test_a_signal_while_a_source_is_compiled_ends_the_compiler(tmp_path):
    (tmp_path / "k.cu").write_text(ENDLESS)
    (tmp_path / "files").mkdir()
    launch = ["--grid", "1", "--block", "32", "--trips", "none", "--machine", str(ROOT / "docs/results/h200.json")]
    options = {"env": ENVIRONMENT | {"TMPDIR": str(tmp_path / "files")}, "stderr": subprocess.PIPE}
    command = [*COMMAND, "explain", str(tmp_path / "k.cu"), *launch]
    with subprocess.Popen(command, **options, preexec_fn=_default_ctrl_c) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert wait_for(lambda: children.read_text().split())
        compiler = int(children.read_text().split()[0])
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.count(b"\n") == 1 and b"interrupted" in err
    assert wait_for(lambda: not is_running(compiler)) and not list((tmp_path / "files").iterdir())


@pytest.mark.parametrize("lower", [resource.RLIMIT_FSIZE, resource.RLIMIT_AS])
def test_a_lower_limit_of_the_user_remains_and_the_other_is_set(lower, monkeypatch):
    """`ulimit -f` in blocks of 512 bytes, `ulimit -v` in KiB."""
    own = 1 << 29
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (own, own if kind == lower else resource.RLIM_INFINITY))
    program = "sleep 0.2; ulimit -f; ulimit -v"
    found = [int(line) for line in run_limited(["sh", "-c", program]).output.split()]
    files, memory = child_processes._FILE_LIMIT_BYTES, child_processes.MEMORY_LIMIT_BYTES
    expected = (own, memory) if lower == resource.RLIMIT_FSIZE else (files, own)
    assert found == [expected[0] // 512, expected[1] // 1024]


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", ["TemporaryFile", "mkdtemp"])
@pytest.mark.parametrize(
    ("error", "text"), [(FULL, "set TMPDIR to another one"), (FileNotFoundError("none"), "no temporary folder")]
)
def test_a_temporary_folder_that_cannot_be_written_is_named(name, error, text, monkeypatch):
    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr(tempfile, name, fail)
    with pytest.raises(UsageError, match=text):
        if name == "mkdtemp":
            with temporary_folder():
                pass
        else:
            run_limited(["true"])


def test_what_a_program_wrote_into_a_full_folder_is_not_used(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
    with pytest.raises(UsageError, match="cannot write to the temporary folder"):
        run_limited(["echo", "the beginning of"])
