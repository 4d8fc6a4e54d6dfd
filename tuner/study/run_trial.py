"""One trial, top to bottom: launch, wait, read back, measure, judge, record."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tuner.domain.configuration import Configuration
from tuner.domain.measurement import Measurement, RequestFailure
from tuner.domain.record import BASELINE_NOTE, Stage, TrialRecord
from tuner.domain.verdict import Explanation, Outcome, Verdict
from tuner.study.devices import check_devices
from tuner.study.dry_run import project_memory
from tuner.study.judge import constraints, told_objectives
from tuner.study.kit import Kit, TrialFiles
from tuner.study.memory import MemoryLimits
from tuner.study.protocols import Process, RunningClient
from tuner.workload.measure import WorkloadResult, WorkloadRun

_START_S = 120.0
_SLOWEST_LOAD_MIB_S = 50.0
"""A model on a slow disk: what a start may take grows with its size."""
_POLL_S = 0.1
_LAST_WORDS_S = 5.0
"""How long a process that dropped a connection may take to die and say why."""


@dataclass(frozen=True)
class Launch:
    """What is to be launched, and why."""

    number: int
    stage: Stage
    configuration: Configuration
    note: str = ""
    baseline_signs: frozenset[str] = frozenset()
    """What is not as asked in the baseline too: no fault of this configuration."""

    @property
    def is_baseline(self) -> bool:
        """Whether the user's own command is launched instead of an explicit one."""
        return self.stage is Stage.BASELINE or self.note == BASELINE_NOTE

    @property
    def confirms(self) -> bool:
        """Whether it is a re-measurement."""
        return self.stage is Stage.CONFIRM


def run_trial(kit: Kit, launch: Launch) -> TrialRecord:
    """Launches and measures one configuration; its record is durable before the launch and complete afterwards.

    Raises:
        KeyboardInterrupt: the user stopped it; the record says INTERRUPTED, and no engine is left.
        DeviceGone: the trial failed, and a device went with it.
    """
    files = kit.trial_files(launch.number, launch.confirms)
    port = kit.free_port()
    record = _open_record(kit, launch, files, port)
    kit.pool.save(record, confirm=launch.confirms)
    kit.observer.trial_started(launch.stage, launch.number, difference_text(kit, launch.configuration))
    measurement: Measurement | None = None
    try:
        record = _with_projection(kit, launch, record, files)
        over = _memory_over(kit, record)
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
    projection = project_memory(kit, record.command, files, marker=_marker(kit, launch))
    return record.model_copy(update={"projection": projection})


def _memory_over(kit: Kit, record: TrialRecord) -> tuple[str, float] | None:
    """The device that is worst off, and the MiB by which it misses its memory; None without a projection."""
    if record.projection is None:
        return None
    over = MemoryLimits.learned(kit.pool.records()).over(record.projection)
    return max(over.items(), key=lambda pair: pair[1])


def _will_not_fit(kit: Kit, record: TrialRecord, device: str, over_mib: float) -> Verdict:
    assert record.projection is not None
    needed = record.projection.needed_mib[device]
    return Verdict(
        outcome=Outcome.WILL_NOT_FIT,
        reason=f"{device} would miss {over_mib:.0f} MiB: the engine projects {needed:.0f} MiB; not launched",
        constraints=constraints(Outcome.WILL_NOT_FIT, None, kit.frozen.profiles, memory_over_mib=over_mib),
        log=f"{record.folder}/dry-run.log",
    )


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


