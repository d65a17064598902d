"""A process of a device: ``python -P -m gpudissect.device SPEC SEED PREPARES SOCKET...``; see `device.process`."""

import os
import signal
import sys
from contextlib import suppress

from gpudissect.child_processes import collect_rarely, die_with_parent
from gpudissect.device.cuda import early_context


def main(spec: str, seed: str, prepares: str, *sockets: str) -> None:
    """Create the context of a GPU while slow modules are imported, then serve the device."""
    die_with_parent()
    collect_rarely()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # the survey process handles them
        signal.signal(number, signal.SIG_IGN)
    kind, _, name = spec.partition(":")
    if kind == "cuda" and name.isdecimal():
        early_context.start(int(name))
    from gpudissect.device import process

    with suppress(EOFError, ConnectionError):  # the other process is gone
        process.main(spec, int(seed), [*map(int, sockets)], prepares=prepares != "0")
    os._exit(0)  # without freeing each allocation


if __name__ == "__main__":
    main(*sys.argv[1:])
