"""What the *user* must mend. What becomes of a trial is never an exception: see `tuner.domain.verdict`.

TunerError
├── BadInput          an option, a name or a file's content is wrong
├── MissingFile       a file is not there, cannot be read, or is not what it should be
├── EngineNotFound    no engine binary, or one that does not run on this machine
├── UnknownFlag       the installed engine does not know a flag
├── StudyMismatch     the study was made on another machine, model or build
├── NotTrusted        a study from somewhere else, and nobody to ask whether to run it
├── StudyBusy         another tuner is at work on this study
├── BaselineFailed    the command that everything is compared with does not run
├── DeviceGone        a device that the study was made with has vanished
├── HostUnstable      the machine went down twice in a row
├── MachineBusy       what an engine held does not come back, so the next one would measure another machine
├── PowerCapRefused   a graphics card does not take a power cap
└── NotPermitted      a folder cannot be written, a process cannot be stopped, a power cap not set
"""

from __future__ import annotations


class TunerError(Exception):
    """Base of all errors shown to the user: one message, no traceback, exit code 2.

    Attributes:
        what: one sentence on what failed.
        where: the file, line, option or log it happened in, if there is one.
        advice: what to try, if something is known to help.
    """

    def __init__(self, what: str, *, where: str | None = None, advice: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.advice = advice

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.advice:
            lines.append(f"  try:   {self.advice}")
        return "\n".join(lines)


class BadInput(TunerError):
    """An option, a name or the content of a file is wrong."""


class MissingFile(TunerError):
    """A file is not there, cannot be read, or is not what it should be."""


class EngineNotFound(TunerError):
    """There is no engine binary, or the one that was named does not run here."""


class UnknownFlag(TunerError):
    """The installed engine does not know a flag that it was asked to use."""


class StudyMismatch(TunerError):
    """The study in the folder was made under other conditions than the present ones."""


class NotTrusted(TunerError):
    """The study was made by somebody else or somewhere else, and nobody has said yet that it may run here."""


class StudyBusy(TunerError):
    """Another tuner process is at work on this study."""


class BaselineFailed(TunerError):
    """The baseline could not be measured, so there is nothing to compare with."""


class DeviceGone(TunerError):
    """A device that the study was made with is no longer there, so every further figure would be another machine's."""


class HostUnstable(TunerError):
    """The machine went down in two launches in a row: a person should look at it before the next one."""


class MachineBusy(TunerError):
    """Something holds what the engine needs: a measurement now would be another machine's."""


class PowerCapRefused(TunerError):
    """A graphics card does not take the power cap that was asked for."""


class NotPermitted(TunerError):
    """The operating system does not allow what is needed."""
