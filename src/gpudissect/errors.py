"""Every exception this package raises on purpose, with the exit code the command line gives it.

::

    GpudissectError
     +- UsageError           2   what was asked for makes no sense: an argument, an output folder
     |   +- WorkloadError        a workload that cannot be built (raised when it is made, not when it runs)
     +- DeviceError          3   no such device, or it cannot be used
         +- CatalogueError       a GPU file with a wrong field
         +- RecordingError       a recording that is damaged, newer, or lacks what was asked
         +- UnsupportedWorkload  2   this device cannot run the workload: blocks, widths, registers, SMs
         |   +- OutOfMemory      it has no room for it
         +- KernelFailed         a kernel did not compile, launch or finish

Messages are one line: what was wrong, what was got, what to do.
An answer that could not be found is an `Estimate` with a status, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable


class GpudissectError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line ends with."""

    exit_code = 2


class UsageError(GpudissectError):
    """What the user asked for makes no sense or cannot be written where asked."""


class WorkloadError(UsageError):
    """A workload with impossible parameters."""


class DeviceError(GpudissectError):
    """No such device, or it cannot be used."""

    exit_code = 3


class CatalogueError(DeviceError):
    """A GPU file with a wrong field: names file, field, what was got and what is allowed."""


class RecordingError(DeviceError):
    """A recording that is truncated, altered, newer than this program, or lacks the workload asked for."""


class UnsupportedWorkload(DeviceError):
    """A workload that this device cannot run, another one might: too wide, too many threads, more SMs than it has."""

    exit_code = 2


class OutOfMemory(UnsupportedWorkload):
    """The device has no room for the workload."""


class KernelFailed(DeviceError):
    """A kernel did not compile, did not launch or did not finish."""


def unknown_name(kind: str, name: str, known: Iterable[str], listing: str | None = None) -> UsageError:
    """The error for a name that is not among `known`: similar names, or else all of them (as `listing`)."""
    from difflib import get_close_matches

    names = list(known)
    similar = get_close_matches(name.lower(), names, n=2)
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"there are {listing or ', '.join(names)}"
    return UsageError(f"no such {kind}: {name[:40]!r}; {hint}")
