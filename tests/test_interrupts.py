"""Stop signals from the last measurement until the result is saved, in the command and in Python."""

import json
import os
import signal
import subprocess
import sys
import threading
import warnings

import pytest

import gpudissect as gd
from gpudissect import interrupts, study
from gpudissect.cli.app import main
from gpudissect.interrupts import delayed, interruptible, uninterrupted
from gpudissect.survey.drive import Drive
from tests.cli.test_process import ENVIRONMENT

TIMER = ("discover", "-d", "sim:gtx980", "--only", "timer", "-o")


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """The handlers of Python, and those before the test after it."""
    monkeypatch.setattr(interrupts, "_requested", False)
    before = {number: signal.getsignal(number) for number in interrupts.STOP_SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupt(count: int = 1) -> None:
    for _ in range(count):
        os.kill(os.getpid(), signal.SIGINT)


def before(monkeypatch, owner: object, name: str, action) -> None:
    """Let `action` run before each call of a function."""
    function = getattr(owner, name)

    def both(*arguments, **options):
        action()
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, both)


@pytest.mark.parametrize("moment", ["build", "with_evidence", "write_bytes"])
def test_signals_after_the_last_measurement_cost_no_result(moment, tmp_path, monkeypatch, capsys):
    before(monkeypatch, study, moment, lambda: interrupt(3))
    assert main([*TIMER, str(tmp_path / "r.json")]) == 130
    result = json.loads((tmp_path / "r.json").read_text())
    assert not result["interrupted"] and {each["status"] for each in result["findings"]} == {"found"}
    _, err = capsys.readouterr()
    assert err == "gpudissect: interrupted; findings up to then are kept\n"


@pytest.mark.parametrize("moment", ["conclude", "_stop_early", "statements"])
def test_more_signals_after_the_first_cost_nothing_that_was_measured(moment, tmp_path, monkeypatch, capsys):
    before(monkeypatch, Drive, moment, lambda: interrupt(2))
    batches = []
    before(monkeypatch, Drive, "_collect", lambda: batches.append(0) or (len(batches) == 4 and interrupt()))
    path = tmp_path / "r.json"
    assert main(["hide", "-d", "sim:gtx980", "--access", "rsq", "-o", str(path)]) == 130
    result = json.loads(path.read_text())
    assert result["interrupted"] and "found" in {each["status"] for each in result["findings"]}
    _, err = capsys.readouterr()
    assert err == "gpudissect: interrupted; findings up to then are kept\n"


def test_a_signal_before_a_pipe_costs_no_result(tmp_path, monkeypatch):
    reader, writer = os.pipe()
    before(monkeypatch, study, "build", interrupt)
    assert main([*TIMER, f"/dev/fd/{writer}"]) == 130
    os.close(writer)
    with open(reader, "rb") as file:
        assert json.load(file)["findings"]


def test_a_second_signal_does_not_end_the_clean_up_after_the_first():
    done = []
    with uninterrupted(), pytest.raises(KeyboardInterrupt), interruptible():
        try:
            interrupt()
        finally:
            interrupt()
            done.append(1)
    assert done


def test_a_handler_that_raises_while_the_others_are_restored_leaves_no_signal_held(monkeypatch):
    def restore(number, handler):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), uninterrupted():
        patch.setattr(signal, "signal", restore)
    assert interrupts._hold_until == 0


def test_in_python_the_result_of_a_complete_run_is_returned_with_a_warning(monkeypatch):
    before(monkeypatch, study, "build", interrupt)
    with pytest.warns(UserWarning, match="interrupted; the result holds"):
        result = gd.discover("sim:gtx980", only="timer")
    assert not result.interrupted and result.finding("timer", "overhead").value is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_python_a_handler_of_the_caller_is_called_at_once_or_after_the_run(monkeypatch):
    received = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    before(monkeypatch, study, "with_evidence", interrupt)
    before(monkeypatch, study, "with_evidence", lambda: received.append("evidence"))
    before(monkeypatch, Drive, "_start", interrupt)
    with warnings.catch_warnings(action="error"):
        result = gd.discover("sim:gtx980", only="timer")
    assert not result.interrupted and received == [signal.SIGINT, "evidence", signal.SIGINT]


def test_a_handler_of_the_caller_may_end_the_program_after_the_files_are_saved(tmp_path, monkeypatch):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    before(monkeypatch, study, "build", lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit, match="7"):
        gd.discover("sim:gtx980", only="timer", html=tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 0


def test_other_threads_neither_hold_nor_obey_signals():
    def work() -> None:
        with uninterrupted() as held, interruptible(), delayed():
            results.append((gd.discover("sim:gtx980", only="timer").interrupted, held))

    results = []
    thread = threading.Thread(target=work)
    with uninterrupted() as held:
        interrupt()
        thread.start()
        thread.join()
        interrupt()
    assert results == [(False, set())] and held == {signal.SIGINT}


def test_a_signal_with_its_default_action_ends_the_process():
    code = "import os; from gpudissect.interrupts import uninterrupted\nwith uninterrupted(): os.kill(os.getpid(), 15)"
    assert subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=False).returncode == -signal.SIGTERM
