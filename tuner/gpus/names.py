"""Names of cards, as drivers and engines spell them."""

from __future__ import annotations

import re

_VENDOR_WORDS = {
    "NVIDIA": {"nvidia", "geforce", "quadro", "tesla", "rtx", "gtx"},
    "AMD": {"amd", "radeon", "radv", "ati", "gfx", "instinct"},
    "Intel": {"intel", "arc", "iris", "uhd"},
}
_NOISE = {word for words in _VENDOR_WORDS.values() for word in words} | {
    *("r", "tm", "c", "inc", "corporation", "corp", "advanced", "micro", "devices", "gpu", "graphics", "card", "series")
}


def vendor_of(name: str) -> str | None:
    """`NVIDIA`, `AMD` or `Intel` if a word of the name says so."""
    words = set(_words(name))
    return next((vendor for vendor, known in _VENDOR_WORDS.items() if words & known), None)


def names_agree(one: str, other: str) -> bool:
    """Whether two names say the same model: `AMD Radeon RX 7900 XTX (RADV NAVI31)` and `Radeon RX 7900 XTX`.

    The words of one, vendors' and empty ones aside, must be among those of the other, and one must have a digit.
    """
    mine, others = _telling(one), _telling(other)
    shorter, longer = sorted((mine, others), key=len)
    return shorter <= longer and any(_has_digit(word) for word in shorter)


def names_differ(one: str, other: str) -> bool:
    """Whether two names say different models: each has a model of which the other knows nothing."""
    if names_agree(one, other):
        return False
    return _has_model(one) and _has_model(other)


def _has_model(name: str) -> bool:
    return any(_has_digit(word) for word in _telling(name))


def _telling(name: str) -> set[str]:
    # lspci's names have the chip first and what it is sold as in square brackets.
    sold_as = re.search(r"\[([^\]]*\d[^\]]*)\]", name)
    # PCI numbers (`1002:744c`), and what Mesa adds in round brackets (the chip, the compiler), name no model.
    bare = re.sub(r"\b[0-9a-f]{4}:[0-9a-f]{4}\b|\([^)]*\)", " ", sold_as.group(1) if sold_as else name.lower())
    return {word for word in _words(bare) if word not in _NOISE}


def _words(text: str) -> list[str]:
    """`RTX3090` and `RTX 3090` have the same words, and `Ti` is one of its own in `3080Ti`."""
    return [word for part in re.findall(r"[a-z0-9]+", text.lower()) for word in _SPLIT.sub(" ", part).split()]


_SPLIT = re.compile(r"(?<=rtx)(?=\d)|(?<=gtx)(?=\d)|(?<=\d{4})(?=ti|super|xt)")


def _has_digit(word: str) -> bool:
    return any(character.isdigit() for character in word)
