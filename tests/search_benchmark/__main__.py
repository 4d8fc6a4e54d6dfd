"""The search benchmark: `python -m tests.search_benchmark [--rig RIG ...] [--strategy NAME ...] [--seeds 10]`.

Every strategy searches every rig for some nights, through the tuner's own pool, rules and memory limits. Printed is
the regret of what would be recommended: by how much per cent its true speed is below the best that the rig has, free
of noise. Each night is a line of JSON in `--results`; nights that lie there already are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

import optuna

from tests.fake_engine.rig import Rig
from tests.search_benchmark.night import run_night, true_score
from tests.search_benchmark.optimum import Optimum
from tests.search_benchmark.simulated import Simulated
from tests.search_benchmark.strategies import BELIEVING, strategies
from tests.search_benchmark.volume import Point, hypervolume
from tuner.domain.measurement import Measurement
from tuner.domain.record import TrialRecord
from tuner.search.space import complete
from tuner.study.judge import objectives

RIGS = Path(__file__).resolve().parent.parent / "rigs"
CHECKPOINTS = (20, 40, 60, 90)
PROFILES = ("coding-agent", "chat", "long-document")


def main() -> None:
    """Runs what is missing, prints the table."""
    options = _options()
    lines = _known(options.results)
    wanted = [(r, s, n) for r in options.rig for s in options.strategy for n in range(options.seeds)]
    missing = [one for one in wanted if one not in lines]
    print(f"{len(wanted) - len(missing)} nights known, {len(missing)} to run", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(options.workers, initializer=_quiet) as pool:
        running = {pool.submit(night, *one, options.profile): one for one in missing}
        for number, future in enumerate(as_completed(running), 1):
            lines[running[future]] = line = future.result()
            with options.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            told = f"{line['rig']} {line['strategy']} seed {line['seed']}, {line['asks_s']:.0f} s of asks"
            print(f"{number}/{len(missing)} {told}", file=sys.stderr, flush=True)
    print(table([line for key, line in lines.items() if key in set(wanted)]))


def night(rig: str, strategy: str, seed: int, profiles: Iterable[str]) -> dict[str, Any]:
    """One night's regrets, in logarithms, and what it wasted."""
    study, best, whole = _truth(rig, tuple(profiles))
    believes = strategy in BELIEVING
    told = run_night(study, strategies()[strategy](study), seed, CHECKPOINTS, believes=believes)
    regrets = {
        str(launches): {
            profile.name: min(1.0, -math.expm1(true_score(study, profile, chosen[profile.name]) - best[profile.name]))
            for profile in study.profiles
        }
        for launches, chosen in told.recommended.items()
    }
    failed = [r.configuration.fingerprint for r in told.records if r.verdict and not r.verdict.feasible]
    return {
        "rig": rig, "strategy": strategy, "seed": seed, "regrets": regrets,
        "volume": {str(n): _share(study, told.records, n, whole) for n in CHECKPOINTS},
        "launches": told.launches, "out_of_memory": told.wasted_on_memory,
        "failed_twice": len(failed) - len(set(failed)), "hours": told.seconds / 3600,
        "asks_s": told.asks_s, "slowest_ask_s": told.slowest_ask_s,
    }  # fmt: skip


def table(lines: Iterable[dict[str, Any]]) -> str:
    """A row for each rig and strategy: mean regret in per cent, worst profile and night, volume, waste."""
    head = ["rig", "strategy", "nights", *(f"regret@{n} %" for n in CHECKPOINTS), "within 5 % @40", "within 2 % @60"]
    rows = [[*head, "volume@90 %", "OOM %", "failed twice", "ask s"]]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["rig"], line["strategy"]), []).append(line)
    for (rig, strategy), nights in sorted(groups.items()):
        means = [
            100 * statistics.fmean(r for n in nights for r in n["regrets"][str(at)].values()) for at in CHECKPOINTS
        ]
        within = [
            statistics.fmean(r <= limit for n in nights for r in n["regrets"][str(at)].values())
            for limit, at in ((0.05, 40), (0.02, 60))
        ]
        volume = 100 * statistics.fmean(n["volume"]["90"] for n in nights)
        waste = 100 * sum(n["out_of_memory"] for n in nights) / sum(n["launches"] for n in nights)
        ask = statistics.fmean(n["asks_s"] / n["launches"] for n in nights)
        told = [*(f"{mean:.1f}" for mean in means), *(f"{share:.0%}" for share in within)]
        twice = sum(n["failed_twice"] for n in nights)
        rows.append([rig, strategy, str(len(nights)), *told, f"{volume:.0f}", f"{waste:.1f}", str(twice), f"{ask:.2f}"])
    lined = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lined[0], "|" + "---|" * len(rows[0]), *lined[1:]])


@lru_cache(maxsize=8)
def _truth(rig: str, profiles: tuple[str, ...]) -> tuple[Simulated, dict[str, float], float]:
    """The study, the best score of each profile, and the volume under all that the search for them has seen."""
    study = Simulated.of(Rig.load(RIGS / f"{rig}.toml"), profiles)
    optimum = Optimum(study)
    best = {profile.name: optimum.best(profile)[0] for profile in study.profiles}
    least = min(profile.least_context for profile in study.profiles)
    seen = [_point(study, m) for m in optimum.front() if (m.actual.context_per_slot or 0) >= least]
    return study, best, hypervolume(seen, _corner(study))


def _share(study: Simulated, records: Iterable[TrialRecord], launches: int, whole: float) -> float:
    """Of the volume that there is the share under what was measured in the first launches, by its true speeds."""
    loaded = [r for r in records if r.verdict is not None and r.verdict.outcome.was_loaded][:launches]
    feasible = [r for r in loaded if r.verdict is not None and r.verdict.feasible]
    points = [
        _point(study, study.true_cells(study.measured(r.configuration, baseline=r.is_baseline))) for r in feasible
    ]
    return hypervolume(points, _corner(study)) / whole


def _point(study: Simulated, measurement: Measurement) -> Point:
    found = objectives(measurement, study.workload, None)
    return found if found is not None else (0.0, 0.0, 0.0)


def _corner(study: Simulated) -> Point:
    """Half of what the owner's command does: what is worse in any way is of no use."""
    baseline = complete(study.space, study.baseline)
    prefill, decode, context = _point(study, study.true_cells(study.measured(baseline, baseline=True)))
    return prefill / 2, decode / 2, context / 2


def _known(results: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    if not results.exists():
        return {}
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {(line["rig"], line["strategy"], line["seed"]): line for line in lines}


def _quiet() -> None:
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def _options() -> argparse.Namespace:
    rigs = sorted(path.stem for path in RIGS.glob("*.toml") if Rig.load(path).measured)
    parser = argparse.ArgumentParser(prog="python -m tests.search_benchmark", description=__doc__)
    parser.add_argument("--rig", action="append", choices=sorted(path.stem for path in RIGS.glob("*.toml")))
    parser.add_argument("--strategy", action="append", choices=sorted(strategies()))
    parser.add_argument("--profile", action="append")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("search_benchmark.jsonl"))
    options = parser.parse_args()
    options.rig = options.rig or rigs
    options.strategy = options.strategy or sorted(strategies())
    options.profile = tuple(options.profile or PROFILES)
    return options


if __name__ == "__main__":
    main()
