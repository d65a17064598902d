"""Compiling where nothing can be kept on disk."""

from __future__ import annotations

from typing import Any

import pytest

from gpudissect.cachemodel import compiled


def test_without_a_writable_folder_it_compiles_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    real = compiled.njit

    def njit(cache: bool = False, **options: Any) -> Any:
        if cache:  # as numba does when it finds no folder for its cache
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(compiled, "njit", njit)
    assert compiled.compiled(lambda x: x + 1)(1) == 2
