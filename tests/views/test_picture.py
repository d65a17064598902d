"""Drawings as PNG."""

import struct

import pytest

from gpudissect.errors import UsageError
from gpudissect.results import files
from gpudissect.views import card
from gpudissect.views.card import FONTS, PROBE, ZOOM, png_of

SQUARE = PROBE.format('<rect width="20" height="20" fill="black"/>')


def test_a_png_is_larger_by_the_zoom():
    picture = png_of(SQUARE)
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (20 * ZOOM, 20 * ZOOM)


def test_letters_are_drawn_in_an_installed_font():
    text = PROBE.format('<text x="2" y="16" font-size="16" style="font: 16px system-ui, sans-serif">M</text>')
    assert png_of(text) != png_of(PROBE.format(""))


def test_without_a_font_the_error_names_some(monkeypatch):
    monkeypatch.setattr(card, "FONTS", ())
    card._installed_font.cache_clear()
    with pytest.raises(UsageError, match=FONTS[2]):
        png_of(SQUARE)
    card._installed_font.cache_clear()


def test_a_png_without_its_library_is_refused_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    files.check_card(tmp_path / "card.svg")
    with pytest.raises(UsageError, match=r"\.\[png\]"):
        files.check_card(tmp_path / "card.png")
