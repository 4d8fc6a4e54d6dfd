"""Reads SGLang's log: lines without their prefix, the arguments as they were resolved, and what shows under load."""

from __future__ import annotations

import re

_PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z]+\d+(?: [A-Z]+\d+)*)?\] ")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CACHE = re.compile(r"KV Cache is allocated\. dtype: (?:torch\.)?(\w+)")
_FRACTION = re.compile(r"mem_fraction_static(?:'?: |=)([\d.]+)")
_POOL = re.compile(r"max_total_num_tokens=(\d+).*context_len=(\d+)")
_NOTEWORTHY: tuple[tuple[str, str], ...] = (
    (
        r"KV cache pool is full\. Retract requests",
        "the KV pool was full: requests were thrown out and computed again, so that speeds collapse",
    ),
    (r"watchdog timeout .*soft=True", "a step took longer than the engine's soft watchdog allows"),
    (r"falls? back to (\S+) (?:attention )?backend", "the engine fell back to the {0} attention backend"),
    (r"num_draft_tokens is adjusted", "the engine adjusted the number of draft tokens to the steps"),
)
"""Pattern of a log line -> sentence; `{0}` is the first group."""


def clean_lines(log_text: str) -> list[str]:
    """The lines of a log without colours, time stamp and rank."""
    return [_PREFIX.sub("", line.rstrip()) for line in _COLOUR.sub("", log_text).splitlines()]


def kv_type(log_text: str) -> str | None:
    """The KV cache's type as torch calls it (`bfloat16`, `float8_e4m3fn`); None where the log does not say."""
    found = _CACHE.search(log_text)
    return found[1] if found else None


def resolved_fraction(log_text: str) -> float | None:
    """The static share of memory that the launch ran with, also where the engine chose it."""
    found = _FRACTION.search(log_text)
    return float(found[1]) if found else None


def observations(log_text: str) -> list[str]:
    """What a person should know of a server that is up, one sentence each, in order of appearance."""
    signs: dict[str, None] = {}
    for line in clean_lines(log_text):
        if (sizes := _POOL.search(line)) and int(sizes[1]) < int(sizes[2]):
            signs[f"the KV pool holds {sizes[1]} tokens: no more of the context of {sizes[2]} can be used"] = None
        for pattern, sentence in _NOTEWORTHY:
            if match := re.search(pattern, line):
                signs[sentence.format(*match.groups())] = None
    return list(signs)
