"""Measures a server that is ready: read back, measure, watch the machine meanwhile, look for what went wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tuner.domain.configuration import Configuration
from tuner.domain.gpu import GpuReading, GpuUse
from tuner.domain.measurement import ActualSettings, Measurement
from tuner.domain.quality import QualityResult
from tuner.domain.verdict import Explanation, Outcome, Verdict
from tuner.report.drift import Drift, levelled
from tuner.report.spread_told import spread_lines
from tuner.study.collapse import collapse_signs, slow_everywhere
from tuner.study.cross_check import disagreements
from tuner.study.failures import explain_failure
from tuner.study.hopeless import Hopeless, HopelessCheck, never
from tuner.study.judge import constraints, failed, reference_of
from tuner.study.kit import Kit, TrialFiles
from tuner.study.launch import Launch, marker_of
from tuner.study.machine_state import cool_down, crept, is_steady, throttled
from tuner.study.precision import precision_of
from tuner.study.protocols import Process, RunningClient
from tuner.study.quality import against_baseline, baseline_told, is_comparable, what_is_wrong
from tuner.workload.measure import WorkloadResult, WorkloadRun
from tuner.workload.patience import Patience
from tuner.workload.quality import QualityRun


@dataclass(frozen=True)
class Running:
    """A server that is ready, and what is known of its launch."""

    process: Process
    client: RunningClient
    log: str
    """Where the engine's log lies, relative to the study's folder."""
    log_text: Callable[[], str]
    """The engine's log so far."""
    env: Mapping[str, str]
    ready_s: float
    """From launch to ready."""
    idle: Sequence[GpuReading]
    """What the cards read before the launch."""


def measure_trial(kit: Kit, launch: Launch, files: TrialFiles, running: Running) -> tuple[Verdict, Measurement]:
    """One pass over the workload, and what to make of it.

    Where heat held a card down, though not in the baseline, it waits for the cards to cool and measures once more.
    """
    actual = kit.engine.actual_settings(running.client, running.log_text())
    result, uses, notes = _pass(kit, launch, files, running, actual)
    if result.failure is None and throttled(uses) and not is_steady(launch.reference):
        kit.observer.note(f"measured again after cooling: {'; '.join(throttled(uses))}")
        cool_down(kit, running.idle)
        result, uses, notes = _pass(kit, launch, files, running, actual)
    peak = running.process.memory_peak()
    measurement = Measurement(
        cells=tuple(result.cells),
        ready_s=running.ready_s,
        actual=actual,
        proven_context=result.deepest_answered,
        host_rss_peak_mib=peak.rss_mib,
        swap_growth_mib=peak.swap_growth_mib,
        cut_short=result.cut_short,
        quality=_quality(kit, launch, result),
        gpus=_named(kit, running, uses),
        observations=notes,
    )
    measurement = _with_signs(kit, launch, running, measurement)
    return _verdict(kit, launch, files, running, result, measurement), measurement


def _pass(
    kit: Kit, launch: Launch, files: TrialFiles, running: Running, actual: ActualSettings
) -> tuple[WorkloadResult, tuple[GpuUse, ...], tuple[str, ...]]:
    hopeless: HopelessCheck = never
    if launch.reference is not None and not launch.confirms and not launch.is_baseline:
        searched, again = kit.pool.records(), kit.pool.records(confirm=True)
        drift = Drift.of(searched, again)
        hopeless = Hopeless(kit.frozen, launch.reference, levelled(searched, again), actual, drift)
    patience = Patience(launch.reference)
    quality = QualityRun(
        running.client,
        log=files.log_request,
        first_token_s=patience.first_token_s,
        is_baseline=launch.is_baseline,
    )
    run = WorkloadRun(
        running.client,
        kit.frozen.workload,
        salt_key=f"{marker_of(kit, launch)}/{time.time_ns()}",
        slots=actual.slots or 1,
        log=files.log_request,
        patience=patience,
        precision=precision_of(kit, launch),
        hopeless=hopeless,
        after_cell=kit.observer.trial_step,
        quality=quality if is_comparable(launch.reference) else None,
    )
    recording = kit.cards.record(files.gpu_csv_path, running.idle)
    with recording:
        result = run.measure()
    return result, recording.uses(), recording.notes


def _quality(kit: Kit, launch: Launch, result: WorkloadResult) -> QualityResult | None:
    """The answers, held against the baseline's. What a user should know of the baseline's own is told once."""
    if result.quality is None:
        return None
    if reference_of(kit.pool.records()) is None:
        for told in baseline_told(result.quality):
            kit.observer.note(told)
    return against_baseline(result.quality, launch.reference)


def _named(kit: Kit, running: Running, uses: Sequence[GpuUse]) -> tuple[GpuUse, ...]:
    """The cards' use with what the engine calls each of them, where that is certain."""
    if not uses:
        return ()
    devices = kit.frozen.engines[0].devices
    joined = kit.cards.joined(devices, kit.engine.bus_ids(running.log_text()), running.env)
    names = {joined.card_of(device.name): device.name for device in devices}
    return tuple(use.model_copy(update={"device": names.get(place)}) for place, use in enumerate(uses))


def _with_signs(kit: Kit, launch: Launch, running: Running, measurement: Measurement) -> Measurement:
    # The log has grown since the start: some signs only show under load.
    log_text = running.log_text()
    asked = Configuration(values={}) if launch.is_baseline else launch.configuration
    signs = [
        *kit.engine.degradations(kit.frozen.space, asked, measurement.actual, log_text),
        *collapse_signs(measurement, launch.reference, kit.frozen.models[0].layers),
        *kit.cards.changed_caps(),
    ]
    observations = [
        *measurement.observations,
        *kit.engine.observations(log_text),
        *slow_everywhere(measurement, launch.reference),
        *disagreements(measurement.cells),
        *throttled(measurement.gpus),
        *crept(measurement.gpus, launch.reference),
        *spread_lines(measurement),
    ]
    return measurement.model_copy(update={"signs": tuple(signs), "observations": tuple(observations)})


def _verdict(
    kit: Kit,
    launch: Launch,
    files: TrialFiles,
    running: Running,
    result: WorkloadResult,
    measurement: Measurement,
) -> Verdict:
    if result.failure is not None:
        return failed(kit.frozen, explain_failure(kit, running.process, files, result), running.log, measurement)
    wrong = what_is_wrong(measurement.quality.cost) if measurement.quality is not None else None
    if wrong is not None and launch.is_baseline:
        kit.observer.note(f"quality: the baseline does not repeat its own answers: {wrong}")
    elif wrong is not None:
        explanation = Explanation(outcome=Outcome.WRONG_OUTPUT, reason=wrong)
        return failed(kit.frozen, explanation, running.log, measurement)
    # What is not as asked in the baseline too is no fault of this configuration.
    known = launch.reference.signs if launch.reference is not None else ()
    new_signs = [sign for sign in measurement.signs if sign not in known]
    if new_signs and not launch.is_baseline:
        explanation = Explanation(outcome=Outcome.DEGRADED, reason="; ".join(new_signs))
        return failed(kit.frozen, explanation, running.log, measurement)
    missed = constraints(Outcome.OK, measurement, kit.frozen.profiles)
    reason = "measured" if all(value <= 0 for value in missed.values()) else "measured, but it meets no profile's needs"
    return Verdict(outcome=Outcome.OK, reason=result.cut_short or reason, constraints=missed, log=running.log)
