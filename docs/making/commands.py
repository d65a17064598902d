"""The command line's reference, from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from gpudissect.cli.app import app

DEFAULT = re.compile(r"\s*\[([^\[\]]*)\]$")


def reference() -> str:
    """Every command: what it says of itself, how it is called, its options, in Markdown."""
    group: Any = get_command(app)
    parts = [*_command("gpudissect", group)]
    for name, command in group.commands.items():
        parts += _command(f"gpudissect {name}", command)
    return "\n".join(parts)


def _command(name: str, command: Any) -> Iterator[str]:
    context = command.make_context(name, [], resilient_parsing=True)
    yield f"## {name}\n"
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    usage = usage.replace("{", "").replace("}", "")  # so typer marks what is required
    yield f"```text\n{usage}\n```\n"
    if command.help:
        yield _plain(command.help) + "\n"
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield f"`{record[0]}`\n:   {_described(record[1])}\n"


def _described(help_text: str) -> str:
    """The help of an option; what typer adds to it in brackets (default, range) stands behind in italics."""
    added = DEFAULT.search(help_text)
    if added is None:
        return _plain(help_text)
    facts = "; ".join(_plain(fact.strip()) for fact in added[1].split(";"))
    return f"{_plain(help_text[: added.start()])} *{facts}*".strip()


def _plain(text: str) -> str:
    """One paragraph a paragraph, with nothing in it that Markdown would take for its own."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.replace("\f", ""))]
    return "\n\n".join(re.sub(r"([|<*_\[])", r"\\\1", part) for part in paragraphs)
