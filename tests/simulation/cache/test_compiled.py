"""Folders of compiled functions, and compilation without one."""

import importlib.util
import pwd
from pathlib import Path

import numba
import pytest

from gpudissect.simulation.cache import compiled


def test_without_a_writable_folder_functions_are_compiled(monkeypatch):
    real = compiled.njit

    def njit(cache=False, **options):
        if cache:  # as numba does when it finds no folder for its cache
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(compiled, "njit", njit)
    assert compiled.compiled(lambda x: x + 1)(1) == 2


@pytest.fixture
def function(monkeypatch, tmp_path):
    """A function of a package that cannot be written to, in an empty working folder, without a home."""

    def unknown(user):
        raise KeyError(user)

    for name in ("HOME", "XDG_CACHE_HOME", "GPUDISSECT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    package, working = tmp_path / "package", tmp_path / "working"
    package.mkdir()
    working.mkdir()
    monkeypatch.chdir(working)
    (package / "__pycache__").touch()  # blocks the folder, also for root
    (package / "loop.py").write_text("def successor(x):\n    return x + 1\n")
    spec = importlib.util.spec_from_file_location("loop", package / "loop.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.successor


def test_without_a_home_nothing_is_stored(function):
    assert compiled.compiled(function)(1) == 2
    assert not list(Path().iterdir())


def test_the_users_folder_is_used_beside_a_read_only_source(function, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert compiled.compiled(function)(1) == 2
    folder = tmp_path / ".cache" / "gpudissect" / "numba"
    assert len(list(folder.rglob("*.nbi"))) == 1
    assert numba.config.CACHE_DIR == ""


@pytest.mark.parametrize("variable", ["GPUDISSECT_CACHE", "NUMBA_CACHE_DIR"])
def test_folders_that_others_may_write_to_are_not_used(function, monkeypatch, tmp_path, variable):
    folder = tmp_path / "open" / "numba"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    if variable == "NUMBA_CACHE_DIR":
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    else:
        monkeypatch.setenv(variable, str(folder.parent))
    assert compiled.compiled(function)(1) == 2
    assert not list(folder.iterdir())
