"""The command ``gpudissect``, also ``python -m gpudissect``: stop signals end it with 130 from the first import on."""

import contextlib
import gc
import os
import signal
import sys

INTERRUPTED = 130
STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def main() -> int:
    """Run the command line and return its exit code."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(INTERRUPTED))  # imports may lose an exception
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads spin, and matrices are small here
    gc.set_threshold(100_000)  # traces are many and make no cycles: collections took 8 % of a replay
    from gpudissect.child_processes import remove_children
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
    if code == INTERRUPTED:  # Python may end by SIGINT instead, if it passed through an import
        remove_children()
        for out in filter(None, (sys.stdout, sys.stderr)):
            with contextlib.suppress(OSError):
                out.flush()
        os._exit(code)
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
    sys.exit(main())
