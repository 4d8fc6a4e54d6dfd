"""Fault switches: what FAKE_FAULT makes go wrong.

`FAKE_FAULT` is a comma-separated list of `name[@parameter][?condition[&condition...]]`. A condition compares a long
flag, with underscores, with a value: `oom_load?ubatch_size>=2048&cache_type_k=f16`. A flag that was not given has the
value the engine would use where the plan knows it, and else compares as an empty text.

    oom_load  oom_midprompt@TOKENS  hang_load  crash_load  slow_start@SECONDS     while loading, or in a deep prompt
    segv  sigill  killed                     die of that signal while loading; `@request`: in the first completion
    hang_request  stall_midstream@TOKENS  crash_request  http500  garbage         completions
    garbage_deep@TOKENS  forgetful  loops  no_probabilities                      answers, and nothing else
    slow  slow_deep@TOKENS  attention_on_cpu                                      slower than it should be, in silence
    ignore_sigterm  grandchild  cut_context  no_speculation  other_kv_types       the rest
    random@SHARE       any of these, for that share of all configurations; the same one for the same configuration
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

if __package__:
    from .rig_tables import holds
else:
    from rig_tables import holds  # run as a program

NAMES = {
    "oom_load", "oom_midprompt", "hang_load", "crash_load", "slow_start", "segv", "sigill", "killed", "hang_request",
    "stall_midstream", "crash_request", "http500", "garbage", "ignore_sigterm", "grandchild", "cut_context",
    "no_speculation", "slow", "slow_deep", "attention_on_cpu", "other_kv_types", "garbage_deep", "forgetful", "loops",
    "no_probabilities", "random",
}  # fmt: skip
SIGNALS = {"segv": signal.SIGSEGV, "sigill": signal.SIGILL, "killed": signal.SIGKILL}


@dataclass(frozen=True)
class Faults:
    """The faults that are switched on for this configuration: name -> parameter (empty if none was given)."""

    active: Mapping[str, str]

    @classmethod
    def read(cls, text: str, settings: Mapping[str, Any], names: Collection[str] = NAMES) -> Faults:
        """Parse FAKE_FAULT for one configuration. Raises ValueError for an unknown name or an unreadable condition."""
        active = {}
        for item in filter(None, (part.strip() for part in text.split(","))):
            switch, _, conditions = item.partition("?")
            name, _, parameter = switch.partition("@")
            if name not in names:
                raise ValueError(f"FAKE_FAULT: no fault is called '{name}'")
            try:
                met = all(holds(condition, settings) for condition in filter(None, conditions.split("&")))
            except ValueError as error:
                raise ValueError(f"FAKE_FAULT: {error}") from None
            if met:
                active[name] = parameter
        if "random" in active and (chosen := _drawn(float(active.pop("random") or 0.5), settings)):
            active[chosen] = ""
        return cls(active)

    def __contains__(self, name: str) -> bool:
        return name in self.active

    def number(self, name: str, default: float) -> float:
        """The fault's parameter as a number."""
        return float(self.active[name] or default)

    def slowness(self, depth: int) -> float:
        """How many times slower a request at this depth is than the rig says."""
        if "slow" in self or ("slow_deep" in self and depth > self.number("slow_deep", 0)):
            return 20.0
        return 12.0 if "attention_on_cpu" in self else 1.0

    def garbage(self, depth: int) -> bool:
        """Whether a request at this depth is answered fast and wrong."""
        return "garbage" in self or ("garbage_deep" in self and depth > self.number("garbage_deep", 0))

    def die_of_signal(self, moment: str) -> None:
        """End by a real signal if a fault says so for this moment (`load` or `request`)."""
        for name, number in SIGNALS.items():
            if name in self.active and (self.active[name] or "load") == moment:
                die(number)


def _drawn(share: float, settings: Mapping[str, Any]) -> str | None:
    told = json.dumps(
        {k: v for k, v in settings.items() if k not in ("port", "alias", "host", "model")}, sort_keys=True
    )
    rng = random.Random(told)
    return rng.choice(sorted(NAMES - {"random"})) if rng.random() < share else None


def die(number: signal.Signals) -> None:
    """End this process by a signal, without leaving a core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), number)
    signal.pause()  # the signal may be delivered a moment later: nothing may run in between