def _open_record(kit: Kit, launch: Launch, files: TrialFiles, port: int) -> TrialRecord:
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
        command, kit.engine_facts(command.argv[0]), port=port, alias=_alias(kit, launch)
    )
    return TrialRecord(
        number=launch.number,
        stage=launch.stage,
        configuration=launch.configuration,
        note=launch.note,
        owner=kit.owner,
        started_at=time.time(),
        command=command,
        launched=launched,
        folder=files.relative,
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
        with kit.start_process(launched.argv, env, files.log_path, _marker(kit, launch)) as process:
            kit.observer.trial_step("loading")
            problem = _wait_until_ready(kit, launch, process, client, files)
            if problem is not None:
                return _failed(kit, problem, files), None
            ready_s = time.monotonic() - started
            return _measure(kit, launch, process, client, files, ready_s)
    finally:
        client.close()


def _wait_until_ready(
    kit: Kit, launch: Launch, process: Process, client: RunningClient, files: TrialFiles
) -> Explanation | None:
    """None once the server that was just started answers; otherwise why it does not."""
    size_mib = max(model.size_bytes for model in kit.frozen.models) / 2**20
    deadline = time.monotonic() + _START_S + size_mib / _SLOWEST_LOAD_MIB_S
    while process.is_running():
        if client.is_ready():
            answering = client.alias()
            if answering in (None, _alias(kit, launch)):
                return None
            reason = f"another server ({answering}) answers on the port of this trial"
            return Explanation(outcome=Outcome.CRASHED, reason=reason, repair="stop the other server")
        if time.monotonic() > deadline:
            return kit.engine.explain_exit(files.log_text(), None)
        time.sleep(_POLL_S)
    return kit.engine.explain_exit(files.log_text(), process.returncode)


def _measure(
    kit: Kit, launch: Launch, process: Process, client: RunningClient, files: TrialFiles, ready_s: float
) -> tuple[Verdict, Measurement]:
    actual = kit.engine.actual_settings(client, files.log_text())
    rss: list[float] = []

    def after_cell(name: str) -> None:
        kit.observer.trial_step(name)
        resident = process.rss_mib()
        if resident is not None:
            rss.append(resident)

    run = WorkloadRun(
        client,
        kit.frozen.workload,
        salt_key=f"{_marker(kit, launch)}/{time.time_ns()}",
        slots=actual.slots or 1,
        log=files.log_request,
        after_cell=after_cell,
    )
    result = run.measure()
    # The log has grown: some signs only show under load.
    log_text = files.log_text()
    asked = Configuration(values={}) if launch.is_baseline else launch.configuration
    signs = kit.engine.degradations(kit.frozen.space, asked, actual, log_text)
    measurement = Measurement(
        cells=tuple(result.cells),
        ready_s=ready_s,
        actual=actual,
        proven_context=result.deepest_answered,
        host_rss_peak_mib=max(rss, default=None),
        signs=tuple(signs),
        observations=tuple(kit.engine.observations(log_text)),
    )
    return _verdict(kit, launch, process, files, result, measurement), measurement


def _verdict(
    kit: Kit, launch: Launch, process: Process, files: TrialFiles, result: WorkloadResult, measurement: Measurement
) -> Verdict:
    if result.failure is not None:
        return _failed(kit, _explain_failure(kit, process, files, result), files, measurement)
    new_signs = [sign for sign in measurement.signs if sign not in launch.baseline_signs]
    if new_signs and not launch.is_baseline:
        explanation = Explanation(outcome=Outcome.DEGRADED, reason="; ".join(new_signs))
        return _failed(kit, explanation, files, measurement)
    missed = constraints(Outcome.OK, measurement, kit.frozen.profiles)
    reason = "measured" if all(value <= 0 for value in missed.values()) else "measured, but it meets no profile's needs"
    return Verdict(outcome=Outcome.OK, reason=reason, constraints=missed, log=_log_of(files))


def _explain_failure(kit: Kit, process: Process, files: TrialFiles, result: WorkloadResult) -> Explanation:
    """Why a request failed: the process's own last words if it died of it."""
    failure = result.failure
    assert failure is not None
    at = f"in cell {result.failed_cell}"
    if failure.kind in ("connection_lost", "refused"):
        deadline = time.monotonic() + _LAST_WORDS_S
        while process.is_running() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if not process.is_running():
            died = kit.engine.explain_exit(files.log_text(), process.returncode)
            return died.model_copy(update={"reason": f"{died.reason}, {at}"})
    return _FAILED_REQUESTS[failure.kind].model_copy(update={"reason": _told(failure, at)})


_FAILED_REQUESTS = {
    "no_first_token": Explanation(outcome=Outcome.STALLED, reason="", repair="the engine is alive and silent"),
    "stalled": Explanation(outcome=Outcome.STALLED, reason="", repair="the engine is alive and silent"),
    "connection_lost": Explanation(outcome=Outcome.CRASHED, reason=""),
    "refused": Explanation(outcome=Outcome.CRASHED, reason=""),
    "context_exceeded": Explanation(outcome=Outcome.DEGRADED, reason="", repair="more context"),
}


def _told(failure: RequestFailure, at: str) -> str:
    words = {
        "no_first_token": "the server never began to answer",
        "stalled": "the server fell silent",
        "connection_lost": "the connection was lost, though the server is alive",
        "refused": "the server answered with an error",
        "context_exceeded": "the prompt does not fit the context that the server gives",
    }
    return f"{words[failure.kind]} {at} ({failure.detail})"


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
    over = _memory_over(kit, closed)
    if over is not None and verdict.outcome is not Outcome.WILL_NOT_FIT:
        # Only now is known what this launch itself has shown.
        missed = constraints(verdict.outcome, measurement, kit.frozen.profiles, memory_over_mib=over[1])
        if verdict.outcome is Outcome.OK:
            missed["memory"] = min(missed["memory"], 0.0)
        closed = closed.model_copy(update={"verdict": verdict.model_copy(update={"constraints": missed})})
    kit.pool.tell(closed, told_objectives(closed, kit.frozen.workload), confirm=launch.confirms)
    kit.observer.trial_finished(closed, closed.verdict or verdict)
    return closed


def _log_of(files: TrialFiles) -> str:
    return f"{files.relative}/engine.log"


def _marker(kit: Kit, launch: Launch) -> str:
    """Names this launch among all processes of this machine."""
    return f"{kit.frozen.study_id}/{'confirm-' if launch.confirms else ''}{launch.number:04}"


def _alias(kit: Kit, launch: Launch) -> str:
    """The model name the server is started under, to tell it from a stale one on the same port."""
    return "tuner-" + _marker(kit, launch).replace("/", "-")
