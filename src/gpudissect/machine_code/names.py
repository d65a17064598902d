"""Names of kernels: mangled by the Itanium C++ ABI, as machine code has them, and as source code has them."""

import ctypes
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from gpudissect.errors import MachineCodeError, suggest
from gpudissect.printable import quoted

MAX_MANGLED, MAX_DEMANGLED = 1000, 10_000  # characters
MAX_SUBSTITUTIONS = 16  # references, of which each may double what is demangled
_SUBSTITUTION = re.compile(r"[ST][0-9A-Z]*_")
_PLAIN = re.compile(r"[\w:]+")  # needs no quotes in a shell
MAX_SHOWN, MAX_LISTED = 80, 10  # characters of a name in a message; names


def short_name(mangled: str) -> str:
    """Namespaces and name of a function mangled by the Itanium C++ ABI; other names as they are."""
    rest = mangled.removeprefix("_Z")
    nested, parts = rest.startswith("N"), list[str]()
    rest = rest.removeprefix("N")
    while mangled.startswith("_Z") and rest[:1].isdecimal() and (nested or not parts):
        digits = len(rest) - len(rest.lstrip("0123456789"))
        if not 0 < digits <= 4:
            return mangled
        end = digits + int(rest[:digits])
        parts.append("(anonymous namespace)" if rest[digits:end].startswith("_GLOBAL__N_") else rest[digits:end])
        rest = rest[end:]
    return "::".join(parts) or mangled


def declaration(mangled: str) -> str:
    """A name with its template arguments and parameters, such as ``scale<float>(float*, int)``, without return type.

    By the C++ library of the system; names that it cannot demangle, or all without it, as they are.
    """
    library = _cxx_library()
    is_mangled = mangled.startswith("_Z") and mangled.isascii() and len(mangled) <= MAX_MANGLED
    if library is None or not is_mangled or len(_SUBSTITUTION.findall(mangled)) > MAX_SUBSTITUTIONS:
        return mangled
    place = library.__cxa_demangle(mangled.encode(), None, None, ctypes.byref(ctypes.c_int()))
    if not place:
        return mangled
    try:
        text = ctypes.string_at(place).decode("utf-8", "backslashreplace")
    finally:
        library.free(place)
    return mangled if len(text) > MAX_DEMANGLED else text[_after_return_type(text) :]


def source_name(mangled: str) -> str:
    """A name with namespaces and template arguments, such as ``ns::scale<float>``, without parameters."""
    text = declaration(mangled)
    return short_name(mangled) if text == mangled else text[: _parameters_start(text)]


def choose_name(names: Iterable[str], name: str | None, where: str = "the file") -> str:
    """The mangled name that a mangled, source or short name stands for, or the only one.

    Raises `MachineCodeError` with `where` they are, and the names.
    """
    known = list(dict.fromkeys(names))
    if not known:
        raise MachineCodeError(f"{where} has no kernel")
    if name in known:
        return str(name)
    requested = None if name is None else name.replace(" ", "")
    matches = [each for each in known if requested is None or requested in _forms(each)]
    if len(matches) == 1:
        return matches[0]
    listed = _listing(matches or known)
    if matches:
        called = f" called {quoted(name, 40)}" if name else ""
        raise MachineCodeError(
            f"{where} has {len(matches)} kernels{called}; choose one with --kernel: {_joined(listed)}"
        )
    similar = suggest(str(name), listed) or suggest(str(name), known)
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"valid: {_joined(listed)}"
    raise MachineCodeError(f"no such kernel: {quoted(name, 40)}; {hint}")


def _forms(mangled: str) -> set[str]:
    return {form(mangled).replace(" ", "") for form in (short_name, source_name, declaration)}


def _listing(names: list[str]) -> list[str]:
    """Names of source code; with parameters, or else mangled, where several kernels share one."""
    found = [source_name(name) for name in names]
    for form in (declaration, str):
        found = [each if found.count(each) == 1 else form(name) for each, name in zip(found, names, strict=True)]
    return [ascii(each)[1:-1] if len(each) <= MAX_SHOWN else ascii(each)[1 : MAX_SHOWN - 2] + "..." for each in found]


def _joined(names: list[str]) -> str:
    rest = len(names) - MAX_LISTED
    listed = ", ".join(name if _PLAIN.fullmatch(name) else f"'{name}'" for name in names[:MAX_LISTED])
    return listed + (f" and {rest} more" if rest > 0 else "")


def _after_return_type(text: str) -> int:
    """Place after the return type, which only instances of templates have."""
    depth, last = 0, 0
    for place in range(_parameters_start(text)):
        depth += text[place] in "<({["
        depth -= text[place] in ">)}]"
        if text[place] == " " and depth == 0:
            last = place + 1
    return last


def _parameters_start(text: str) -> int:
    """Place of the parenthesis that opens the parameters, the end if there are none."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += text[place] == ")"
        depth -= text[place] == "("
        if depth == 0:
            return place if text[place] == "(" else len(text)
    return len(text)


@cache
def _cxx_library() -> Any:
    """The C++ library, None without it."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.__cxa_demangle.argtypes = [ctypes.c_char_p, *3 * [ctypes.c_void_p]]
        library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return library
