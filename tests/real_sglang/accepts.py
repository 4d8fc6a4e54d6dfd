"""Reads a JSON list of argument lists, and prints those that SGLang's own parser refuses, with its words.

Run by an interpreter that has SGLang.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import NoReturn

from sglang.srt.server_args import ServerArgs


class _Refused(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)


parser = _Parser(prog="sglang")
ServerArgs.add_cli_args(parser)
refused = []
for arguments in json.load(sys.stdin):
    try:
        parser.parse_args(arguments)
    except _Refused as error:
        refused.append([arguments, str(error)])
print("REFUSED " + json.dumps(refused))
