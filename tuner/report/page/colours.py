"""The colours of page and pictures. Series differ in lightness too, and never by colour alone: their marks differ."""

from __future__ import annotations

LIGHT = {
    "paper": "#ffffff",
    "panel": "#f5f6f8",
    "text": "#1a1d21",
    "muted": "#5b6470",
    "grid": "#dfe3e8",
    "axis": "#9aa3ad",
    "link": "#1d4ed8",
    "good": "#0b7a55",
    "bad": "#b42318",
    "s0": "#6b7480",
    "s1": "#1d5fd1",
    "s2": "#c2570c",
    "s3": "#0b7a55",
    "s4": "#8436b8",
    "s5": "#a3123f",
}
DARK = {
    "paper": "#15181c",
    "panel": "#1f242a",
    "text": "#e8eaed",
    "muted": "#a3acb8",
    "grid": "#323941",
    "axis": "#67717d",
    "link": "#8ab4ff",
    "good": "#58d6a7",
    "bad": "#ff8a7d",
    "s0": "#98a2ae",
    "s1": "#7fb0ff",
    "s2": "#ffa862",
    "s3": "#58d6a7",
    "s4": "#cf9bf5",
    "s5": "#ff8fb0",
}
SERIES = ("s1", "s2", "s3", "s4", "s5")
MARKS = ("circle", "triangle", "diamond", "pentagon")
"""Of the series; the square is the baseline's."""


def variable(name: str) -> str:
    """The colour as the page's style sheet knows it: light or dark, as the reader's system is."""
    return f"var(--{name})"


def light(name: str) -> str:
    """The colour on white paper."""
    return LIGHT[name]


def style(palette: dict[str, str]) -> str:
    """The palette as declarations for a style sheet."""
    return "".join(f"--{name}:{colour};" for name, colour in palette.items())
