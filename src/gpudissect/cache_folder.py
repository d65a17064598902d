"""Folders for compiled code, which is run when it is found there: nobody but this user may write to them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(kind: str) -> Path | None:
    """Folder `kind` in ``$GPUDISSECT_CACHE``, or else in ``gpudissect`` in the user's cache folder.

    None if that is not safe. Relative paths are ignored: the working folder may hold files of others.
    """
    named, base = os.environ.get("GPUDISSECT_CACHE", ""), os.environ.get("XDG_CACHE_HOME", "")
    try:
        if os.path.isabs(named):
            root = Path(named)
        else:
            root = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "gpudissect"
    except RuntimeError:  # no home folder
        return None
    return private_folder(root / kind)


def private_folder(folder: Path) -> Path | None:
    """Create the folder if it is missing. None unless this user owns it and nobody else may write to it."""
    if not folder.is_absolute():
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    owned = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return folder if owned and not found.st_mode & _WRITABLE_BY_OTHERS else None
