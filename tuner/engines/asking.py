"""Running an engine's program to hear what it says of itself."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from tuner.domain.errors import EngineNotFound


def asked(
    argv: Sequence[str], env: Mapping[str, str], *, timeout_s: float, advice: str
) -> subprocess.CompletedProcess[str]:
    """What a program printed, and how it ended; `env` is its whole environment.

    Raises:
        EngineNotFound: it is not there, cannot be run, or does not end in time.
    """
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=timeout_s, env=dict(env), check=False
        )
    except FileNotFoundError:
        raise EngineNotFound(f"There is no program {argv[0]}", advice=advice) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineNotFound(f"{argv[0]} cannot be run: {error}", advice=advice) from error
