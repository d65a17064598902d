"""``gpudissect get``: single values of a result file or of a device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from gpudissect.cli import completion
from gpudissect.cli.console import DONE, PARTIAL, finish, print_error, print_json, print_note, progress_on_stderr
from gpudissect.cli.options import DeviceOption
from gpudissect.errors import UsageError, unknown_value

VALUE_NAME = re.compile(r"\w+\.[a-z]\w*")

if TYPE_CHECKING:
    from gpudissect.results.model import Finding, Result


def get(
    names: Annotated[
        list[str],
        Argument(
            metavar="[FILE] NAME...",
            autocompletion=completion.values,
            help="A result file, unless -d is given, and names such as l1.capacity.",
        ),
    ],
    device: DeviceOption = None,
    as_json: Annotated[bool, Option("--json", help="Print value, bracket, status and confidence as JSON.")] = False,
) -> int:
    """Print single values of a result file, or measure them.

    gpudissect get RESULT.json l1.capacity, or get -d cuda:0 l1.capacity. One value per line, after its name if
    there are several. A device is measured as by discover --only. Exit codes: 0 found, 4 not found (the reason is
    on stderr), 130 interrupted.
    """
    code = DONE
    if device is None:
        from gpudissect.results.files import load

        file, *names = names
        if not Path(file).exists() and VALUE_NAME.fullmatch(file):
            raise UsageError(f"no file {file}; give the result file first, or measure {file} with -d DEV")
        result = load(Path(file))
        _check_names(names, (f"{each.element}.{each.attribute}" for each in result.findings))
    else:
        from gpudissect.survey.registry import emitted_names

        _check_names(names, emitted_names())
        result, code = _measure(device, names)
    from gpudissect.results.scope import scopes

    by_name = {f"{each.element}.{each.attribute}": each for each in result.findings}
    found, scope = [by_name[name] for name in names], scopes(result.findings)
    if as_json:
        _print_json(found, scope)
    missing = [each for each in found if not each.status.has_value]
    for each in () if as_json else found:
        if each.status.has_value:
            text = _text(each) + (f" ({words})" if (words := scope.get((each.element, each.attribute))) else "")
            typer.echo(f"{each.element}.{each.attribute} {text}" if len(found) > 1 else text)
    for each in missing:
        bound = f" ({_text(each)})" if _text(each) else ""
        print_error(
            f"{each.element}.{each.attribute}: {each.status.value}{bound}" + (f": {each.reason}" if each.reason else "")
        )
    return code or (PARTIAL if missing else DONE)


def _check_names(names: list[str], known: Iterable[str]) -> None:
    """Raise `UsageError` for no name or an unknown one."""
    known = list(known)
    if not names:
        raise UsageError("name a value such as l1.capacity: gpudissect get RESULT.json l1.capacity")
    for name in names:
        if attributes := [each.partition(".")[2] for each in known if each.startswith(f"{name}.")]:
            raise UsageError(f"{name!r} is an element; name one of its attributes: {', '.join(attributes)}")
        if name not in known:
            raise unknown_value(name, known)


def _measure(device: str, names: list[str]) -> tuple[Result, int]:
    from gpudissect.device.kinds import choose
    from gpudissect.study import Request, run_study

    choice = choose(device)
    if len(choice.specs) > 1:
        raise UsageError(f"values are measured on one device; name one, such as {choice.specs[0]}")
    if choice.note:
        print_note(choice.note)
    elements = tuple(dict.fromkeys(name.partition(".")[0] for name in names))
    with progress_on_stderr() as progress:
        outcome = run_study(choice.specs[0], Request(elements=elements), kept_bytes=0, progress=progress)
    return outcome.result, finish([outcome.result], [])


def _text(finding: Finding) -> str:
    from gpudissect.printable import clean
    from gpudissect.results.folded import folded
    from gpudissect.results.text import quantity

    whole = isinstance(finding.value, str | tuple)
    return clean(quantity(finding.value, finding.unit) if whole else folded(finding))


def _print_json(found: list[Finding], scope: Mapping[tuple[str, str], str]) -> None:
    import json

    fields = {"element", "attribute", "status", "value", "unit", "low", "high", "confidence", "reason"}
    values = [
        each.model_dump(mode="json", include=fields) | {"scope": scope.get((each.element, each.attribute), "")}
        for each in found
    ]
    print_json(json.dumps({"schema": "gpudissect-get/1", "values": values}, indent=2))
