"""The command line's reference, from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from gpudissect.cli.app import app


def reference() -> str:
    """Every command: what it says of itself, how it is called, its options, in Markdown."""
    group: Any = get_command(app)
    parts = [*_command("gpudissect", group)]
    for name, command in group.commands.items():
        parts += _command(f"gpudissect {name}", command)
    return "\n".join(parts)


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"## {name}\n"
    if command.help:
        yield _plain(command.help) + "\n"
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = [name, *(["[OPTIONS]"] if options else []), *(_written(each) for each in arguments)]
    usage += ["COMMAND ..."] if hasattr(command, "commands") else []
    yield f"```text\n{' '.join(usage)}\n```\n"
    if arguments or options:
        yield "| option | what it does | default |\n|---|---|---|"
        for each in (*arguments, *options):
            yield f"| {_names(each)} | {_plain(each.help or '')} | {_default(each)} |"
        yield ""


def _written(argument: Any) -> str:
    name = argument.make_metavar() if argument.metavar is None else argument.metavar
    return name if argument.required else f"[{name.strip('[]')}]"


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_written(parameter)}`"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.is_flag or parameter.count:
        return names
    choices = getattr(parameter.type, "choices", ())
    value = " ".join(f"`{getattr(choice, 'value', choice)}`" for choice in choices) or f"`{_metavar(parameter)}`"
    return f"{names} {value}"


def _metavar(parameter: Any) -> str:
    return parameter.metavar or parameter.type.name.upper().replace(" RANGE", "")


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or callable(value) or value in ((), [], False) or str(value).startswith("Sentinel"):
        return "required" if parameter.required else ""
    shown = getattr(value, "value", value)
    return ", ".join(f"`{each}`" for each in (shown if isinstance(shown, tuple | list) else [shown]))


def _plain(text: str) -> str:
    """One paragraph a paragraph, with nothing in it that Markdown would take for its own."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.replace("\f", ""))]
    return "\n\n".join(re.sub(r"([|<*_\[])", r"\\\1", part) for part in paragraphs)
