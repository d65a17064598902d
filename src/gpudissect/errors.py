"""Exceptions of this package, with their exit codes on the command line.

Messages are one line: what was wrong, what was given, what to do. A measurement without an answer is an `Estimate` with
a status, never an exception.
"""

import errno
from collections.abc import Iterable

MAX_LINE = 300  # characters of an error on a terminal, whatever names and values it repeats
PREFIX = "gpudissect: error: "
WRITE_ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Numbers of the errors of a file or a folder that cannot be written any more."""
MAX_MESSAGE = MAX_LINE - len(PREFIX)


def shorten_message(text: str) -> str:
    """One line of at most `MAX_MESSAGE` characters: beginning and end, which say what is wrong and what to do."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 85]} ... {line[-80:]}"


class GpudissectError(Exception):
    """Base of all errors of this package; `exit_code` is that of the command line."""

    exit_code = 2

    def __init__(self, message: object = "") -> None:
        super().__init__(shorten_message(str(message)))


class UsageError(GpudissectError):
    """An invalid argument, or an output that cannot be written."""


class WorkloadError(UsageError):
    """Impossible parameters of a workload; raised when it is made."""


class MachineCodeError(UsageError):
    """A file without readable device code, an unknown kernel, or no disassembler."""


class PtxError(UsageError):
    """PTX that cannot be read, instrumented or compiled."""


class DeviceError(GpudissectError):
    """No such device, or it cannot be used."""

    exit_code = 3


class CatalogueError(DeviceError):
    """A GPU file with a wrong field; the message names file, field, value and what is allowed."""


class RecordingError(DeviceError):
    """A recording that is truncated, altered, newer than this program, or lacks the requested workload."""


class NotRecorded(RecordingError):
    """A whole recording that holds none of the requested workloads."""


class UnsupportedWorkload(DeviceError):
    """A workload that this device cannot run and another might: too wide, too many threads or SMs."""

    exit_code = 2


class OutOfMemory(UnsupportedWorkload):
    """The workload does not fit into the memory of the device."""


class KernelFailed(DeviceError):
    """A kernel did not compile, did not launch or did not finish."""


SYNONYMS = {"size": "capacity", "associativity": "ways", "policy": "replacement_policy", "hash": "index_function"}
"""Words that people try, and the attributes that are meant."""


def suggest(name: str, known: Iterable[str], *, count: int = 2, cutoff: float = 0.6) -> list[str]:
    """Up to `count` of the `known` names that are similar to `name` (difflib ratio of `cutoff` or more), best first."""
    from difflib import get_close_matches

    return get_close_matches(name.lower(), list(known), count, cutoff)


def unknown_value(name: str, known: Iterable[str]) -> UsageError:
    """The error for an unknown ELEMENT.ATTRIBUTE: attributes of its element, or of all elements, with similar names."""
    names, (element, _, attribute) = list(known), name.partition(".")
    own = [each for each in names if each.startswith(f"{element}.")]
    if not own:
        return unknown_name("value", name, names, "ELEMENT.ATTRIBUTE, such as l1.capacity")
    word = SYNONYMS.get(attribute, attribute)
    similar = [each for each in own if word and word in each.partition(".")[2]] or suggest(f"{element}.{word}", own)
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"valid: {', '.join(own)}"
    return UsageError(f"no such value: {name[:40]!r}; {hint}")


def unknown_name(kind: str, name: str, known: Iterable[str], listing: str | None = None) -> UsageError:
    """The error for a name that is not among `known`: similar names, or else all of them (as `listing`)."""
    names = list(known)
    similar = suggest(name, names)
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"valid: {listing or ', '.join(names)}"
    return UsageError(f"no such {kind}: {name[:40]!r}; {hint}")
