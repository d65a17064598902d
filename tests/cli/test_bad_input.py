"""Input that is wrong on purpose, and signals at unlucky moments: one short line, the right exit code, nothing lost."""

import errno
import json
import os
import pickle
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import gpudissect as gd
from gpudissect import interrupts
from gpudissect.catalogue.load import _FOLDER
from gpudissect.cli.app import main
from gpudissect.cli.console import print_json
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.device.simulated import throughput
from gpudissect.errors import MAX_LINE, MAX_MESSAGE, RecordingError, UnsupportedWorkload, UsageError
from gpudissect.interrupts import PATIENCE_S
from gpudissect.results import files
from gpudissect.simulation.cache import models
from tests.cli.test_process import COMMAND, ENVIRONMENT, _default_ctrl_c

GTX980 = (_FOLDER / "gtx980.toml").read_text()
CHASE = gd.Chase(path=gd.Path.GLOBAL, order=gd.Sequential(4, 32), timing=gd.Timing.EACH)
UNDECODABLE = os.fsdecode(b"a\xff")


@pytest.fixture
def error_of(tmp_path, monkeypatch, capsys):
    """The exit code and the only line on stderr of a command, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str]:
        code = main(words)
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and len(err) <= MAX_LINE + len("\n")
        return code, err

    return call


def popen(*words: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_default_ctrl_c, **options
    )


@pytest.mark.parametrize("module", ["typer", "numpy._core.multiarray"])
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_python_imports_ends_with_130(module, stop):
    words = (COMMAND[0], "-X", "importtime", *COMMAND[1:], "chase", "-d", "sim:gtx980")
    with popen(*words) as process:
        for line in process.stderr:
            if line.endswith(f" {module}\n".encode()):
                break
        process.send_signal(stop)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert b"Traceback" not in rest


def test_a_pipe_without_a_reader_does_not_hold_off_a_signal(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with popen(*COMMAND, "discover", "-d", "sim:gtx980", "--only", "timer", "-o", "pipe", cwd=tmp_path) as process:
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


HELD = """
import signal, time
from gpudissect.interrupts import PATIENCE_S, catch_stop_signals, stop_requested, uninterrupted
catch_stop_signals()
with uninterrupted(PATIENCE_S):
    print(flush=True)
    time.sleep(1.5)
    assert stop_requested()
    print("saved", flush=True)
    time.sleep(30)
"""


def test_signals_are_held_off_once():
    with popen(COMMAND[0], "-c", HELD) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"saved\n"
        time.sleep(PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert b"KeyboardInterrupt" in err


CALLBACK = """
import os, signal
import gpudissect.__main__ as command
import gpudissect.cli.app as app
from gpudissect.interrupts import catch_stop_signals
class Lost:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
def run():
    catch_stop_signals()
    Lost()
    return 130
