"""Damage for `fuzz.py`: bytes, numbers, keys and nesting of files that were right before."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from random import Random
from typing import Any

NUMBERS = (
    *("0", "-1", "1", "2", "3", "7", "255", "256", "1024", "65535", "65536", "1048576", "2147483647", "2147483648"),
    *("4294967296", "9223372036854775807", "9223372036854775808", "1e9", "1e308", "-1e308", "5e-324", "0.1", "-0.0"),
    *("NaN", "Infinity", "-Infinity", "9" * 400, "9" * 5000, "1" + "0" * 30, "0x10", "1_000", "0.30000000000000004"),
)
TEXTS = (
    "",
    " ",
    "\x00",
    "\x1b[31m",
    "\x9b31m\x7f",
    "\u202e",
    "a\nb",
    "'\"&<>",
    "é漢😀",
    "../../x",
    "%s%n",
    "{0}",
    "NaN",
)
NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def extreme(rng: Random) -> Any:
    """A value of JSON that is unlikely to be right."""
    match rng.randrange(8):
        case 0 | 1 | 2:
            text = rng.choice(NUMBERS)
            try:
                return json.loads(text)
            except ValueError:
                return text
        case 3:
            return rng.choice(TEXTS)
        case 4:
            return rng.choice(("x", "\udcff", "9", "\x1b")) * rng.choice((1, 100, 5000, 100_000))
        case 5:
            return rng.choice((None, True, False, [], {}, [[]], [None], {"": {}}))
        case 6:
            return [0] * rng.choice((1, 17, 5000, 100_000))
        case _:
            return nested(rng.choice((3, 50, 500)))


def alike(rng: Random, value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice(
                (0, 1, 2, 3, value - 1, value + 1, 2 * value, value // 2, -value, 10**6, 2**31, 2**62, 2**63 - 1)
            )
        case float():
            return rng.choice(
                (0.0, -0.0, 0.5, 2 * value, value / 3, -value, value * 1e6, 5e-324, 1e-300, 1e300, 1.7e308)
            )
        case str():
            return rng.choice(
                (*TEXTS, value.upper(), value * 3, value[:-1], value + "_x", "cycles", "B", "l1", "found", "x" * 9999)
            )
        case _:
            return extreme(rng)


def nested(depth: int) -> Any:
    """Lists in lists."""
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def damaged_bytes(rng: Random, data: bytes) -> bytes:
    """Bytes flipped, cut, repeated, inserted, or numbers replaced."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0:
                data = data[:place]
            case 1 if data:
                place = min(place, len(data) - 1)
                data = data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
            case 2:
                data = data[:place] + rng.randbytes(rng.choice((1, 4, 100))) + data[place:]
            case 3:
                end = place + rng.choice((1, 10, 1000))
                data = data[:place] + data[end:]
            case 4:
                end = place + rng.choice((10, 100, 1000))
                data = data[:end] + data[place:end] * rng.choice((1, 1, 50)) + data[end:]
            case 5:
                data = data[:place] + rng.choice((b"[" * 3000, b"{" * 3000, b'"', b"\\", b"\n", b"'''")) + data[place:]
            case _:
                data = other_number(rng, data)
    return data[: 1 << 24]


