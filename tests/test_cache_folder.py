"""Folders for compiled code: only those that no other user may write to."""

import os
import pwd

import pytest

from gpudissect.cache_folder import cache_folder, private_folder


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("GPUDISSECT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_the_environment_determines_the_folder(monkeypatch, tmp_path):
    assert cache_folder("kind") == tmp_path / ".cache" / "gpudissect" / "kind"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder("kind") == tmp_path / "xdg" / "gpudissect" / "kind"
    monkeypatch.setenv("GPUDISSECT_CACHE", str(tmp_path / "named"))
    assert cache_folder("kind") == tmp_path / "named" / "kind"


def test_relative_folders_are_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("GPUDISSECT_CACHE", "relative")
    assert cache_folder("kind") == tmp_path / ".cache" / "gpudissect" / "kind"
    monkeypatch.setenv("HOME", "relative")
    assert cache_folder("kind") is None
    assert not (tmp_path / "relative").exists()


def test_without_a_home_there_is_none(monkeypatch, tmp_path):
    def unknown(user):
        raise KeyError(user)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert cache_folder("kind") is None
    assert not list(tmp_path.iterdir())


def test_a_new_folder_is_closed_to_others(tmp_path):
    folder = tmp_path / "deep" / "er"
    umask = os.umask(0)
    try:
        assert private_folder(folder) == folder
    finally:
        os.umask(umask)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_others_may_not_write_to_it(tmp_path, mode):
    tmp_path.chmod(mode)
    assert private_folder(tmp_path) is None


def test_its_owner_is_this_user(monkeypatch, tmp_path):
    assert private_folder(tmp_path) == tmp_path
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert private_folder(tmp_path) is None


def test_it_is_a_folder_and_no_link(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    assert private_folder(tmp_path / "file") is None
    assert private_folder(tmp_path / "link") is None