app.main = run
command.main()
"""


def test_a_signal_in_a_callback_prints_no_traceback():
    with popen(COMMAND[0], "-c", CALLBACK) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")


def test_after_a_signal_a_pipe_without_a_reader_is_not_awaited(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(files, "stop_requested", lambda: True)
    with pytest.raises(UsageError, match="cannot write"):
        files.write_text(tmp_path / "pipe", "text")


def test_a_signal_that_was_held_off_is_obeyed_where_measuring_goes_on():
    with pytest.raises(KeyboardInterrupt), interrupts.uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        with interrupts.interruptible():
            pytest.fail("another batch would run here")


def test_a_signal_whose_exception_an_import_loses_is_an_interrupt(monkeypatch, capsys):
    def lost(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("numpy cannot be imported") from None

    monkeypatch.setattr("gpudissect.device.kinds.list_devices", lost)
    monkeypatch.setattr(interrupts, "_requested", False)  # so that it is restored
    assert main(["devices"]) == 130
    assert capsys.readouterr().err == "gpudissect: interrupted\n"


@pytest.mark.parametrize(
    "words",
    [
        ("chase", "-d", "sim:" + "g" * 260),
        ("chase", "-d", "sim:gtx980", "--size", "1KiB", "--record", "/".join(["d"] * 1500)),
        ("show", "n" * 5000),
        ("discover", "--only", "l" * 5000),
        ("--install-completion", "nope"),
        ("chase", "-d", "sim:gtx980", "--laps", "10000000", "--size", "64"),
        ("chase", "-d", "sim:gtx980", "--size", "512MiB", "--order", "random"),
        ("chase", "-d", "sim:gtx980", "--size", "1MiB", "--timing", "lap", "--warmup", "60000"),
        ("discover", "-d", "sim:gtx980", "-o", "mine.toml"),
    ],
)
def test_errors_are_one_short_line(words, error_of):
    code, _ = error_of(*words)
    assert code in (2, 3)


def test_errors_of_python_are_as_short():
    assert len(str(UsageError("x" * 10_000 + "\n" + "y"))) == MAX_MESSAGE


def test_the_longest_error_fits_into_a_line(error_of):
    code, err = error_of("show", "x" * 1000)
    assert (code, len(err)) == (2, MAX_LINE + len("\n"))


def test_a_working_folder_that_was_removed(error_of, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code = main(["discover", "-d", "sim:gtx980", "--only", "timer", "-o", "x.json"])
    assert code == 2
    os.chdir("/")


@pytest.mark.parametrize(
    ("section", "option", "word"), [("ldg", "global", "shared"), ("lds", "shared", "global"), ("sts", "shared", "glob")]
)
def test_streams_need_the_instructions_that_they_consist_of(section, option, word, error_of):
    begin, _, rest = GTX980.partition(f"[units.{section}]\n")
    Path("g.toml").write_text(begin + rest[rest.index("[") :])
    code, err = error_of("stream", "-d", "sim:g.toml", "--path", option)
    assert code == 3 and f"its paths: {word}" in err


def test_a_path_without_latency_of_memory_is_named(error_of):
    Path("g.toml").write_text(GTX980.replace("\nmemory_latency", "\n#", 1))
    code, err = error_of("chase", "-d", "sim:g.toml")
    assert code == 3 and "g.toml: paths.global.memory_latency" in err


def test_an_impossible_cache_is_named_with_its_file(error_of):
    changed = GTX980.replace("fetch_granularity = { value = 32,", "fetch_granularity = { value = 12,")
    Path("g.toml").write_text(changed)
    code, err = error_of("chase", "-d", "sim:g.toml")
    assert code == 3 and "g.toml" in err


def test_mixes_and_caches_are_bounded_before_memory_is_allocated(monkeypatch):
    monkeypatch.setattr(throughput, "MAX_RECORDS", 1000)
    mix = gd.Mix(body=(gd.Step(gd.Instruction.FADD),), warps=64, block_size=1024, iterations=1)
    with gd.open_device("sim:gtx980") as device:
        with pytest.raises(UnsupportedWorkload, match="1000 warps"):
            device.run([mix])
        monkeypatch.setattr(models, "MAX_SIMULATED_LINES", 1000)
        with pytest.raises(UnsupportedWorkload, match="1000 lines"):
            device.run([CHASE])


def recording(folder: Path, *, header: object = None, end: object = None, context: object = None) -> Path:
    """A recording of a chase with values in its header, context and end replaced; checksums are right."""
    from gpudissect.device.recording import format as recordings

    with gd.open_device("sim:gtx980") as device, Recorder(device, folder) as recorder:
        recorder.run([CHASE])
    index, arrays = folder / recordings.INDEX, (folder / recordings.ARRAYS).read_bytes()
    check, used, lines = "", 0, []
    for line in index.read_bytes().splitlines():
        entry = json.loads(line)
        del entry["check"]
        if "schema" in entry and header is not None:
            header(entry)
        if "context" in entry and "trace" not in entry and context is not None:
            context(entry["context"])
        if "end" in entry and end is not None:
            entry["end"] = end
        body, size = json.dumps(entry, separators=(",", ":")).encode(), entry.get("bytes", 0)
        check = recordings._link(check, body, arrays[used : used + size])
        used += size
        lines.append(body[:-1] + f',"check":"{check}"}}\n'.encode())
    index.write_bytes(b"".join(lines))
    return folder


@pytest.mark.parametrize(
    "change",
    [
        {"end": [1]},
        {"context": lambda context: context.update(clock_hz=5e-324)},
        {"context": lambda context: context.update(clock_hz=float("inf"))},
        {"context": lambda context: context.update(device="\udcff")},
        {"header": lambda header: header["device"]["facts"].update(clock_hz=1e300)},
        {"header": lambda header: header["device"]["facts"].update(l2_size=10**300)},
        {"header": lambda header: header["device"]["facts"].update(l2_size=float("nan"))},
    ],
    ids=range(7),
)
def test_forged_recordings_are_refused(change, tmp_path):
    with pytest.raises(RecordingError):
        RecordedGpu.open(recording(tmp_path / "rec", **change))


def test_elements_of_a_recording_may_be_anything(error_of):
    recording(Path("rec"), header=lambda header: header.update(options={"elements": [["hiding"]]}))
    for command in ("hide", "discover"):
        assert error_of(command, "-d", "rec:rec")[0] == 3


def test_a_recording_with_a_question_mark_in_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recording(tmp_path / "a?b")
    with gd.open_device("rec:a?b") as device:
        assert device.run([CHASE])[0].cycles.size == 4
    with pytest.raises(UsageError, match="it is an input"):
        files.check_apart_from_run(tmp_path / "a?b" / "recording.jsonl", "rec:a?b", None)


def test_a_recording_that_is_removed_while_measuring(tmp_path):
    with gd.open_device("sim:gtx980") as device:
        recorder = Recorder(device, tmp_path / "rec")
        recorder.run([CHASE])
        (tmp_path / "rec" / "recording.jsonl").unlink()
        with pytest.raises(UsageError, match="was removed while measuring"):
            recorder.close()


def test_names_that_are_not_utf8(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(f"{UNDECODABLE}.toml").write_text(GTX980)
    for words in (("-d", f"sim:{UNDECODABLE}.toml", "--record", UNDECODABLE), ("-d", f"rec:{UNDECODABLE}")):
        assert main(["discover", *words, "--only", "timer", "-o", f"{UNDECODABLE}.json"]) == 0
    assert files.load(Path(f"{UNDECODABLE}.json")).device.spec == "rec:a\\udcff"


@pytest.mark.parametrize("value", ["0", "{}", '""'])
def test_a_result_of_many_values_is_refused_before_it_is_parsed(value, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_parse", lambda _: pytest.fail("parsed"))
    many = ",".join([value] * files.MAX_VALUES)
    (tmp_path / "r.json").write_text(f'{{"schema": "gpudissect/2", "findings": [{{"value": [{many}]}}]}}')
    with pytest.raises(UsageError, match=rf"it has \d+ values, allowed: up to {files.MAX_VALUES}"):
        files.load(tmp_path / "r.json")


def test_the_smallest_number_is_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["discover", "-d", "sim:gtx980", "--only", "timer", "-o", "a.json"]) == 0
    content = json.loads(Path("a.json").read_text())
    content["findings"][0] |= {"value": 5e-324, "low": 5e-324, "high": 5e-324}
    Path("b.json").write_text(json.dumps(content))
    assert main(["compare", "a.json", "b.json"]) == 0
    content["device"]["name"] = "n" * 5000
    content["device"]["spec"] = "n" * 5000
    Path("b.json").write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["show", "b.json"]) == 0
    assert len(capsys.readouterr().out) < 3000
    assert main(["check", "a.json", "a.json"]) == 0
    assert "named twice" in capsys.readouterr().err


def test_a_private_result_stays_private(tmp_path):
    (tmp_path / "r.json").write_text("")
    (tmp_path / "r.json").chmod(0o600)
    files.write_text(tmp_path / "r.json", "new")
    assert (tmp_path / "r.json").stat().st_mode & 0o777 == 0o600


def test_json_on_a_terminal_has_no_control_characters(capsys):
    print_json(json.dumps("\x9b31m\x7f\u202e", ensure_ascii=False))
    assert capsys.readouterr().out == '"\\u009b31m\\u007f\\u202e"\n'


def test_a_gpu_without_mixes_cannot_hide(error_of):
    text = (
        GTX980[: GTX980.index("[processor]")] + GTX980[GTX980.index("[published") :] if "[published" in GTX980 else ""
    )
    Path("g.toml").write_text(text or GTX980[: GTX980.index("[processor]")])
    code, err = error_of("hide", "-d", "sim:g.toml")
    assert code == 3 and "no mixes" in err


@pytest.mark.parametrize(
    ("error", "text"), [(MemoryError(), "out of memory"), (OSError(errno.EMFILE, "Too many open files"), "ulimit -n")]
)
def test_an_exhausted_limit_is_no_bug(error, text, monkeypatch, error_of):
    def full() -> None:
        raise error

    monkeypatch.setattr("gpudissect.device.kinds.list_devices", full)
    code, err = error_of("devices")
    assert code == 2 and text in err


def test_python_takes_any_sequence_and_any_whole_number():
    result = gd.discover("sim:gtx980", only=(name for name in ["timer"]), quick=np.bool_(1), seed=np.int64(3))
    assert result.findings and result.options.seed == 3 and result.options.quick
    assert gd.discover("sim:gtx980", only="timer", quick=1).options.quick
    trace = gd.chase("sim:gtx980", size=np.int64(1024), laps=np.int64(2))
    again = pickle.loads(pickle.dumps(trace))
    assert again.cycles.tolist() == trace.cycles.tolist() and again.request == trace.request


@pytest.mark.parametrize("seed", [-1, 2**70, float("nan"), "a"])
def test_python_refuses_impossible_seeds(seed):
    with pytest.raises(UsageError, match="seed"):
        gd.discover("sim:gtx980", only="timer", seed=seed)
    with pytest.raises(UsageError, match="seed"):
        gd.open_device("sim:gtx980", seed=seed)


@pytest.mark.parametrize("precision", [0, -1, 101, float("nan"), float("inf"), "a", True, 10**400])
def test_python_refuses_impossible_precisions(precision):
    with pytest.raises(UsageError, match="percentage"):
        gd.discover("sim:gtx980", only="timer", precision=precision)


def test_a_profile_takes_no_precision(error_of):
    code, err = error_of("discover", "-d", "sim:gtx980", "--profile", "health", "--precision", "1")
    assert code == 2 and "--precision" in err


def test_python_refuses_other_values_of_flags_and_counts():
    with pytest.raises(UsageError, match="quick is True or False"):
        gd.discover("sim:gtx980", only="timer", quick=2)
    with pytest.raises(UsageError, match="laps of a chase must be a whole number"):
        gd.chase("sim:gtx980", laps=2.5)
    with pytest.raises(UsageError, match="workload must be"):
        gd.run([1])


@pytest.mark.parametrize(("name", "limit"), [("arrays.bin", 1 << 28), ("recording.jsonl", 1 << 26)])
def test_large_files_of_a_recording_are_not_read(name, limit, tmp_path):
    with (recording(tmp_path / "rec") / name).open("r+b") as file:
        file.truncate(limit + 1)
    with pytest.raises(RecordingError, match=f"{name} has more than {limit} bytes"):
        RecordedGpu.open(tmp_path / "rec")
