"""Names of cards, as drivers and engines spell them."""

from __future__ import annotations

import re

_VENDOR_WORDS = {
    "NVIDIA": {"nvidia", "geforce", "quadro", "tesla", "rtx", "gtx"},
    "AMD": {"amd", "radeon", "radv", "ati", "gfx", "instinct"},
    "Intel": {"intel", "arc", "iris", "uhd"},
}
_EMPTY = {word for words in _VENDOR_WORDS.values() for word in words} | {
    *("inc", "corporation", "corp", "advanced", "micro", "devices", "gpu", "graphics", "card", "series", "rx")
}
_SUFFIXES = {"ti", "super", "xt", "xtx", "gre", "d", "laptop", "mobile", "max", "q", "m"}
"""Words that make another model of the same number."""
_GLUED = re.compile(r"(?<=rtx)(?=\d)|(?<=gtx)(?=\d)|(?<=rx)(?=\d)|(?<=\d{3})(?=ti|super|xt|gre|m\b)")
"""Where `RTX3080Ti` has lost its blanks."""


def vendor_of(name: str) -> str | None:
    """`NVIDIA`, `AMD` or `Intel` if a word of the name says so."""
    words = _words(name)
    return next((vendor for vendor, known in _VENDOR_WORDS.items() if words & known), None)


def names_agree(one: str, other: str) -> bool:
    """Whether two names say the same model: `AMD Radeon RX 7900 XTX (RADV NAVI31)` and `Radeon RX 7900 XTX`.

    All telling words of one are among those of the other, what makes another model of the same number is the same,
    and there is a number at all.
    """
    return any(_same(mine, others) for mine in _models(one) for others in _models(other))


def names_differ(one: str, other: str) -> bool:
    """Whether both names say a model, and not the same one."""
    return bool(_models(one)) and bool(_models(other)) and not names_agree(one, other)


def _same(one: frozenset[str], other: frozenset[str]) -> bool:
    return (one <= other or other <= one) and one & _SUFFIXES == other & _SUFFIXES


def _models(name: str) -> list[frozenset[str]]:
    """The telling words of each model that a name may mean; none if it has no number.

    The PCI database writes the chip first, and what it is sold as in square brackets: `Navi 31 [Radeon RX 7900 XT/7900
    XTX]`. PCI numbers (`1002:744c`, `0x744c`), and what Mesa adds in round brackets, are no model.
    """
    sold_as = re.search(r"\[([^\]]*\d[^\]]*)\]", name)
    bare = re.sub(
        r"\b[0-9a-f]{4}:[0-9a-f]{4}\b|\b0x[0-9a-f]+|\([^)]*\)", " ", (sold_as.group(1) if sold_as else name).lower()
    )
    models = [frozenset(_words(part) - _EMPTY) for part in bare.split("/")]
    return [model for model in models if any(character.isdigit() for word in model for character in word)]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", _GLUED.sub(" ", text.lower())))
