"""The command ``gpudissect``, also ``python -m gpudissect``: stop signals end it with 130 from the first import on."""

import contextlib
import os
import signal
import sys
from itertools import pairwise
from typing import NoReturn

INTERRUPTED = 130
STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def main() -> NoReturn:
    """Run the command line and exit, without freeing each object, which takes 0.1 s after a survey."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads spin, and matrices are small here
    from gpudissect.child_processes import collect_rarely, remove_children
    from gpudissect.device.child import started_early

    collect_rarely()
    spec, seed = _named_device(sys.argv[1:])
    with started_early(spec, seed):  # while slow modules are imported
        if spec == "cuda:all" and sys.argv[1] == "discover":
            from gpudissect.cli.every_gpu import start_early

            start_early(seed)
        code = _run()
        remove_children()  # it keeps their lock: nothing below it may end one
        _leave(code)


def _leave(code: int) -> NoReturn:
    for out in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):
            out.flush()
    os._exit(code)


def _stop(*_: object) -> NoReturn:
    """End at once, by a signal while modules are imported: these may lose an exception."""
    if end_children := getattr(sys.modules.get("gpudissect.child_processes"), "end_children", None):
        end_children()
    os._exit(INTERRUPTED)


def _named_device(arguments: list[str]) -> tuple[str | None, int]:
    """Device and seed of ``discover`` and ``hide`` if they are easy to find; the command reports what is wrong."""
    if not arguments or arguments[0] not in ("discover", "hide") or {"-h", "--help"} & {*arguments}:
        return None, 0
    words = [word for each in arguments for word in (each.split("=", 1) if each.startswith("--") else (each,))]
    options = dict(pairwise(words))
    seed, specs = options.get("--seed", "0"), [options[name] for name in ("-d", "--device") if name in options]
    if len(specs) != 1 or not (seed.isdecimal() and len(seed) <= 10):
        return None, 0
    return specs[0], int(seed)


def _run() -> int:
    """Run the command line and return its exit code."""
    from gpudissect.cli.app import main as run
    from gpudissect.interrupts import stop_requested

    hook = sys.unraisablehook  # a compiler's callback may lose the exception of a signal: no traceback
    sys.unraisablehook = lambda lost: None if stop_requested() else hook(lost)
    try:
        code = run()
        _ignore_signals()  # all is written: the exit code stays
    except KeyboardInterrupt:  # a second signal, while the first was reported
        _ignore_signals()
        code = INTERRUPTED
    return code


def _ignore_signals() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    try:
        if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # import no modules from the working folder
            del sys.path[0]
    except FileNotFoundError:  # the working folder was removed
        pass
    main()
