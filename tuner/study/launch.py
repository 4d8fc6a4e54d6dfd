"""What is to be launched: its command, its names, and the record that is on disk before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tuner.domain.configuration import Configuration
from tuner.domain.measurement import Measurement
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.study.kit import Kit, TrialFiles
from tuner.study.power import cap_commands


@dataclass(frozen=True)
class Launch:
    """What is to be launched, and why."""

    number: int
    stage: Stage
    configuration: Configuration
    note: str = ""
    reference: Measurement | None = None
    """The baseline's measurement, once there is one: what deadlines and signs of trouble are held against."""
    put_back: tuple[str, ...] = ()
    """Of a trim the parameters that have the baseline's values again."""

    @property
    def is_baseline(self) -> bool:
        """Whether the user's own command is launched instead of an explicit one."""
        return self.stage is Stage.BASELINE or self.note == BASELINE_NOTE

    @property
    def confirms(self) -> bool:
        """Whether it is a re-measurement: its record is none of those that the search learns from."""
        return self.stage in (Stage.CONFIRM, Stage.ANCHOR, Stage.REMEASURE, Stage.TRIM, Stage.VERIFY)


def open_record(kit: Kit, launch: Launch, files: TrialFiles, port: int) -> TrialRecord:
    """The record of a launch that is about to start, listening on `port`."""
    frozen = kit.frozen
    binary, model = frozen.definition.binary[0], frozen.definition.model[0]
    if launch.is_baseline:
        command = kit.engine.baseline_command(
            binary=binary, model=model, arguments=frozen.baseline_arguments, env=frozen.definition.env
        )
    else:
        command = kit.engine.command(
            frozen.space,
            launch.configuration,
            binary=binary,
            model=model,
            fixed=frozen.fixed,
            env=frozen.definition.env,
        )
    launched = kit.engine.for_measurement(
        command, kit.engine_facts(command.argv[0]), port=port, alias=alias_of(kit, launch)
    )
    return TrialRecord(
        number=launch.number,
        stage=launch.stage,
        configuration=launch.configuration,
        note=launch.note,
        put_back=launch.put_back,
        owner=kit.owner,
        started_at=time.time(),
        command=command,
        launched=launched,
        cap_commands=cap_commands(kit, launch.configuration),
        folder=files.relative,
    )


def marker_of(kit: Kit, launch: Launch) -> str:
    """Names this launch among all processes of this machine."""
    kind = "verify-" if launch.stage is Stage.VERIFY else "confirm-" if launch.confirms else ""
    return f"{kit.frozen.study_id}/{kind}{launch.number:04}"


def alias_of(kit: Kit, launch: Launch) -> str:
    """The model name the server is started under, to tell it from a stale one on the same port."""
    return "tuner-" + marker_of(kit, launch).replace("/", "-")


def difference_text(kit: Kit, configuration: Configuration) -> str:
    """A configuration as its differences from the baseline, for a person."""
    differences = configuration.differences_from(kit.baseline.values)
    defaults = {parameter.name: parameter.default for parameter in kit.frozen.space.parameters}
    told = [
        f"{name}={now}"
        for name, (before, now) in differences.items()
        if now is not None and (before is not None or now != defaults[name])
    ]
    return " ".join(told) or "as the baseline"
