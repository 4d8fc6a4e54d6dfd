"""One trial, top to bottom: launch, wait, read back, measure, judge, record."""

from __future__ import annotations

import time

from tuner.domain.configuration import Configuration
from tuner.domain.measurement import Measurement
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Explanation, Outcome, Verdict
from tuner.study.collapse import collapse_signs, slow_everywhere
from tuner.study.devices import check_devices
from tuner.study.dry_run import project_memory
from tuner.study.failures import explain_failure
from tuner.study.hopeless import Hopeless, HopelessCheck, never
from tuner.study.judge import constraints, reference_of, told_objectives
from tuner.study.kit import Kit, TrialFiles
from tuner.study.launch import Launch, difference_text, marker_of, open_record
from tuner.study.memory import worst_memory
from tuner.study.protocols import Process, RunningClient
from tuner.study.start import wait_until_ready
from tuner.workload.measure import WorkloadResult, WorkloadRun
from tuner.workload.patience import Patience


def run_trial(kit: Kit, launch: Launch) -> TrialRecord:
    """Launches and measures one configuration; its record is durable before the launch and complete afterwards.

    Raises:
        KeyboardInterrupt: the user stopped it; the record says INTERRUPTED, and no engine is left.
        DeviceGone: the trial failed, and a device went with it.
    """
    files = kit.trial_files(launch.number, launch.confirms)
    port = kit.free_port()
    record = open_record(kit, launch, files, port)
    kit.pool.save(record, confirm=launch.confirms)
    kit.observer.trial_started(launch.stage, launch.number, difference_text(kit, launch.configuration))
    measurement: Measurement | None = None
    try:
        record = _with_projection(kit, launch, record, files)
        over = worst_memory(kit, record)
        if over is not None and over[1] > 0:
            verdict = _will_not_fit(kit, record, *over)
        else:
            verdict, measurement = _launch_and_measure(kit, launch, record, files, port)
    except KeyboardInterrupt:
        interrupted = Verdict(outcome=Outcome.INTERRUPTED, reason="stopped by the user", log=_log_of(files))
        _close(kit, launch, record, interrupted, None)
        raise
    finally:
        files.close()
    closed = _close(kit, launch, record, verdict, measurement)
    if verdict.outcome not in (Outcome.OK, Outcome.WILL_NOT_FIT):
        check_devices(kit)
    return closed


def _with_projection(kit: Kit, launch: Launch, record: TrialRecord, files: TrialFiles) -> TrialRecord:
    """The record with what the engine's dry run says. What was measured before, and the baseline, need none."""
    if launch.is_baseline or launch.confirms or record.command is None:
        return record
    projection = project_memory(kit, record.command, files, marker=marker_of(kit, launch))
    return record.model_copy(update={"projection": projection})


def _will_not_fit(kit: Kit, record: TrialRecord, device: str, over_mib: float) -> Verdict:
    assert record.projection is not None
    needed = record.projection.needed_mib[device]
    return Verdict(
        outcome=Outcome.WILL_NOT_FIT,
        reason=f"{device} would miss {over_mib:.0f} MiB: the engine projects {needed:.0f} MiB; not launched",
        constraints=constraints(Outcome.WILL_NOT_FIT, None, kit.frozen.profiles, memory_over_mib=over_mib),
        log=f"{record.folder}/dry-run.log",
    )


def _launch_and_measure(
    kit: Kit, launch: Launch, record: TrialRecord, files: TrialFiles, port: int
) -> tuple[Verdict, Measurement | None]:
    launched = record.launched
    assert launched is not None
    inherited, _ = kit.engine.clean_environment(kit.environment)
    client: RunningClient = kit.engine.client(port)
    env = {**inherited, **launched.env}
    started = time.monotonic()
    try:
        with kit.start_process(launched.argv, env, files.log_path, marker_of(kit, launch)) as process:
            kit.observer.trial_step("loading")
            problem = wait_until_ready(kit, launch, process, client, files)
            if problem is not None:
                return _failed(kit, problem, files), None
            ready_s = time.monotonic() - started
            return _measure(kit, launch, process, client, files, ready_s)
    finally:
        client.close()


