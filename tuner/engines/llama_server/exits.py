"""Explains why a llama-server process ended: from its log first, from its exit code where the log is silent."""

from __future__ import annotations

import re

from tuner.domain.verdict import Explanation, Outcome
from tuner.engines.cause import Cause, find_cause, short
from tuner.engines.llama_server.exit_causes import CAUSES, SIGNALS
from tuner.engines.llama_server.log_facts import clean_lines, device_of, rpc_devices

_PROMPT_SAVE = "saving prompt with length"
_RECOVERED = re.compile("retrying without pipeline parallelism")
_HEALTHY = re.compile(r"model loaded|listening on http|all slots are idle")
_BACKTRACE = re.compile(
    r"^#\d+ |^\[New LWP|^\[Thread debugging|^\[Inferior|^Using host libthread_db|^0x[0-9a-f]+ in |^\S*\(.*\) ?\[0x"
    r"|^warning: |^See: |GGML_BACKTRACE|^This GDB|debuginfod|^\d+ +\S+ +0x[0-9a-f]{8,}"
)
_SAYS_NOTHING = re.compile(
    r"^$|cleaning up before exit|exiting due to|failed to load model|to show complete usage|memory breakdown|^\s+"
)
_DEVICE = (
    re.compile(r"on device (?P<index>\d+)"),
    re.compile(r"current device: (?P<index>\d+)"),
    re.compile(r"allocate (?P<buffer>[A-Z]\S*\d\S*|CPU\S*|\S+_Host) buffer"),
    re.compile(r"device lost on (?P<buffer>\w+)"),
)
_SIZE = (re.compile(r"(?P<mib>[\d.]+) MiB"), re.compile(r"of size (?P<bytes>\d+)\b(?! *[.\d]* *[KMG]i?B)"))
_NEIGHBOURS = (0, 1, 2, 3, -1, -2, -3)
"""Where details of a failure stand, as seen from the telling line: an error message is followed by its circumstances,
an allocation failure is preceded by the backend's own words."""


def explain_exit(log_text: str, returncode: int | None) -> Explanation:
    """Why the process ended with `returncode`, or, for None, why it is still not ready at its deadline.

    `returncode` is an exit status, a negative signal number (Python's way) or 128 plus the signal number (a shell's).
    An error before the last sign of health was survived: it is the cause only if nothing else is.
    """
    lines = clean_lines(log_text)
    recovered = _last_index(lines, _RECOVERED)
    healthy = max(recovered, _last_index(lines, _HEALTHY))
    killed_by = _signal_number(returncode)
    last = _telling_line(lines)
    found = find_cause(CAUSES, lines, healthy + 1, len(lines))
    if returncode is None:
        return _still_alive(lines, found, last)
    if found is None and killed_by not in SIGNALS:
        found = find_cause(CAUSES, lines, recovered + 1, healthy + 1)
    if found is not None:
        return _explanation(*found, lines, log_text)
    if killed_by in SIGNALS:
        return _signalled(SIGNALS[killed_by], last)
    how = f"signal {killed_by}" if killed_by else f"exit code {returncode}"
    said = f"; its log ends with: {last}" if last else " and wrote nothing to its log"
    return Explanation(outcome=Outcome.CRASHED, reason=f"the engine ended with {how}{said}", line=last)


def _explanation(cause: Cause, match: re.Match[str], index: int, lines: list[str], log_text: str) -> Explanation:
    groups = {name: (text or "").strip() for name, text in match.groupdict().items()}
    device = cause.device or groups.get("device") or None
    if device is None and "device" in cause.reason:
        device = _device_near(lines, index, log_text)
    size = _size_near(lines, index) if cause.outcome is Outcome.OUT_OF_MEMORY else None
    words = {
        **groups,
        "device": device or "",
        "device_or_gpu": device or "a device",
        "on_device": f" {device}" if device else "",
    }
    reason = cause.reason.format(**words)
    if size is not None:
        reason += f" ({size:.0f} MiB asked for)"
    repair = cause.repair.format(**words) if cause.repair else None
    return Explanation(
        outcome=cause.outcome,
        reason=reason,
        repair=repair or None,
        line=short(lines[index]),
        device=device,
        shortfall_mib=size,
    )


def _still_alive(lines: list[str], found: tuple[Cause, re.Match[str], int] | None, last: str | None) -> Explanation:
    line = short(lines[found[2]]) if found else last
    said = f"; its log ends with: {line}" if line else " and has written nothing to its log"
    return Explanation(
        outcome=Outcome.START_TIMEOUT,
        reason=f"the engine is alive but was not ready by the deadline{said}",
        repair="a longer deadline if the log was still moving; otherwise the load hangs",
        line=line,
    )


def _signalled(cause: Cause, last: str | None) -> Explanation:
    repair = cause.repair
    if cause.outcome is Outcome.OUT_OF_MEMORY and last and _PROMPT_SAVE in last:
        repair = "a smaller --cache-ram, or 0: it was saving a prompt to host memory when it was killed"
    return Explanation(outcome=cause.outcome, reason=cause.reason, repair=repair, line=last, device=cause.device)


def _signal_number(returncode: int | None) -> int | None:
    if returncode is None:
        return None
    if returncode < 0:
        return -returncode
    return returncode - 128 if 128 < returncode < 128 + 65 else None


def _telling_line(lines: list[str]) -> str | None:
    """The last line that says something; of a log that is all backtrace, its first line."""
    plain = [line for line in lines if line.strip() and not _BACKTRACE.search(line)]
    candidates = [line for line in plain if not _SAYS_NOTHING.search(line)] or plain
    chosen = candidates[-1] if candidates else next((line for line in lines if line.strip()), None)
    return None if chosen is None else short(chosen)


def _device_near(lines: list[str], index: int, log_text: str) -> str | None:
    for line in _near(lines, index):
        for pattern in _DEVICE:
            if not (match := pattern.search(line)):
                continue
            groups = match.groupdict()
            if groups.get("index") is not None:  # HIP builds share CUDA's messages, the buffer names tell them apart
                backend = next((name for name in ("ROCm", "MUSA") if re.search(rf"\b{name}\d?\b", log_text)), "CUDA")
                return f"{backend}{groups['index']}"
            return device_of(groups["buffer"], rpc_devices(log_text))
    return None


def _size_near(lines: list[str], index: int) -> float | None:
    """MiB of the allocation that failed."""
    for line in _near(lines, index):
        if "alloc" not in line.lower():
            continue
        if match := _SIZE[0].search(line):
            return float(match["mib"])
        if match := _SIZE[1].search(line):
            return round(int(match["bytes"]) / 2**20, 2)
    return None


def _near(lines: list[str], index: int) -> list[str]:
    return [lines[index + offset] for offset in _NEIGHBOURS if 0 <= index + offset < len(lines)]


def _last_index(lines: list[str], pattern: re.Pattern[str]) -> int:
    """The index of the last line that matches, or -1."""
    return max((index for index, line in enumerate(lines) if pattern.search(line)), default=-1)
