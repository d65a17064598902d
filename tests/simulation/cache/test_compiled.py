"""Folders of compiled functions, and compilation without one."""

import importlib.util
import pwd
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from gpudissect.simulation.cache import compiled


@pytest.fixture
def function(monkeypatch, tmp_path):
    """A function of a package that cannot be written to, in an empty working folder, without a home."""

    def unknown(user):
        raise KeyError(user)

    for name in ("HOME", "XDG_CACHE_HOME", "GPUDISSECT_CACHE", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
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
    assert len(list(folder.glob("*.o"))) == 1
    monkeypatch.setattr(compiled, "_compile", None)
    assert compiled.compiled(function)(1) == 2
    with pytest.raises(TypeError):
        compiled.compiled(function)(1.0)  # other types


def test_numbers_and_nested_arrays_are_passed():
    def add(pair, weight, scale):
        numbers, (table,) = pair
        for row in range(len(numbers)):
            numbers[row] += table[row, 1]
        return weight + scale * numbers[1]

    numbers, table = np.arange(3), np.array([[0.0, 10.0], [0.0, 20.0], [0.0, 30.0]])
    assert compiled.compiled(add)((numbers, (table,)), 1, np.float64(0.5)) == 11.5
    assert numbers.tolist() == [10, 21, 32]


def test_arrays_of_other_shapes_are_refused():
    def first_of_two(numbers):
        first, second = numbers
        return first + 0 * second

    assert compiled.compiled(first_of_two)(np.array([3, 4])) == 3
    with pytest.raises(ValueError, match="first_of_two"):
        compiled.compiled(first_of_two)(np.arange(3))


@pytest.mark.parametrize("variable", ["GPUDISSECT_CACHE", "NUMBA_CACHE_DIR"])
def test_folders_that_others_may_write_to_are_not_used(function, monkeypatch, tmp_path, variable):
    folder = tmp_path / "open" / "numba"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    monkeypatch.setenv(variable, str(folder if variable == "NUMBA_CACHE_DIR" else folder.parent))
    assert compiled.compiled(function)(1) == 2
    assert not list(folder.iterdir())


@pytest.mark.parametrize("jit", ["0", "1"])
def test_first_arguments_are_passed_with_every_call(monkeypatch, jit):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", jit)

    def add(numbers, pair, scale):
        numbers[0] += pair[1][0]
        return scale * numbers[0]

    numbers, pair = np.arange(1, 3), (1, np.array([5]))
    function = compiled.compiled(add)
    shorter = compiled.with_first(function, numbers, pair)
    assert [shorter(2), shorter(3), function(numbers, pair, 2)] == [12, 33, 32]


def test_of_several_processes_one_compiles_and_the_others_wait(function, monkeypatch, tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    successor, compiled_here = compiled.compiled(function), []
    assert compiled.is_missing(successor)
    compile_ = compiled._compile
    code = compile_(function, (1,))

    @contextmanager
    def locked(path):
        """Meanwhile another process has compiled it."""
        path.with_suffix(".o").write_bytes(code)
        yield

    monkeypatch.setattr(compiled, "_locked", locked)
    monkeypatch.setattr(compiled, "_compile", lambda *arguments: compiled_here.append(arguments))
    assert successor(1) == 2 and not compiled_here
    assert not compiled.is_missing(successor)


def test_a_lock_is_waited_for(tmp_path):
    order = []

    def second():
        with compiled._locked(tmp_path / "lock"):
            order.append("second")

    with compiled._locked(tmp_path / "lock"):
        thread = Thread(target=second)
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_without_a_cache_no_process_can_compile(function):
    assert not compiled.is_missing(compiled.compiled(function))
