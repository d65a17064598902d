"""Folders for compiled code. It is run when found there, so only this user may write to them."""

import os
import stat
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(kind: str) -> Path | None:
    """Folder `kind` in ``$GPUDISSECT_CACHE``, or else in ``gpudissect`` in the user's cache folder; None if unsafe.

    Relative paths are ignored: the working folder may hold files of other users.
    """
    root, base = os.environ.get("GPUDISSECT_CACHE", ""), os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(root):
        return private_folder(Path(root) / kind)
    try:
        base_folder = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:  # no home folder
        return None
    return private_folder(base_folder / "gpudissect" / kind)


def private_folder(folder: Path) -> Path | None:
    """The folder, created if it is missing; None unless this user owns it and is the only one who may write to it."""
    if not folder.is_absolute():
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    owned = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return folder if owned and not status.st_mode & _WRITABLE_BY_OTHERS else None
