"""Figures with their units. Those of a recommendation are read from its JSON form, and say where they stand there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.report.page.document import Number, Run, Text

UNKNOWN = "not measured"


class Figures:
    """A place in what `tuner best --json` prints, from which numbers are taken."""

    def __init__(self, told: Any, pointer: str) -> None:
        self.told = told
        self.pointer = pointer

    def at(self, *keys: str | int) -> Figures:
        """A place further inside; it holds None where there is nothing."""
        told, pointer = self.told, self.pointer
        for key in keys:
            told = _inside(told, key)
            pointer += "/" + str(key).replace("~", "~0").replace("/", "~1")
        return Figures(told, pointer)

    def number(self, *keys: str | int, digits: int = 0, scale: float = 1.0, sign: bool = False) -> Number | None:
        """The figure that stands there, rounded; None where none does."""
        place = self.at(*keys)
        if not isinstance(place.told, int | float) or isinstance(place.told, bool):
            return None
        shown = f"{place.told * scale:{'+' if sign else ''}.{digits}f}"
        return Number(float(place.told), shown, place.pointer, scale)

    def speed(self, *keys: str | int) -> Text:
        """Tokens a second."""
        told = self.at(*keys).told
        return with_unit(self.number(*keys, digits=speed_digits(told)), "t/s")

    def time(self, *keys: str | int) -> Text:
        """A time that stands there in milliseconds."""
        told = self.at(*keys).told
        if told is not None and told >= 10_000:
            return with_unit(self.number(*keys, digits=1, scale=0.001), "s")
        return with_unit(self.number(*keys), "ms")

    def memory(self, *keys: str | int) -> Text:
        """Memory that stands there in MiB."""
        return with_unit(self.number(*keys), "MiB")


def with_unit(number: Number | None, unit: str) -> Text:
    """A figure and its unit, or that there is none. The space does not break."""
    return (UNKNOWN,) if number is None else (number, f"\N{NO-BREAK SPACE}{unit}")


def number(value: float, digits: int = 0, *, scale: float = 1.0, sign: bool = False) -> Number:
    """A figure that `tuner best --json` does not tell."""
    return Number(float(value), f"{value * scale:{'+' if sign else ''}.{digits}f}", scale=scale)


def count(value: int) -> Number:
    """How many of something."""
    return Number(float(value), str(value))


def counted(value: int, noun: str, plural: str = "s") -> str:
    """`1 trial`, `2 trials`."""
    return f"{value} {noun}{'' if value == 1 else plural}"


def speed_digits(value: float | None) -> int:
    """Digits after the point of a speed in tokens a second."""
    return 1 if value is not None and value < 200 else 0


def interval(figures: Figures, key: str, *, scale: float = 1.0) -> Text | None:
    """`1.31 to 1.54`, with a third digit near 1, where two would hide on which side an end lies; None without one."""
    ends = figures.at(key).told
    if ends is None:
        return None
    digits = 3 if min(abs(end - 1) for end in ends) < 0.01 else 2
    low, high = figures.number(key, 0, digits=digits, scale=scale), figures.number(key, 1, digits=digits, scale=scale)
    assert low is not None
    assert high is not None
    return (low, " to ", high)


def joined(parts: Sequence[Text], between: str = ", ") -> Text:
    """Several texts in a row."""
    runs: list[Run] = []
    for part in parts:
        runs += [between, *part] if runs else part
    return tuple(runs)


def _inside(told: Any, key: str | int) -> Any:
    if isinstance(told, dict):
        return told.get(str(key))
    if isinstance(told, list) and isinstance(key, int) and key < len(told):
        return told[key]
    return None
