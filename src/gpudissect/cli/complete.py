"""What a shell offers when Tab is pressed: devices, elements, formats, instructions. At once: no GPU is asked."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

from typer import Context

_WISH = "_GPUDISSECT_COMPLETE"
_PLAIN = re.compile(r"[A-Za-z0-9._/:=@%+,][A-Za-z0-9._/:=@%+,-]*")  # no shell gives these characters a meaning


def devices(incomplete: str) -> list[str]:
    """Names of devices: the first GPU, every simulated one, recordings in this folder with plain names."""
    from gpudissect.catalogue.load import names
    from gpudissect.device.recording.format import is_recording

    try:
        recordings = sorted(f"rec:{path}" for path in Path().iterdir() if is_recording(path))
    except OSError:
        recordings = []
    return _fitting(["cuda:0", "cuda:all", *(f"sim:{name}" for name in names()), *recordings], incomplete)


def elements(incomplete: str) -> list[str]:
    """Elements that there are experiments for."""
    from gpudissect.survey.registry import MEASURED

    return _fitting(MEASURED, incomplete)


def formats(incomplete: str) -> list[str]:
    """Formats of `gpudissect export`."""
    from gpudissect.exports import FORMATS

    return _fitting(FORMATS, incomplete)


def instructions(incomplete: str) -> list[str]:
    """Bodies of a mix such as ``fadd:4,ldg``, with the name completed that stands last."""
    from gpudissect.vocabulary import INSTRUCTIONS

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _fitting(INSTRUCTIONS, last)]


def known_instructions(ctx: Context, incomplete: str) -> list[str]:
    """As `instructions`, of those that the result file on the line knows; of all where it cannot be read."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _fitting(_known(ctx), last)]


def known_accesses(ctx: Context, incomplete: str) -> list[str]:
    """What additions may stand between, of the result file on the line: everything that it knows but they."""
    return _fitting((name for name in _known(ctx) if name != "fadd"), incomplete)


def _known(ctx: Context) -> list[str]:
    from gpudissect.errors import GpudissectError
    from gpudissect.vocabulary import ACCESSES, INSTRUCTIONS

    everything = [*INSTRUCTIONS, *ACCESSES]
    words = [word for word in ctx.args if not word.startswith("-")]  # what stands before an option still without value
    file = ctx.params.get("file") or next(iter(words), None)
    if file is None:
        return everything
    try:
        from gpudissect.results.files import load
        from gpudissect.results.machine import machine_of

        return sorted(machine_of(load(Path(file))).units)
    except GpudissectError:
        return everything


@contextmanager
def words_of_bash() -> Iterator[None]:
    """While bash asks: put together what it takes for several words, and answer in its words.

    That is ``sim:gtx980`` and ``--device=cuda:0``. What stands before a colon stays on the line by itself, so that it
    must not be offered again.
    """
    if os.environ.get(_WISH) != "complete_bash":
        yield
        return
    kept = _join_words()
    answer = StringIO()
    try:
        with redirect_stdout(answer):
            yield
    finally:
        sys.stdout.write("".join(line.removeprefix(kept) for line in answer.getvalue().splitlines(keepends=True)))


def _join_words() -> str:
    """Join the words that a colon or an equals sign broke, in the environment; what stands before the last colon."""
    words, place = os.environ.get("COMP_WORDS", "").split("\n"), os.environ.get("COMP_CWORD", "")
    if not place.isdecimal():
        return ""
    joined: list[str] = []
    for word in words[: int(place) + 1]:
        if joined and (word == ":" or joined[-1].endswith(":") or _is_value(joined[-1], word)):
            joined[-1] += word
        else:
            joined.append(word)
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    value = joined[-1].partition("=")[2] if joined[-1].startswith("--") else joined[-1]
    before, colon, _ = value.rpartition(":")
    return before + colon


def _is_value(option: str, word: str) -> bool:
    """Whether a word goes on an option that is written ``--option=value``."""
    return option.startswith("--") and (word == "=" or option.endswith("="))


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    """Names that begin so. Shells run what they complete: names that would need quotes are left out."""
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]
