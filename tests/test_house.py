"""The rules of docs/adr/0016: imports go down only, no cycle, readable files, a light bare import."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import gpudissect

SOURCE = Path(gpudissect.__file__).parent
ROOT = Path(__file__).parents[1]
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {
    ".".join(("gpudissect", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in FILES
}
FLOORS = (
    {"errors", "vocabulary", "interrupts", "printable"},
    {"units", "cache_folder", "child_processes", "call_checks"},
    {"workload"},
    {"trace", "estimate", "device_info"},
    {"simulation", "models", "machine_code"},
    {"catalogue"},
    {"device"},
    {"measure"},
    {"survey"},
    {"results"},
    {"explanation"},
    {"exports", "fleet"},
    {"views"},
    {"study"},
    {"link_study"},
    {"api"},
    {"cli"},
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
WAIST = set().union(*FLOORS[:4])
FORBIDDEN = {"exports": {"device", "measure", "survey"}, "views": {"device", "measure", "survey"}}
HEAVY = ("numpy", "numba", "scipy", "pydantic", "rich", "typer", "cuda", "click")
MAX_LINES = 400
MAX_FILES, MAX_SOURCE_LINES = 402, 63_968
MAX_UNFORMATTED = 20  # statements in the whole tree that the formatter leaves alone
CAPABILITY = re.compile(r"^\d{1,2}\.\d$")


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@cache
def imports_of(module: str) -> frozenset[str]:
    """Modules that a module imports anywhere, in functions and for type checking too; not the packages around it."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module or "" for name in names}
    return frozenset(found)


def inside(module: str) -> set[str]:
    return {name for name in imports_of(module) if name in MODULES and name != "gpudissect"}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_go_down_only(module: str) -> None:
    room = room_of(module)
    if room in ("", "__main__"):
        return
    assert room in FLOOR_OF, f"{room} stands on no floor"
    others = {room_of(name) for name in inside(module)} - {room}
    assert not {other for other in others if FLOOR_OF[other] >= FLOOR_OF[room]}
    assert not others & FORBIDDEN.get(room, set())


@pytest.mark.parametrize("module", [name for name in MODULES if name.split(".")[-1].startswith("infer_")], ids=str)
def test_inference_imports_only_numpy_the_waist_simulators_and_inference(module: str) -> None:
    foreign = {name for name in imports_of(module) if name not in MODULES}
    assert foreign <= {"__future__", "numpy", "numpy.typing"} | set(sys.stdlib_module_names) | {"collections.abc"}
    others = {name for name in inside(module) if room_of(name) not in WAIST | {"simulation"}}
    assert all(name.split(".")[-1].startswith("infer_") for name in others), others


def test_no_import_cycle() -> None:
    """Depth first; a module that leads back to one above it closes a cycle."""
    finished: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join((*above[above.index(module) :], module))
        if module not in finished:
            for name in sorted(inside(module)):
                visit(name, (*above, module))
            finished.add(module)

    for module in MODULES:
        visit(module, ())


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_the_source_stays_small() -> None:
    assert len(FILES) <= MAX_FILES
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES) <= MAX_SOURCE_LINES


def test_the_formatter_decides() -> None:
    marks = "fmt: " + "skip", "fmt: " + "off"
    tree = [path for path in ROOT.rglob("*.py") if not {".venv", ".git", "build"} & set(path.parts)]
    assert sum(path.read_text(encoding="utf-8").count(mark) for path in tree for mark in marks) <= MAX_UNFORMATTED


@pytest.mark.parametrize(
    "path", [path for path in FILES if not {"catalogue", "hwloc.py"} & set(path.parts)], ids=name_of
)
def test_what_depends_on_the_compute_capability_stands_in_the_catalogue(path: Path) -> None:
    constants = (node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant))
    assert not [value for value in constants if isinstance(value, str) and CAPABILITY.match(value)]


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [("import gpudissect", ()), ("import gpudissect.cli.app", ("typer", "click", "rich", "pydantic"))],
)
def test_a_bare_import_loads_nothing_heavy(statement: str, allowed: tuple[str, ...]) -> None:
    code = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not (set(HEAVY) - set(allowed)) & set(loaded)


def test_only_the_cuda_device_imports_cuda() -> None:
    for module, path in MODULES.items():
        if "cuda" not in path.relative_to(SOURCE).parts:
            assert not {name for name in imports_of(module) if name.partition(".")[0] == "cuda"}, module
