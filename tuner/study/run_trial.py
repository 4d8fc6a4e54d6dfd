"""One trial, top to bottom: launch, wait, read back, measure, judge, record."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tuner.domain.gpu import GpuReading
from tuner.domain.measurement import Measurement
from tuner.domain.record import Stage, TrialRecord
from tuner.domain.verdict import Outcome, Verdict
from tuner.report.drift import Drift
from tuner.study.devices import check_devices
from tuner.study.dry_run import project_memory
from tuner.study.judge import constraints, failed, reference_of, told_objectives
from tuner.study.kit import Kit, TrialFiles
from tuner.study.launch import Launch, difference_text, marker_of, open_record
from tuner.study.machine_state import wait_for_memory
from tuner.study.measure_trial import Running, measure_trial
from tuner.study.memory import worst_memory
from tuner.study.power import apply_caps, other_caps
from tuner.study.start import wait_until_ready


def run_trial(kit: Kit, launch: Launch) -> TrialRecord:
    """Launches and measures one configuration; its record is durable before the launch and complete afterwards.

    Where power caps are searched, the same launch is measured under further caps, each a trial of its own.

    Raises:
        KeyboardInterrupt: the user stopped it; the record says INTERRUPTED, and no engine is left.
        DeviceGone: the trial failed, and a device went with it.
        MachineBusy: the engine is gone, and the memory that it held does not come back.
    """
    trial = _Trial(kit, launch, kit.free_port())
    idle = kit.cards.idle()
    with trial:
        trial.project_memory()
        over = worst_memory(kit, trial.record)
        if over is not None and over[1] > 0:
            return trial.close(_will_not_fit(kit, trial.record, *over))
        refused = apply_caps(kit, launch.configuration)
        if refused is not None:
            return trial.close(failed(kit.frozen, refused, trial.log))
        _launch_and_measure(kit, trial, idle)
    closed = trial.record
    assert closed.verdict is not None
    if closed.verdict.outcome is not Outcome.OK:
        check_devices(kit)
    wait_for_memory(kit, idle)
    return closed


class _Trial:
    """One record on its way from open to closed; a Ctrl-C on the way closes it as interrupted."""

    def __init__(self, kit: Kit, launch: Launch, port: int, *, on: TrialRecord | None = None) -> None:
        """`on` is the trial whose server is measured, where it is not started for this one."""
        self.launch = launch
        self.port = port
        self.files: TrialFiles = kit.trial_files(launch.number, launch.confirms)
        self.record = open_record(kit, launch, self.files, port)
        if on is not None:
            self.record = self.record.model_copy(update={"launched": on.launched})
        self.log = f"{(on or self.record).folder}/engine.log"
        """Relative to the study's folder."""
        self._kit = kit
        kit.pool.save(self.record, confirm=launch.confirms)
        kit.observer.trial_started(launch.stage, launch.number, difference_text(kit, launch.configuration))

    def project_memory(self) -> None:
        """Asks the engine's dry run. What was measured before, and the baseline, need none."""
        is_new = not self.launch.confirms or self.launch.stage is Stage.TRIM
        if not self.launch.is_baseline and is_new and self.record.command is not None:
            marker = marker_of(self._kit, self.launch)
            projection = project_memory(self._kit, self.record.command, self.files, marker=marker)
            self.record = self.record.model_copy(update={"projection": projection})

    def close(self, verdict: Verdict, measurement: Measurement | None = None) -> TrialRecord:
        """Completes the record, makes it durable and tells the search."""
        kit, launch = self._kit, self.launch
        update = {"finished_at": time.time(), "verdict": verdict, "measurement": measurement}
        closed = self.record.model_copy(update=update)
        over = worst_memory(kit, closed)
        if over is not None and verdict.outcome is not Outcome.WILL_NOT_FIT:
            # Only now is known what this launch itself has shown.
            missed = constraints(verdict.outcome, measurement, kit.frozen.profiles, memory_over_mib=over[1])
            if verdict.outcome is Outcome.OK:
                missed["memory"] = min(missed["memory"], 0.0)
            closed = closed.model_copy(update={"verdict": verdict.model_copy(update={"constraints": missed})})
        self.record = closed
        searched = kit.pool.records()
        reference = launch.reference or reference_of(searched)
        # The search compares configurations, not the hours at which they were measured.
        level = Drift.of(searched, kit.pool.records(confirm=True)).corrected(closed)
        kit.pool.tell(closed, told_objectives(level, kit.frozen.workload, reference), confirm=launch.confirms)
        kit.observer.trial_finished(closed, closed.verdict or verdict)
        return closed

    def __enter__(self) -> _Trial:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self.files.close()
        if isinstance(error, KeyboardInterrupt) and self.record.verdict is None:
            self.close(Verdict(outcome=Outcome.INTERRUPTED, reason="stopped by the user", log=self.log))


def _will_not_fit(kit: Kit, record: TrialRecord, device: str, over_mib: float) -> Verdict:
    assert record.projection is not None
    needed = record.projection.needed_mib[device]
    return Verdict(
        outcome=Outcome.WILL_NOT_FIT,
        reason=f"{device} would miss {over_mib:.0f} MiB: the engine projects {needed:.0f} MiB; not launched",
        constraints=constraints(Outcome.WILL_NOT_FIT, None, kit.frozen.profiles, memory_over_mib=over_mib),
        log=f"{record.folder}/dry-run.log",
    )


def _launch_and_measure(kit: Kit, trial: _Trial, idle: Sequence[GpuReading]) -> None:
    launched = trial.record.launched
    assert launched is not None
    inherited, _ = kit.engine.clean_environment(kit.environment)
    env = {**inherited, **launched.env}
    client = kit.engine.client(trial.port)
    started = time.monotonic()
    try:
        with kit.start_process(launched.argv, env, trial.files.log_path, marker_of(kit, trial.launch)) as process:
            kit.observer.trial_step("loading")
            problem = wait_until_ready(kit, trial.launch, process, client, trial.files)
            if problem is not None:
                trial.close(failed(kit.frozen, problem, trial.log))
                return
            ready_s = time.monotonic() - started
            running = Running(process, client, trial.log, trial.files.log_text, env, ready_s, idle)
            closed = trial.close(*measure_trial(kit, trial.launch, trial.files, running))
            if closed.verdict is not None and closed.verdict.feasible and not trial.launch.confirms:
                _measure_under_other_caps(kit, trial, running)
    finally:
        client.close()


def _measure_under_other_caps(kit: Kit, first: _Trial, running: Running) -> None:
    for configuration in other_caps(kit, first.launch.configuration):
        number = kit.pool.open_beside(configuration)
        launch = Launch(number, first.launch.stage, configuration, reference=first.launch.reference)
        with _Trial(kit, launch, first.port, on=first.record) as trial:
            refused = apply_caps(kit, configuration)
            if refused is not None:
                trial.close(failed(kit.frozen, refused, trial.log))
                continue
            closed = trial.close(*measure_trial(kit, launch, trial.files, running))
            if closed.verdict is None or closed.verdict.outcome is not Outcome.OK:
                return
