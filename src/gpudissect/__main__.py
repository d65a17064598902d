"""The command ``gpudissect``, also ``python -m gpudissect``: stop signals end it with 130 from the first import on."""

import os
import signal
import sys

STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def main() -> int:
    """Run the command line and return its exit code."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(130))  # imports may lose an exception
    from gpudissect.cli.app import main as run

    try:
        return run()
    finally:
        for number in STOP_SIGNALS:  # all is written: the exit code stays
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    try:
        if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # import no modules from the working folder
            del sys.path[0]
    except FileNotFoundError:  # the working folder was removed
        pass
    sys.exit(main())
