"""A sheet to draw on, which becomes one SVG. Coordinates are pixels from the upper left corner."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape, quoteattr

NARROW = 520
"""Below this width a picture is painted for a phone."""
_LETTER, _CAPITAL = 0.58, 0.74
"""Mean widths of letters, as shares of their height. No font is known here, so they are on the wide side."""


def text_width(words: str, size: float = 12) -> float:
    """About how many pixels a text takes."""
    return size * sum(_CAPITAL if letter.isupper() or letter in "_→" else _LETTER for letter in words)


def shortened(words: str, width: float, size: float = 12) -> str:
    """The text, cut with an ellipsis where it would take more than `width` pixels."""
    kept = words
    while kept and text_width(kept, size) > width:
        kept = kept[:-1]
    return words if kept == words else kept[:-1] + "…"


class Sheet:
    """Collects shapes; its height grows with what is drawn through `room`."""

    def __init__(self, width: int, ink: Callable[[str], str]) -> None:
        self.width = width
        self.height = 0.0
        self.ink = ink
        self._parts: list[str] = []

    @property
    def narrow(self) -> bool:
        """Whether it is a phone's width."""
        return self.width < NARROW

    def room(self, height: float) -> float:
        """Adds so much height; where that room begins."""
        begins = self.height
        self.height += height
        return begins

    def line(
        self, x1: float, y1: float, x2: float, y2: float, ink: str = "grid", *, width: float = 1, dash: str = ""
    ) -> None:
        """A straight line."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{self.ink(ink)}" '
            f'stroke-width="{width:g}"{dashed}/>'
        )

    def polyline(self, points: Sequence[tuple[float, float]], ink: str, *, width: float = 2, dash: str = "") -> None:
        """A line through points."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        told = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{told}" fill="none" stroke="{self.ink(ink)}" stroke-width="{width:g}" '
            f'stroke-linejoin="round"{dashed}/>'
        )

    def box(self, x: float, y: float, width: float, height: float, ink: str, *, opacity: float = 1) -> None:
        """A filled rectangle."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{height:.1f}" rx="2" '
            f'fill="{self.ink(ink)}" fill-opacity="{opacity:g}"/>'
        )

    def text(
        self, x: float, y: float, words: str, ink: str = "text", *, anchor: str = "start", size: float = 12,
        bold: bool = False, halo: bool = False,
    ) -> None:  # fmt: skip
        """Words whose base line lies at `y`."""
        weight = ' font-weight="600"' if bold else ""
        around = f' stroke="{self.ink("paper")}" stroke-width="3" paint-order="stroke"' if halo else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{self.ink(ink)}" font-size="{size:g}" text-anchor="{anchor}"'
            f"{weight}{around}>{escape(words)}</text>"
        )

    def mark(
        self, kind: str, x: float, y: float, ink: str, *, size: float = 4, hollow: bool = False, faint: bool = False,
        hover: int | None = None, focus: bool = False, words: str = "",
    ) -> None:  # fmt: skip
        """A point: `circle`, `square`, `triangle`, `diamond`, `pentagon` or `cross`.

        `hover` is the place of what is told of it among the document's hovers; `words` is told where there is none.
        """
        colour = self.ink(ink)
        stroke = f'stroke="{colour}" stroke-width="1.6"'
        paint = f'fill="{self.ink("paper")}" {stroke}' if hollow else f'fill="{colour}"'
        told = ("" if hover is None else f' data-h="{hover}"') + (' opacity="0.45"' if faint else "")
        told += f' tabindex="0" aria-label={quoteattr(words or kind)}' if focus else ""
        inside = f"<title>{escape(words)}</title>" if words and hover is None else ""
        if kind == "circle":
            shape = f'circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}"'
        elif kind == "cross":
            wide = 2 * size
            shape = f'path d="M{x - size:.1f} {y - size:.1f}l{wide:g} {wide:g}m0 {-wide:g}l{-wide:g} {wide:g}"'
            paint = f'fill="none" stroke="{colour}" stroke-width="2"'
        else:
            shape = f'path d="{_outline(kind, x, y, size)}"'
        self._parts.append(
            f"<{shape} {paint}{told}>{inside}</{shape.split()[0]}>" if inside else f"<{shape} {paint}{told}/>"
        )

    def legend(self, entries: Sequence[tuple[str, str, str, bool]]) -> None:
        """Explains marks, flowing over as many lines as it takes: (kind, ink, words, hollow); kind `line` too."""
        x, y = 0.0, self.room(20) + 10
        for kind, ink, words, hollow in entries:
            words = shortened(words, self.width - 22)
            wide = 16 + text_width(words) + 18
            if x > 0 and x + wide - 18 > self.width:
                x, y = 0.0, self.room(20) + 10
            if kind == "line":
                self.line(x, y, x + 12, y, ink, width=2)
            else:
                self.mark(kind, x + 6, y, ink, size=4.5, hollow=hollow)
            self.text(x + 18, y + 4, words, "muted")
            x += wide
        self.room(6)

    def svg(self, says: str, *, picture: bool = False) -> str:
        """The SVG; as a document of its own for a `picture` file."""
        # A font that has every letter, where a picture is drawn without a browser.
        font = 'font-family="DejaVu Sans, Segoe UI, Helvetica, Arial, sans-serif"' if picture else ""
        space = 'xmlns="http://www.w3.org/2000/svg" ' if picture else ""
        return (
            f'<svg {space}viewBox="0 0 {self.width} {math.ceil(self.height)}" width="{self.width}" '
            f'height="{math.ceil(self.height)}" role="img" aria-label={quoteattr(says)} {font}>'
            f"{''.join(self._parts)}</svg>"
        )


def _outline(kind: str, x: float, y: float, size: float) -> str:
    corners = {"square": 4, "triangle": 3, "diamond": 4, "pentagon": 5}[kind]
    turned = math.pi / 4 if kind == "square" else -math.pi / 2
    reach = size * {3: 1.3, 4: 1.25, 5: 1.1}[corners]
    points = [
        (
            x + reach * math.cos(turned + 2 * math.pi * i / corners),
            y + reach * math.sin(turned + 2 * math.pi * i / corners),
        )
        for i in range(corners)
    ]
    return "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in points) + "Z"
