"""Explains why an SGLang process ended: from its log, and from its exit code only where the log is silent.

The exit code says little. A launcher whose scheduler failed kills its whole tree and itself, so that it ends with
SIGKILL like a victim of the kernel; a port that is taken ends nothing at all.
"""

from __future__ import annotations

import re

from tuner.domain.verdict import Explanation, Move, Outcome
from tuner.engines.cause import Cause, find_cause, short
from tuner.engines.sglang.exit_causes import CAUSES, FRACTION, SIGNALS
from tuner.engines.sglang.log_facts import clean_lines, resolved_fraction

_READY = "The server is fired up and ready to roll"
_TRIED = re.compile(
    r"Tried to allocate (?P<size>[\d.]+) (?P<unit>[KMG])iB\. GPU (?P<gpu>\d+) .*?of which (?P<free>[\d.]+) "
    r"(?P<free_unit>[KMG])iB is free"
)
_BYTES = re.compile(r"tried to allocate (?P<bytes>\d+) bytes")
_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}
_SAYS_NOTHING = re.compile(
    r"^$|^INFO: |kill_process_tree|Triggering SIGQUIT|^\s|^Traceback|Exception ignored|UserWarning|^  warn"
)


def explain_exit(log_text: str, returncode: int | None) -> Explanation:
    """Why the process ended with `returncode`, or, for None, why it is still not ready at its deadline.

    `returncode` is an exit status, or a negative signal number as in `subprocess`.
    """
    lines = clean_lines(log_text)
    ready = max((index for index, line in enumerate(lines) if _READY in line), default=-1)
    # An error in one request is told and survived: what stands before the end counts, of a dead server alone.
    found = find_cause(CAUSES, lines, ready + 1, len(lines))
    last = _last_words(lines)
    if returncode is None:
        return _still_alive(lines, found, last, log_text)
    if found is not None:
        return _explanation(*found, lines, log_text, was_ready=ready >= 0)
    number = -returncode if returncode < 0 else returncode - 128 if 128 < returncode < 193 else None
    cause = SIGNALS.get(number) if number is not None else None
    if cause is not None:
        return Explanation(
            outcome=cause.outcome, reason=cause.reason, repair=cause.repair, line=last, device=cause.device
        )
    how = f"signal {number}" if number else f"exit code {returncode}"
    said = f"; its log ends with: {last}" if last else " and wrote nothing to its log"
    return Explanation(outcome=Outcome.CRASHED, reason=f"the engine ended with {how}{said}", line=last)


def _explanation(
    cause: Cause, match: re.Match[str], index: int, lines: list[str], log_text: str, *, was_ready: bool
) -> Explanation:
    words = {name: (text or "").strip() for name, text in match.groupdict().items()}
    size, device = cause.device and _host_mib(lines), cause.device
    reason, moves = cause.reason, cause.moves
    tried = _TRIED.search("\n".join(lines[max(0, index - 3) : index + 4]))
    shortfall = size
    if tried and device is None:
        size = float(tried["size"]) * _MIB[tried["unit"]]
        shortfall = max(0.0, size - float(tried["free"]) * _MIB[tried["free_unit"]])
        device = f"{'ROCm' if re.search('HIP|ROCm', log_text) else 'CUDA'}{tried['gpu']}"
    if cause.outcome is Outcome.OUT_OF_MEMORY and _in_weights(lines[:index]) and cause.device is None:
        reason, moves = "the model's weights do not fit into the memory{on_device}", ()
    words |= {"on_device": f" of {device}" if device else ""}
    told = reason.format(**words)
    if size:
        told += f" ({size:.0f} MiB asked for)"
    outcome = Outcome.CRASHED if cause.outcome is Outcome.INVALID and was_ready else cause.outcome
    at = float(words["at"]) if words.get("at") else resolved_fraction(log_text)
    return Explanation(
        outcome=outcome,
        reason=told,
        repair=(cause.repair.format(**words) if moves or not cause.moves else "more cards, or a smaller quantisation")
        if cause.repair
        else None,
        line=short(lines[index]),
        device=device,
        shortfall_mib=shortfall or None,
        moves=tuple(_at(move, at) for move in moves),
    )


def _at(move: Move, fraction: float | None) -> Move:
    return move.model_copy(update={"at": fraction}) if move.flag == FRACTION else move


def _in_weights(lines: list[str]) -> bool:
    """Whether the weights were still being loaded: no share of memory changes what they need."""
    begun = sum("Load weight begin" in line for line in lines)
    return begun > sum("Load weight end" in line for line in lines)


def _host_mib(lines: list[str]) -> float | None:
    found = next((match for line in reversed(lines) if (match := _BYTES.search(line))), None)
    return int(found["bytes"]) / 2**20 if found else None


def _still_alive(
    lines: list[str], found: tuple[Cause, re.Match[str], int] | None, last: str | None, log_text: str
) -> Explanation:
    """A launcher that waits for a rank which has died looks alive, and one without its port as well."""
    if found is not None:
        died = _explanation(*found, lines, log_text, was_ready=False)
        return died.model_copy(update={"reason": f"{died.reason}; the launcher waits on, and was stopped"})
    said = f"; its log ends with: {last}" if last else " and has written nothing to its log"
    return Explanation(
        outcome=Outcome.START_TIMEOUT,
        reason=f"the engine is alive but was not ready by the deadline{said}",
        repair="a longer deadline if the log was still moving (the first start compiles kernels); otherwise it hangs",
        line=last,
    )


def _last_words(lines: list[str]) -> str | None:
    """The last line that says something."""
    plain = [line for line in lines if line.strip()]
    telling = [line for line in plain if not _SAYS_NOTHING.search(line)] or plain
    return short(telling[-1]) if telling else None
