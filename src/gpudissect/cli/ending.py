"""How a command that measures ends: what went wrong is said last, and decides the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudissect.cli.say import error_line, note_line
from gpudissect.errors import DeviceError, GpudissectError, UsageError
from gpudissect.estimate import Status

if TYPE_CHECKING:
    from gpudissect.results.model import Result

DONE, IN_PART, INTERRUPTED = 0, 4, 130


def exit_code(results: Sequence[Result], troubles: Sequence[GpudissectError]) -> int:
    """The exit code; troubles that were put off are said here, behind the results they must not cost."""
    for trouble in troubles:
        error_line(str(trouble))
    found = any(finding.status is Status.FOUND for result in results for finding in result.findings)
    if any(result.interrupted for result in results):
        note_line(f"interrupted; {'what was measured until then is kept' if found else 'nothing was found until then'}")
        return INTERRUPTED
    failures = [failure for result in results for failure in result.failures]
    if failures:
        error_line(f"{len(failures)} experiments failed, the first, {failures[0].experiment}: {failures[0].reason}")
        if not found:
            return DeviceError.exit_code  # nothing at all came out of this device
    if not results and troubles:
        return troubles[0].exit_code
    if usage := [trouble.exit_code for trouble in troubles if isinstance(trouble, UsageError)]:
        return usage[0]
    return IN_PART if troubles or failures else DONE
