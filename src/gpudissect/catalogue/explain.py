"""Turn what pydantic says about a GPU file into one line a person can act on."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

LONGEST = 70  # characters of a wrong value that a message repeats


def first_problem(error: ValidationError) -> str:
    """Name the first wrong field, what was got and what is allowed, in one line."""
    problems = error.errors(include_url=False)
    first = problems[0]
    text = _describe(first)
    return text if len(problems) == 1 else f"{text} (and {len(problems) - 1} more)"


def _describe(problem: Any) -> str:
    where = [shorten(str(part)) for part in problem["loc"] if part != "[key]"]
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in ("catalogue", "unknown"):
        where.append(shorten(context["field"]))
    field = ".".join(where)
    if kind == "catalogue":
        return f"{field}: got {shorten(context['got'])}, allowed: {context['allowed']}"
    if kind == "unknown":
        return f"{field}: no such field, known here: {context['known']}"
    if kind == "missing":
        return f"{field}: missing"
    got = shorten(_written(problem["input"]))
    allowed = problem["msg"]
    for opening in ("Value error, ", "Input should be ", "String should have "):
        allowed = allowed.removeprefix(opening)
    if kind in ("model_type", "dict_type"):
        allowed = "a table; a number is { value = ..., source = ... }"
    return f"{field}: got {got}, allowed: {allowed}"


def _written(value: Any) -> str:
    """As in Python; of what has too many digits, or is too deep, only what kind it is."""
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return f"{type(value).__name__} that is too long"


def shorten(text: str) -> str:
    """Cut to a length that fits a line, without line breaks."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
