"""What is wrong with a file that is no result: in one line, with what was got and what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

LONGEST = 60  # characters of what was got
MAX_NAMES = 4096  # of one object; each may cost an error of hundreds of bytes
_NEXT = "a result file is what 'gpudissect discover -o FILE' or 'gpudissect hide -o FILE' writes"
_ALTERED = "it was altered: take the original, or measure again"
_OTHERS = {
    "gpudissect-comparison": "what 'gpudissect compare --json' prints: name the results that were compared",
    "gpudissect-check": "what 'gpudissect check --json' prints: name the results that were checked",
    "gpudissect-export": "what 'gpudissect export --json' prints: name the result that was exported",
    "gpudissect-trace": "the trace of one workload, which is looked at as it is",
}
_MEANT = {"int_type": "a whole number", "float_type": "a number", "string_type": "a text", "tuple_type": "a list",
          "int_from_float": "a whole number", "bool_type": "true or false", "dict_type": "an object",
          "model_type": "an object"}  # fmt: skip


class NotJson(ValueError):
    """Bytes that are no JSON; the text says why, and what to do."""


def parse(data: bytes) -> tuple[str, Any]:
    """The text of a file and what it holds. Raises `NotJson`, for a name that an object has twice, and for
    an object of more than `MAX_NAMES` names, too.
    """
    if not data.strip():
        raise NotJson(f"it is empty; {_NEXT}")
    try:
        text = data.decode(json.detect_encoding(data))  # a pipe of PowerShell writes UTF-16
        return text, json.loads(text, object_pairs_hook=_once)
    except NotJson:
        raise
    except UnicodeDecodeError:
        raise NotJson(f"it is not text; {_NEXT}") from None
    except json.JSONDecodeError as error:
        if (data.lstrip()[:1] == b"{" and error.pos >= len(text.rstrip()) - 1) or "Unterminated" in error.msg:
            raise NotJson("it is not JSON: it is cut off; copy it again, whole") from None
        raise NotJson(f"it is not JSON (line {error.lineno}, column {error.colno}); {_NEXT}") from None
    except RecursionError:
        raise NotJson(f"it is nested deeper than any result; {_NEXT}") from None
    except ValueError:  # a number of more digits than Python reads
        raise NotJson(f"it holds a number of thousands of digits; {_ALTERED}") from None


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_NAMES:
        raise NotJson(f"an object in it has {len(pairs)} names, allowed: up to {MAX_NAMES}; {_NEXT}")
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        name = next(each for each, _ in pairs if each in seen or seen.add(each))  # type: ignore[func-returns-value]
        raise NotJson(f"it has two values of {_got(name)}, and nobody can tell which counts; {_ALTERED}")
    return made


def foreign(content: Any, wanted: str) -> str:
    """What a file is that has another schema than `wanted`: it has a newer one, or is no result file, and why."""
    schema = content.get("schema") if isinstance(content, dict) else None
    name, _, version = schema.partition("/") if isinstance(schema, str) else ("", "", "")
    if name == wanted.partition("/")[0] and version.isdecimal():
        return f"has schema {schema:.40}, this program reads {wanted}: update gpudissect"
    if isinstance(content, list) and content and all(_is_of(each, wanted) for each in content):
        return f"is no result file: it is a list of {len(content)}; write each into a file of its own"
    if name in _OTHERS:
        return f"is no result file: it is {_OTHERS[name]}"
    why = f"its schema is {_got(schema)}, not {wanted!r}" if schema else f"it names no schema {wanted!r}"
    return f"is no result file: {why}; {_NEXT}"


def _is_of(content: Any, schema: str) -> bool:
    return isinstance(content, dict) and content.get("schema") == schema


def malformed(error: ValidationError, content: Any) -> str:
    """The first field that is not as it should be: where, what was got, what it may be."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    if errors[0]["type"] == "json_invalid":  # a name or a text that Python reads, and nobody can write
        return f"{errors[0]['msg'][:100]}; {_ALTERED}"
    field = [each for each in errors if each["loc"][:3] == errors[0]["loc"][:3]]  # of a finding: all that was tried
    where, got = max((_reached(each["loc"], content) for each in field), key=lambda each: len(each[0]))
    if field[0]["type"] == "missing":
        return f"{_shown(where)} lacks {_got(field[0]['loc'][-1])}; {_ALTERED}"
    own = [each for each in field if _reached(each["loc"], content)[0] == where]
    return f"{_shown(where)}: {_wrong(got, own)}; {_ALTERED}"


def _reached(place: Sequence[int | str], content: Any) -> tuple[list[int | str], Any]:
    """How far a place leads into what was read, and what is there: pydantic's names the kinds that it tried, too."""
    path: list[int | str] = []
    for part in place:
        if isinstance(content, Mapping) and part in content:
            content = content[str(part)]
        elif isinstance(content, list) and isinstance(part, int) and part < len(content):
            content = content[part]
        else:
            continue
        path.append(part)
    return path, content


def _wrong(got: Any, errors: Sequence[Any]) -> str:
    if isinstance(got, float) and not math.isfinite(got):
        return f"{_got(got)} is no number that JSON knows; what was not found is null"
    if isinstance(got, int) and not -(2**63) <= got < 2**63:
        return f"{_got(got)} is more than a number may be"
    meant = list(dict.fromkeys(_MEANT[each["type"]] for each in errors if each["type"] in _MEANT))
    if len(meant) == len({each["type"] for each in errors}):
        return f"should be {' or '.join(meant)}, got {_got(got)}"
    told = errors[0]["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{told[:160]}, got {_got(got)}" if told.startswith("should") else told[:160]


def _shown(path: Sequence[int | str]) -> str:
    return ".".join(str(part)[:LONGEST] for part in path) or "the file"


def _got(value: Any) -> str:
    """What was read, as JSON writes it, cut."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**LONGEST:
        return "a number of more than 60 digits"
    text = json.dumps(value[: LONGEST + 1] if isinstance(value, str) else value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
