"""The command line of the fake SGLang server, read from its own help text, with argparse's errors."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any, NoReturn

HELP_FILE = Path(__file__).with_name("sglang_help.txt")
_HEAD = re.compile(r"^  (--[\w-]+)(?:, (--[\w-]+))?(?: (\S.*?))?(?:  .*)?$")
_HEAD_WITH_HINTS = re.compile(r"^  (--[\w-]+) (\S+), (--[\w-]+) (\S+)$")
NUMBERS = {
    "mem_fraction_static": float, "schedule_conservativeness": float, "mamba_full_memory_ratio": float,
    "hicache_ratio": float, "swa_full_tokens_ratio": float,
}  # fmt: skip
TEXTS = {
    "model_path", "host", "served_model_name", "speculative_algorithm", "speculative_draft_model_path", "dtype",
    "device",
    "kv_cache_dtype", "attention_backend", "cuda_graph_backend_decode", "mamba_ssm_dtype", "log_level",
}  # fmt: skip


class ArgumentError(Exception):
    """A command line that is refused, with exit code 2. The message is what goes to stderr."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ArgumentError(f"usage: sglang serve [-h] --model-path MODEL_PATH ...\nsglang serve: error: {message}")


def parse(argv: list[str], help_text: str | None = None) -> dict[str, Any]:
    """Values by long name with underscores; None or False for what was not given. Raises ArgumentError."""
    parser = _Parser(prog="sglang serve", add_help=False)
    for line in (help_text or HELP_FILE.read_text()).splitlines():
        if match := _HEAD_WITH_HINTS.match(line):
            names, hint = [match[1], match[3]], match[4]
        elif (match := _HEAD.match(line)) and not line.startswith("  -h"):
            names, hint = [name for name in match.groups()[:2] if name], match[3]
        else:
            continue
        key = names[0][2:].replace("-", "_")
        if hint is None:
            parser.add_argument(*names, action="store_true")
        elif hint.startswith("{"):
            parser.add_argument(*names, choices=hint[1:-1].split(","))
        else:
            parser.add_argument(*names, type=str if key in TEXTS else NUMBERS.get(key, int))
    settings = vars(parser.parse_args(argv))
    if settings["model_path"] is None:
        parser.error("the following arguments are required: --model-path/--model")
    return settings