def _measure(
    kit: Kit, launch: Launch, process: Process, client: RunningClient, files: TrialFiles, ready_s: float
) -> tuple[Verdict, Measurement]:
    actual = kit.engine.actual_settings(client, files.log_text())
    hopeless: HopelessCheck = never
    if launch.reference is not None and not launch.confirms and not launch.is_baseline:
        hopeless = Hopeless(kit.frozen, launch.reference, kit.pool.records(), actual)
    run = WorkloadRun(
        client,
        kit.frozen.workload,
        salt_key=f"{marker_of(kit, launch)}/{time.time_ns()}",
        slots=actual.slots or 1,
        log=files.log_request,
        patience=Patience(launch.reference),
        hopeless=hopeless,
        after_cell=kit.observer.trial_step,
    )
    result = run.measure()
    # The log has grown: some signs only show under load.
    log_text = files.log_text()
    peak = process.memory_peak()
    measurement = Measurement(
        cells=tuple(result.cells),
        ready_s=ready_s,
        actual=actual,
        proven_context=result.deepest_answered,
        host_rss_peak_mib=peak.rss_mib,
        swap_growth_mib=peak.swap_growth_mib,
        cut_short=result.cut_short,
    )
    asked = Configuration(values={}) if launch.is_baseline else launch.configuration
    signs = kit.engine.degradations(kit.frozen.space, asked, actual, log_text)
    signs += collapse_signs(measurement, launch.reference, kit.frozen.models[0].layers)
    observations = [*kit.engine.observations(log_text), *slow_everywhere(measurement, launch.reference)]
    measurement = measurement.model_copy(update={"signs": tuple(signs), "observations": tuple(observations)})
    return _verdict(kit, launch, process, files, result, measurement), measurement


def _verdict(
    kit: Kit, launch: Launch, process: Process, files: TrialFiles, result: WorkloadResult, measurement: Measurement
) -> Verdict:
    if result.failure is not None:
        return _failed(kit, explain_failure(kit, process, files, result), files, measurement)
    # What is not as asked in the baseline too is no fault of this configuration.
    known = launch.reference.signs if launch.reference is not None else ()
    new_signs = [sign for sign in measurement.signs if sign not in known]
    if new_signs and not launch.is_baseline:
        explanation = Explanation(outcome=Outcome.DEGRADED, reason="; ".join(new_signs))
        return _failed(kit, explanation, files, measurement)
    missed = constraints(Outcome.OK, measurement, kit.frozen.profiles)
    reason = "measured" if all(value <= 0 for value in missed.values()) else "measured, but it meets no profile's needs"
    return Verdict(outcome=Outcome.OK, reason=result.cut_short or reason, constraints=missed, log=_log_of(files))


def _failed(kit: Kit, why: Explanation, files: TrialFiles, measurement: Measurement | None = None) -> Verdict:
    return Verdict(
        outcome=why.outcome,
        reason=why.reason,
        constraints=constraints(why.outcome, measurement, kit.frozen.profiles),
        log=_log_of(files),
        explanation=why,
    )


def _close(
    kit: Kit, launch: Launch, record: TrialRecord, verdict: Verdict, measurement: Measurement | None
) -> TrialRecord:
    closed = record.model_copy(update={"finished_at": time.time(), "verdict": verdict, "measurement": measurement})
    over = worst_memory(kit, closed)
    if over is not None and verdict.outcome is not Outcome.WILL_NOT_FIT:
        # Only now is known what this launch itself has shown.
        missed = constraints(verdict.outcome, measurement, kit.frozen.profiles, memory_over_mib=over[1])
        if verdict.outcome is Outcome.OK:
            missed["memory"] = min(missed["memory"], 0.0)
        closed = closed.model_copy(update={"verdict": verdict.model_copy(update={"constraints": missed})})
    reference = launch.reference or reference_of(kit.pool.records())
    kit.pool.tell(closed, told_objectives(closed, kit.frozen.workload, reference), confirm=launch.confirms)
    kit.observer.trial_finished(closed, closed.verdict or verdict)
    return closed


def _log_of(files: TrialFiles) -> str:
    return f"{files.relative}/engine.log"
