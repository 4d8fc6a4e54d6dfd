"""Scalars of YAML."""

from __future__ import annotations

import json
import re

_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def scalar(text: str) -> str:
    """A text in double quotes, which YAML reads as JSON does (YAML 1.2, chapter 1.3)."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
