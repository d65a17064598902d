"""How much a page has room for: whatever a file holds, its page stays one that a browser opens."""

from __future__ import annotations

from gpudissect.views.page.markup import Markup

FOR_PLOTS = 2_000_000  # bytes
FOR_FINDINGS = 600_000
FOR_THE_REST = 250_000  # three million together, with the page's own style and script


class Room:
    """So many bytes, for what comes first: after the first thing that did not fit nothing else is let in."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.is_full = False

    def has(self, made: Markup, within: Markup | None = None) -> bool:
        """Take what this needs, less what stands within it and was counted elsewhere, if there is so much left."""
        size = len(made.encode()) - len((within or "").encode())
        self.is_full = self.is_full or size > self._left
        if not self.is_full:
            self._left -= size
        return not self.is_full
