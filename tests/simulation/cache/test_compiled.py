"""Where compiled functions are kept on disk, and compiling where they cannot be."""

from __future__ import annotations

import importlib.util
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest

from gpudissect.simulation.cache import compiled


def test_without_a_writable_folder_it_compiles_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    real = compiled.njit

    def njit(cache: bool = False, **options: Any) -> Any:
        if cache:  # as numba does when it finds no folder for its cache
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(compiled, "njit", njit)
    assert compiled.compiled(lambda x: x + 1)(1) == 2


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[int], int]:
    """A function of a package that cannot be written to, in an empty working folder, without a home."""

    def unknown(user: int) -> None:
        raise KeyError(user)

    for name in ("HOME", "XDG_CACHE_HOME", "GPUDISSECT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    package, working = tmp_path / "package", tmp_path / "working"
    package.mkdir()
    working.mkdir()
    monkeypatch.chdir(working)
    (package / "__pycache__").touch()  # in the way, for root too
    (package / "loop.py").write_text("def successor(x):\n    return x + 1\n")
    spec = importlib.util.spec_from_file_location("loop", package / "loop.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.successor  # type: ignore[no-any-return]


def test_without_a_home_nothing_is_kept(function: Callable[[int], int]) -> None:
    assert compiled.compiled(function)(1) == 2
    assert not list(Path().iterdir())


def test_beside_a_source_that_cannot_be_written_to_the_users_folder_is_used(
    function: Callable[[int], int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert compiled.compiled(function)(1) == 2
    folder = tmp_path / ".cache" / "gpudissect" / "numba"
    assert len(list(folder.rglob("*.nbi"))) == 1
    assert numba.config.CACHE_DIR == ""


@pytest.mark.parametrize("variable", ["GPUDISSECT_CACHE", "NUMBA_CACHE_DIR"])
def test_a_folder_that_others_may_write_to_is_not_used(
    function: Callable[[int], int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    folder = tmp_path / "open" / "numba"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    if variable == "NUMBA_CACHE_DIR":
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    else:
        monkeypatch.setenv(variable, str(folder.parent))
    assert compiled.compiled(function)(1) == 2
    assert not list(folder.iterdir())
