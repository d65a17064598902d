"""The house of docs: rooms import only earlier rooms, files stay small, a bare import stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpudissect

SOURCE = Path(gpudissect.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = [
    {"errors", "units", "vocabulary", "cache_folder", "interrupts"},
    {"workload", "trace", "estimate", "series", "device_info"},
    {"simulation", "models"},
    {"catalogue"},
    {"device"},
    {"measure"},
    {"survey"},
    {"results"},
    {"views", "exports"},
    {"study"},
    {"api"},
    {"cli"},
]
FLOOR = {room: number for number, rooms in enumerate(ROOMS) for room in rooms}
HEAVY = ("numpy", "numba", "scipy", "pydantic", "rich", "typer", "cuda", "click")
MAX_LINES = 400


def room_of(path: Path) -> str:
    inside = path.relative_to(SOURCE).parts
    return inside[0].removesuffix(".py")


def rooms_imported(path: Path) -> set[str]:
    """Rooms that a file imports anywhere, in functions and for type checking too."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    inside = (module.split(".") for module in modules if module.startswith("gpudissect."))
    return {parts[1] for parts in inside} & set(FLOOR)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_earlier_rooms(path):
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    assert room in FLOOR, f"{room} is no room of the house"
    for other in rooms_imported(path) - {room}:
        assert FLOOR[other] <= FLOOR[room], f"{room} must not import {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_too_long(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [("import gpudissect", ()), ("import gpudissect.cli.app", ("typer", "click", "rich", "pydantic"))],
)
def test_a_bare_import_pulls_nothing_heavy(statement, allowed):
    code = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not (set(HEAVY) - set(allowed)) & set(loaded)


def test_only_the_cuda_device_knows_of_cuda():
    for path in FILES:
        if "cuda" in path.relative_to(SOURCE).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.partition(".")[0] == "cuda" for name in names), path
