"""Whatever stands in a command comes out of every target as it went in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.export.exports import (
    CUDA,
    NASTY,
    cmd_exe,
    exported,
    llama_swap_words,
    power_shell,
    systemd_words,
)  # fmt: skip
from tuner.domain.errors import BadInput
from tuner.report.export.formats import Surroundings, export

AROUND = Surroundings(user="someone", devices=CUDA)
PLAIN = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
WORDS = st.lists(st.one_of(st.sampled_from(NASTY), PLAIN), max_size=6)

PRINTER = """#!{python}
import json, os, sys
print(json.dumps([sys.argv[1:], os.environ.get("NAME")]))
"""


@pytest.fixture(scope="module")
def printer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program in a folder with a nasty name that prints what it got."""
    path = tmp_path_factory.mktemp('it\'s a $HOME "%n"') / "print it"
    path.write_text(PRINTER.format(python=sys.executable))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("shell", ["dash", "bash", "sh"])
def test_a_shell_gives_the_program_what_was_measured(printer: Path, shell: str) -> None:
    argv = [str(printer), "--list", *NASTY, "two\nlines"]
    text = export(exported(argv, {"NAME": 'it\'s "$5" & 100%'}), "sh", AROUND)
    script = printer.with_suffix(".sh")
    script.write_text(text)
    subprocess.run([shell, "-n", str(script)], check=True)
    done = subprocess.run(
        [shell, str(script), "--more", "a b"], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert json.loads(done.stdout) == [[*argv[1:], "--more", "a b"], 'it\'s "$5" & 100%']


def test_pasted_into_an_interactive_shell_it_leaves_the_shell_and_its_variables_alone(printer: Path) -> None:
    text = export(exported([str(printer), "--list", "a b"], {"NAME": "x"}), "sh", AROUND)
    done = subprocess.run(
        ["bash", "--norc", "-i"], input=text + 'echo "still here $NAME."\n', capture_output=True, text=True, timeout=20
    )
    assert json.dumps([["--list", "a b"], "x"]) in done.stdout
    assert "still here ." in done.stdout


@given(WORDS, PLAIN)
def test_cmd_exe(words: list[str], value: str) -> None:
    env: dict[str, str] = {}
    argv = ["C:\\Program Files (x86)\\llama 100%\\llama-server.exe", "--list", *words]
    text = export(exported(argv, {"NAME": value}), "bat", AROUND)
    assert cmd_exe(text, env) == argv
    assert env == {"NAME": value}


@given(WORDS, PLAIN)
def test_power_shell(words: list[str], value: str) -> None:
    argv = ["C:\\it's here\\llama-server.exe", "--list", *words]
    assert power_shell(export(exported(argv, {"NAME": value}), "ps1", AROUND)) == (argv, {"NAME": value})


def test_power_shell_before_7_3_is_helped_with_quotes_inside_and_only_then() -> None:
    assert "lt 703" in export(exported(["e", "--kwargs", '{"a":1}']), "ps1", AROUND)
    assert "lt 703" not in export(exported(["e", "--kwargs", "a b"]), "ps1", AROUND)


@given(WORDS, PLAIN)
def test_systemd(words: list[str], value: str) -> None:
    argv = ["/opt/100% mine/engine", "--list", *words]
    text = export(exported(argv, {"NAME": value}), "systemd", AROUND)
    start = text.split("ExecStart=:")[1].split("Restart=")[0].replace(" \\\n", "\n")
    assert systemd_words(start) == argv
    (assignment,) = systemd_words(text.split("Environment=")[1].splitlines()[0])
    assert assignment == f"NAME={value}"


@given(WORDS, PLAIN)
@settings(max_examples=40)
def test_llama_swap(words: list[str], value: str) -> None:
    argv = ["/opt/it's/llama-server", "--port", "8080", "--list", *words]
    value = value.replace("${", "")
    form = yaml.safe_load(export(exported(argv, {"NAME": value}), "llama-swap", AROUND))
    (model,) = form["models"].values()
    assert llama_swap_words(model["cmd"], "5800") == [argv[0], "--list", *words, "--port", "5800"]
    assert model["env"] == [f"NAME={value}"]


@given(WORDS, PLAIN)
@settings(max_examples=40)
def test_compose(words: list[str], value: str) -> None:
    argv = ["/opt/llama-server", "--host", "127.0.0.1", "--list", *words]
    form = yaml.safe_load(export(exported(argv, {"NAME": value}), "docker-compose", AROUND))
    engine = form["services"]["engine"]
    # A single dollar sign would begin a variable.
    read = [word.replace("$$", "\0") for word in [*engine["command"], engine["environment"]["NAME"]]]
    assert not any("$" in word for word in read)
    assert [word.replace("\0", "$") for word in read] == ["--list", *words, "--host", "0.0.0.0", value]


@given(WORDS, PLAIN)
def test_json(words: list[str], value: str) -> None:
    argv = ["e", *words, "two\nlines"]
    form = json.loads(export(exported(argv, {"NAME": value}), "json", AROUND))
    assert (form["argv"], form["env"]) == (argv, {"NAME": value})


@pytest.mark.parametrize("form", ["bat", "llama-swap", "ini"])
def test_what_a_format_cannot_hold_is_refused_and_not_mangled(form: str) -> None:
    with pytest.raises(BadInput, match="line break"):
        export(exported(["e", "--model", "two\nlines"]), form, AROUND)


@pytest.mark.parametrize("value", ["a#b", "a;b", " a", "a "])
def test_a_preset_cuts_no_value_short(value: str) -> None:
    with pytest.raises(BadInput, match="preset"):
        export(exported(["e", "--model", value]), "ini", AROUND)


def test_a_preset_holds_no_flag_twice_and_none_that_is_unknown() -> None:
    with pytest.raises(BadInput, match="once"):
        export(exported(["e", "-ot", "a=CPU", "--override-tensor", "b=CPU"]), "ini", AROUND)
    with pytest.raises(BadInput, match="--nothing"):
        export(exported(["e", "--nothing", "1"]), "ini", AROUND)
