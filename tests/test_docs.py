"""The documentation says what the program does: commands, options, files, and the set-up that CI runs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import typer.main

from tuner.cli.app import app, main
from tuner.domain.verdict import Outcome

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

COMMANDS = getattr(typer.main.get_command(app), "commands")  # noqa: B009


def without_quiet(line: str) -> str:
    return line.replace("install -q ", "install ")


@pytest.mark.parametrize("extra", ["quickstart", "dev"])
def test_ci_runs_the_set_up_that_the_readme_gives(extra: str) -> None:
    told = re.search(
        rf"^python3 -m venv .venv && .venv/bin/pip install -e '\.\[{extra}\]' && (.*)$", README, re.MULTILINE
    )
    assert told is not None
    install = f"python3 -m venv .venv && .venv/bin/pip install -e '.[{extra}]'"
    lines = [without_quiet(line) for line in CI.splitlines()]
    assert any(line.startswith(install) for line in lines)
    assert any(line == told[1] or line.endswith(f"&& {told[1]}") for line in lines)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_documented(command: str) -> None:
    assert f"`tuner {command}" in README


def test_every_command_line_in_the_readme_is_one_that_the_program_takes() -> None:
    lines = re.findall(r"(?:^|`)(?:\.venv/bin/)?tuner ([a-z]+[^`#\n]*)", README, re.MULTILINE)
    assert len(lines) > 8
    for line in lines:
        own = line.split(" -- ")[0]
        name, *words = own.replace("[", " ").replace("]", " ").split()
        assert name in COMMANDS, line
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        for word in words:
            if word.startswith("--") and word != "--":
                assert word in known, f"tuner {line}: {word}"


def test_every_option_named_in_the_text_exists() -> None:
    run = {option for parameter in COMMANDS["run"].params for option in parameter.opts}
    paragraph = README[README.index("Options of `run`") :].split("\n\n")[0]
    named = re.findall(r"--[a-z-]+", paragraph)
    assert len(named) > 8
    assert set(named) <= run


def test_every_outcome_is_explained() -> None:
    for outcome in Outcome:
        assert f"`{outcome.value}`" in README


def test_paths_named_in_the_code_map_exist() -> None:
    text = (ROOT / "tuner" / "README.md").read_text(encoding="utf-8")
    rooms = "domain|study|engines|process|workload|search|store|report|cli"
    named = re.findall(rf"`((?:{rooms})/[\w/]+\.py)`", text)
    assert len(named) > 5
    for path in named:
        if "NAME" in path:
            continue
        assert (ROOT / "tuner" / path).is_file(), path


def test_the_kept_study_can_be_read_and_its_figures_come_from_its_request_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "studies" / "sample-quickstart", tmp_path / "sample-quickstart")
    with pytest.raises(SystemExit) as ended:
        main(["best", "sample-quickstart", "--studies", str(tmp_path), "--json"])
    assert ended.value.code in (0, None)
    profiles = json.loads(capsys.readouterr().out)["profiles"]
    assert len(profiles) == 5
    chat = next(profile for profile in profiles if profile["name"] == "chat")
    assert chat["is_baseline"], "the kept run is one in which a single launch had looked 1.4 times as fast"
    measured = []
    for folder in ("confirm-0000", "confirm-0003"):
        lines = (tmp_path / "sample-quickstart" / "trials" / folder / "requests.jsonl").read_text().splitlines()
        (one,) = [r for r in map(json.loads, lines) if r["cell"] == "prose-en@384" and r["counts"]]
        measured.append(1000 * (one["completion_tokens"] - 1) / one["decode_ms"])
    assert chat["metrics"]["decode_tps"]["prose-en"]["384"] == pytest.approx(sum(measured) / 2)
