"""Pictures as PNG, for slides and pages that take no SVG. Needs the extra ``png``."""

from functools import cache

from gpudissect.errors import UsageError

ZOOM = 2  # pixels of a PNG for each of the SVG
FONTS = ("Helvetica", "Arial", "DejaVu Sans", "Liberation Sans", "Noto Sans")  # the first that is installed is used
PROBE = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
LETTER = '<text x="2" y="16" font-size="16" font-family="sans-serif">M</text>'
NO_FONT = f"a PNG needs one of the fonts {', '.join(FONTS)}: install one, or name a file that ends in .svg"


def png_of(svg: str) -> bytes:
    """The PNG of a drawing. Raises `UsageError` without a font, `ImportError` without resvg-py."""
    import resvg_py

    picture = resvg_py.svg_to_bytes(svg_string=svg, zoom=ZOOM, background="white", sans_serif_family=_installed_font())
    return bytes(picture)


@cache
def _installed_font() -> str:
    """The first of `FONTS` that renders a letter. Raises `UsageError` without one."""
    import resvg_py

    empty = resvg_py.svg_to_bytes(svg_string=PROBE.format(""))
    for font in FONTS:
        if resvg_py.svg_to_bytes(svg_string=PROBE.format(LETTER), sans_serif_family=font) != empty:
            return font
    raise UsageError(NO_FONT)