def other_number(rng: Random, data: bytes) -> bytes:
    """One number replaced by an extreme one."""
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    number = rng.choice(found)
    text = rng.choice(NUMBERS)
    if rng.random() < 0.6:
        value = json.loads(number[0]) if number[0].lstrip(b"-")[:1] != b"0" else 0
        text = str(
            rng.choice((2 * value, value / 2, value // 2, value + 1, value - 1, 4 * value, 10 * value, 1, 2, 4, 8, 64))
        )
    return data[: number.start()] + text.encode() + data[number.end() :]


def damaged_value(rng: Random, value: Any) -> Any:
    """A copy of a JSON value in which one to three places, chosen evenly by depth, are dropped, replaced or swapped."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = _damage(rng, value)
    return value


def _damage(rng: Random, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value:
        return extreme(rng)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choices(keys, [1 + len(value[each]) if isinstance(value[each], dict | list) else 1 for each in keys])[0]
    inner = value[key]
    if isinstance(inner, dict | list) and inner and rng.random() < 0.95:
        value[key] = _damage(rng, inner)
        return value
    if rng.random() < 0.6:
        value[key] = alike(rng, inner)
        return value
    match rng.randrange(6):
        case 0:
            del value[key]
        case 1:
            other = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
            value[key], value[other] = value[other], value[key]
        case 2 if isinstance(inner, str):
            value[key] = inner * rng.choice((2, 50)) + rng.choice(TEXTS)
        case 3 if isinstance(inner, int | float):
            value[key] = inner * rng.choice((-1, 2, 0.5, 1000, 1e9, 1e-9))
        case 4 if isinstance(value, list):
            value += [inner] * rng.choice((1, 3, 1000))
        case _:
            value[key] = extreme(rng)
    return value


def as_json(rng: Random, value: Any) -> bytes:
    """JSON text; sometimes with a name twice, in UTF-16, or damaged bytes."""
    text = json.dumps(value)
    if rng.random() < 0.03 and text.startswith("{"):
        text = '{"schema": 1, ' + text[1:]
    data = text.encode("utf-16" if rng.random() < 0.02 else "utf-8")
    return damaged_bytes(rng, data) if rng.random() < 0.1 else data


def damaged_toml(rng: Random, text: str) -> bytes:
    """A GPU file with lines dropped, doubled, moved or with another number."""
    lines = text.splitlines()
    content = [n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        place = min(rng.choice(content), len(lines) - 1)
        match rng.randrange(16):
            case 0:
                del lines[place]
            case 1:
                lines.insert(place, lines[place])
            case 2:
                other = min(rng.choice(content), len(lines) - 1)
                lines[place], lines[other] = lines[other], lines[place]
            case 3:
                name = lines[place].partition("=")[0].strip() or "x"
                lines[place] = f"{name} = {json.dumps(extreme(rng))}"
            case 4:
                depth = rng.choice((3, 15, 17, 3000))
                lines.insert(place, rng.choice(("{} = 1", "[{}]", "[[{}]]")).format(".".join(["a"] * depth)))
            case 5:
                header = [n for n, line in enumerate(lines) if line.startswith("[")]
                first = rng.choice(header) if header else 0
                end = next((n for n in header if n > first), len(lines))
                del lines[first:end]
            case _:
                lines[place] = other_number(rng, lines[place].encode()).decode()
        content = [n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")] or [0]
        lines = lines or ["x = 1"]
    data = "\n".join(lines).encode("utf-8", "surrogateescape")
    return damaged_bytes(rng, data) if rng.random() < 0.1 else data


def damaged_recording(rng: Random, index: bytes, arrays: bytes) -> dict[str, bytes]:
    """Files of a recording: damaged bytes, or values and arrays replaced and all checksums right again."""
    if rng.random() < 0.2:
        files = {"recording.jsonl": index, "arrays.bin": arrays}
        name = rng.choice(list(files))
        files[name] = damaged_bytes(rng, files[name])
        if rng.random() < 0.1:
            del files[rng.choice(list(files))]
        return _compressed(rng, files)
    entries = [json.loads(line) for line in index.splitlines()]
    data, used = [], 0
    for entry in entries:
        data.append(arrays[used : used + entry.get("bytes", 0)])
        used += entry.get("bytes", 0)
    for _ in range(rng.choice((1, 1, 2, 3))):
        number = rng.randrange(len(entries))
        match rng.randrange(6):
            case 0:
                data[number] = damaged_bytes(rng, data[number])
            case 1 if data[number]:
                bomb = zlib.compress(rng.choice((b"\x00", b"\xff", b"\x7f")) * rng.choice((100, 10**4, 10**7)))
                data[number] = bomb
                for array in entries[number].get("arrays", ()):
                    array["packed"] = len(bomb)
            case 2:
                copied = rng.randrange(len(entries))
                entries[number], data[number] = json.loads(json.dumps(entries[copied])), data[copied]
            case _:
                entry = damaged_value(rng, {key: each for key, each in entries[number].items() if key != "check"})
                entries[number] = entry if isinstance(entry, dict) else {"trace": entry}
    check, lines = "", []
    for number, (entry, content) in enumerate(zip(entries, data, strict=True)):
        entry.pop("check", None)
        if number == 0 and rng.random() < 0.95:
            entry = {"schema": "gpudissect-recording/2"} | {k: v for k, v in entry.items() if k != "schema"}
        if content and rng.random() < 0.98:
            entry["bytes"] = len(content)
        body = json.dumps(entry, separators=(",", ":")).encode()
        check = hashlib.sha256(check.encode() + body + content).hexdigest()[:16]
        lines.append(body[:-1] + f',"check":"{check}"}}\n'.encode())
    return _compressed(rng, {"recording.jsonl": b"".join(lines), "arrays.bin": b"".join(data)})


def _compressed(rng: Random, files: dict[str, bytes]) -> dict[str, bytes]:
    if rng.random() < 0.05 and "recording.jsonl" in files:
        files["recording.jsonl.gz"] = gzip.compress(files.pop("recording.jsonl") * rng.choice((1, 1, 300)), 1)
    return files
