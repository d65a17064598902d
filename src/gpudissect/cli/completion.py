"""Values offered on Tab: devices, elements, formats, instructions. Nothing here opens a GPU."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

from typer import Context

_SHELL_VARIABLE = "_GPUDISSECT_COMPLETE"
_SAFE_NAME = re.compile(r"[A-Za-z0-9._/:=@%+,][A-Za-z0-9._/:=@%+,-]*")  # no character has a meaning to a shell


def devices(incomplete: str) -> list[str]:
    """Names of devices: the first GPU, every simulated one, recordings in this folder with safe names."""
    from gpudissect.catalogue.load import names
    from gpudissect.device.recording.format import is_recording

    try:
        recordings = sorted(f"rec:{path}" for path in Path().iterdir() if is_recording(path))
    except OSError:
        recordings = []
    return _matching(["cuda:0", "cuda:all", *(f"sim:{name}" for name in names()), *recordings], incomplete)


def elements(incomplete: str) -> list[str]:
    """Elements that there are experiments for."""
    from gpudissect.survey.registry import measured_elements

    return _matching(measured_elements(), incomplete)


def values(ctx: Context, incomplete: str) -> list[str]:
    """Names such as l1.capacity: of the result file on the command line, or of all that `discover` measures.

    Empty before a file or a device is named: the shell then offers files.
    """
    from gpudissect.errors import GpudissectError
    from gpudissect.results.files import load
    from gpudissect.survey.registry import emitted_names

    if ctx.params.get("device") is not None:
        return _matching(emitted_names(), incomplete)
    words = [*(ctx.params.get("names") or ()), *ctx.args]
    try:
        found = load(Path(words[0])).findings if words else ()
    except GpudissectError:
        return []
    return _matching((f"{each.element}.{each.attribute}" for each in found), incomplete)


def formats(incomplete: str) -> list[str]:
    """Formats of `gpudissect export`."""
    from gpudissect.exports import FORMATS

    return _matching(FORMATS, incomplete)


def instructions(incomplete: str) -> list[str]:
    """Bodies of a mix such as ``fadd:4,ldg``, with the last name completed."""
    from gpudissect.vocabulary import INSTRUCTIONS

    return _matching_last(INSTRUCTIONS, incomplete)


def known_instructions(ctx: Context, incomplete: str) -> list[str]:
    """Like `instructions`, of those in the result file on the command line; of all if it cannot be read."""
    return _matching_last(_known(ctx), incomplete)


def known_accesses(ctx: Context, incomplete: str) -> list[str]:
    """Instructions of the result file on the command line that additions may stand between."""
    return _matching((name for name in _known(ctx) if name != "fadd"), incomplete)


def _known(ctx: Context) -> list[str]:
    from gpudissect.errors import GpudissectError
    from gpudissect.results.files import load
    from gpudissect.results.machine import machine_of
    from gpudissect.vocabulary import ACCESSES, INSTRUCTIONS

    words = (word for word in ctx.args if not word.startswith("-"))  # before the option that is being completed
    try:
        return sorted(machine_of(load(Path(ctx.params.get("file") or next(words, "")))).units)
    except GpudissectError:
        return [*INSTRUCTIONS, *ACCESSES]


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    """Names with this beginning. A shell runs what it completes: names that would need quotes are left out."""
    return [name for name in names if name.startswith(incomplete) and _SAFE_NAME.fullmatch(name)]


def _matching_last(names: Iterable[str], incomplete: str) -> list[str]:
    """The same for the last of several names with commas between."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _matching(names, last)]


@contextmanager
def bash_words_joined() -> Iterator[None]:
    """When bash requests completions: join the words that it splits at ``:`` and ``=``, and answer with the last part.

    Neither bash nor typer joins ``sim:gtx980`` or ``--device=cuda:0``; bash replaces only what follows the last colon.
    """
    index = os.environ.get("COMP_CWORD", "")
    if os.environ.get(_SHELL_VARIABLE) != "complete_bash" or not index.isdecimal():
        yield
        return
    words = "\n".join(os.environ.get("COMP_WORDS", "").split("\n")[: int(index) + 1])
    joined = re.sub(r"(\n--[^\n]*)\n=\n?", r"\1=", re.sub(r"\n?:\n?", ":", words)).split("\n")
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    value = joined[-1].partition("=")[2] if joined[-1].startswith("--") else joined[-1]
    kept = value[: value.rfind(":") + 1]  # stays on the command line
    answer = StringIO()
    try:
        with redirect_stdout(answer):
            yield
    finally:
        sys.stdout.write("".join(line.removeprefix(kept) for line in answer.getvalue().splitlines(keepends=True)))
