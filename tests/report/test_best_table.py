"""The table of `tuner best`: a row a profile, each command once, and the figures that the JSON has."""

from __future__ import annotations

import re

from tests.builders import frozen, measurement, profile, record
from tuner.domain.gpu import GpuUse
from tuner.domain.record import Stage, TrialRecord
from tuner.report.best_table import best_lines
from tuner.report.json_form import best_json
from tuner.report.recommendation import recommend

BASE = record(0, {"chunk": 256, "cache": "f16"}, measurement(), stage=Stage.BASELINE, note="baseline")
FAST = record(1, {"chunk": 512, "cache": "f16"}, measurement(1500.0, 60.0))


def confirmed(factor: float, **changes: object) -> list[TrialRecord]:
    found = []
    for place in range(6):
        near = 1 + 0.001 * (place // 2)
        is_base = place % 2 == 0
        speed = near if is_base else factor * near
        values = BASE.configuration.values if is_base else FAST.configuration.values
        measured = measurement(1000 * speed, 50 * speed, **({} if is_base else changes))
        note = "baseline" if is_base else "trial 1"
        found.append(record(place, values, measured, stage=Stage.CONFIRM, note=note))
    return found


def test_a_row_holds_what_the_json_holds() -> None:
    study = frozen([profile("coder"), profile("reader", depths={"deep": 1.0})])
    found = recommend(study, [BASE, FAST], confirmed(1.5))
    lines = best_lines(study, found)
    titles, coder, reader = (re.split(r" {2,}", line) for line in lines[:3])
    assert titles == ["profile", "gain over yours", "prefill t/s", "decode t/s", "context", "quality", "memory"]
    (one, _) = best_json("s", study, found)["profiles"]
    low, high = one["gain_interval"]
    assert coder == [
        "coder", f"{one['gain']:.2f}x ({low:.2f} to {high:.2f})",
        f"{one['metrics']['prefill_tps']['512']:.0f} at 512",
        f"{one['metrics']['decode_tps']['code']['512']:.1f} code at 512",
        "32768", "-", "0.9 GiB",
    ]  # fmt: skip
    assert reader[2] == f"{one['metrics']['prefill_tps']['8192']:.0f} at 8192"
    assert max(map(len, lines[:3])) <= 110


def test_a_command_that_serves_several_profiles_stands_there_once_with_what_it_changes() -> None:
    study = frozen([profile("coder"), profile("reader", depths={"deep": 1.0})])
    lines = best_lines(study, recommend(study, [BASE, FAST], confirmed(1.5)))
    at = lines.index("coder, reader:")
    assert lines[at + 1] == "  engine --chunk=512 --cache=f16"
    assert lines[at + 2] == "  changed   --chunk: 256 (engine's default) -> 512"
    assert sum("engine --chunk" in line for line in lines) == 1


def test_a_command_that_is_kept_is_told_as_the_users_own() -> None:
    study = frozen()
    lines = best_lines(study, recommend(study, [BASE, FAST], confirmed(1.0001)))
    assert "keep yours: 1.00x (" in lines[1]
    assert "  yours  " in lines[1]
    assert "coder, yours:" in lines
    slow = recommend(study, [BASE, record(1, {}, measurement(9.0, 9.0))], [])
    assert "keep yours, nothing faster" in best_lines(study, slow)[1]
    assert "yours, nothing else tried" in best_lines(study, recommend(study, [BASE], []))[1]
    assert "1.34x, not confirmed" in best_lines(study, recommend(study, [BASE, FAST], []))[1]
    needy = frozen([profile(least_context=10**6)])
    assert "needs not met" in best_lines(needy, recommend(needy, [BASE, FAST], []))[1]


def test_memory_is_that_of_the_cards_the_engine_uses_without_what_was_there_before() -> None:
    uses = (
        GpuUse(key="a", name="A", device="CUDA0", samples=3, memory_idle_mib=1024.0, memory_peak_mib=11264.0),
        GpuUse(key="b", name="B", device=None, samples=3, memory_idle_mib=0.0, memory_peak_mib=4096.0),
    )
    study = frozen()
    lines = best_lines(study, recommend(study, [BASE, FAST], confirmed(1.5, gpus=uses)))
    assert lines[1].endswith("10.0 GiB")


def test_notes_and_power_caps_are_not_lost() -> None:
    study = frozen()
    launches = [
        one.model_copy(update={"cap_commands": ("nvidia-smi -pl 250",)}) if not one.is_baseline else one
        for one in confirmed(1.5, observations=("odd",))
    ]
    lines = best_lines(study, recommend(study, [BASE, FAST], launches))
    assert "  first     sudo nvidia-smi -pl 250   (lost at a restart: see --boot-unit)" in lines
    assert lines[-1] == "with notes on one point: see --details"
