"""What every format holds: where it comes from, its power cap, its own schema."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.report.export.exports import CUDA, NVIDIA_CAP, SYSFS_CAP, exported, llama_swap_words
from tuner.domain.errors import BadInput
from tuner.domain.facts import Device
from tuner.report.export.exported import MARK
from tuner.report.export.formats import FORMATS, Surroundings, export, write_export

AROUND = Surroundings(user="someone", devices=CUDA)
ARGV = ["/opt/llama-server", "--model", "/m.gguf", "--host", "127.0.0.1", "--port", "8181", "--no-jinja", "-c", "8192"]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_says_where_it_comes_from(form: str) -> None:
    text = export(exported(ARGV), form, AROUND)
    assert MARK in text
    assert "my study" in text
    assert "coder" in text
    assert text.endswith("\n")


@pytest.mark.parametrize("form", FORMATS)
def test_a_tuned_power_cap_goes_with_it(form: str) -> None:
    assert "nvidia-smi" not in export(exported(ARGV), form, AROUND)
    text = export(exported(ARGV, caps=[NVIDIA_CAP]), form, AROUND).replace('"', "").replace("'", "")
    assert "nvidia-smi -i GPU-1 -pl 250" in text.replace(",", "")


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean systemd"):
        export(exported(ARGV), "systemctl", AROUND)


def test_a_script_sets_the_cap_before_the_engine_and_goes_on_without_the_right(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/caps\ntest ! -e {tmp_path}/refuse\n')
    (tools / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tools / "engine").write_text(f"#!/bin/sh\ncat {tmp_path}/caps\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    script = tmp_path / "start.sh"
    write_export(script, "sh", export(exported([str(tools / "engine")], caps=[NVIDIA_CAP]), "sh", AROUND))
    env = {"PATH": f"{tools}:/usr/bin:/bin"}
    done = subprocess.run([script], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("-i GPU-1 -pl 250\n", "")
    (tmp_path / "refuse").touch()
    done = subprocess.run([script], env=env, capture_output=True, text=True, check=True)
    assert "warning: the power cap was not set" in done.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("cap", [NVIDIA_CAP, SYSFS_CAP])
def test_shellcheck(tmp_path: Path, cap: str) -> None:
    script = tmp_path / "start.sh"
    write_export(script, "sh", export(exported(ARGV, {"A": "a b"}, caps=[cap]), "sh", AROUND))
    done = subprocess.run(["shellcheck", "--severity=warning", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("cap", [NVIDIA_CAP, SYSFS_CAP])
def test_systemd_takes_the_unit(tmp_path: Path, cap: str) -> None:
    folder = tmp_path / '100% it\'s a "folder"'
    folder.mkdir()
    engine = folder / "engine"
    engine.write_text("#!/bin/sh\n")
    engine.chmod(0o755)
    unit = tmp_path / "tuned.service"
    unit.write_text(export(exported([str(engine), "--a", "50% $HOME"], {"A": "a b"}, caps=[cap]), "systemd", AROUND))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    own = [line for line in (done.stdout + done.stderr).splitlines() if "tuned.service" in line]
    assert not own
    unit.write_text(unit.read_text().replace("ExecStart=", "ExecStart=/nowhere"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert "tuned.service" in done.stdout + done.stderr, "or the check sees nothing"


# ---- containers ------------------------------------------------------------------------------------------------------


def compose(devices: tuple[Device, ...] = CUDA, **changes: object) -> dict[str, dict[str, dict[str, object]]]:
    made = exported(ARGV, **changes)  # type: ignore[arg-type]
    form: dict[str, dict[str, dict[str, object]]] = yaml.safe_load(
        export(made, "docker-compose", Surroundings(devices=devices))
    )
    return form


KEYS = {
    "image": str, "command": list, "environment": dict, "volumes": list, "ports": list, "restart": str, "deploy": dict,
    "devices": list, "depends_on": dict, "privileged": bool, "entrypoint": list,
}  # fmt: skip
"""What Compose's specification says of these keys of a service."""


@pytest.mark.parametrize("device", ["CUDA0", "ROCm0", "Vulkan0", "SYCL0", None])
def test_a_compose_file_keeps_to_its_specification(device: str | None) -> None:
    devices = (Device(name=device, description="a card"),) if device else ()
    form = compose(devices, caps=[SYSFS_CAP])
    assert form.keys() == {"name", "services"}
    for service in form["services"].values():
        for key, value in service.items():
            assert isinstance(value, KEYS[key]), key
    engine = form["services"]["engine"]
    assert engine["ports"] == ["127.0.0.1:8181:8181"]
    assert engine["depends_on"] == {"power-cap": {"condition": "service_completed_successfully"}}
    assert engine["command"][-2:] == ["--host", "0.0.0.0"]  # type: ignore[index]
    assert form["services"]["power-cap"]["privileged"] is True


def test_the_image_is_the_devices_own_and_of_the_measured_build() -> None:
    assert compose()["services"]["engine"]["image"] == "ghcr.io/ggml-org/llama.cpp:server-cuda-b10068"
    assert compose((), version="unknown")["services"]["engine"]["image"] == "ghcr.io/ggml-org/llama.cpp:server"
    assert "deploy" in compose()["services"]["engine"]
    amd = compose((Device(name="ROCm0", description="AMD Radeon RX 7900 XTX"),))["services"]["engine"]
    assert amd["devices"] == ["/dev/kfd", "/dev/dri"]
    with pytest.raises(BadInput, match="Metal"):
        compose((Device(name="Metal", description="Apple M3"),))
    with pytest.raises(BadInput, match="Windows"):
        compose(system="Windows AMD64")


def test_a_container_gets_the_folders_of_the_files_that_its_command_names(tmp_path: Path) -> None:
    model = tmp_path / "a $b" / "m.gguf"
    model.parent.mkdir()
    model.touch()
    form = yaml.safe_load(export(exported(["/e", "--model", str(model)]), "docker-compose", AROUND))
    (mount,) = form["services"]["engine"]["volumes"]
    folder = str(model.parent).replace("$", "$$")
    assert mount == {"type": "bind", "source": folder, "target": folder, "read_only": True}


# ---- other tools -----------------------------------------------------------------------------------------------------


def test_llama_swap_chooses_the_port_and_the_cap_is_set_first(tmp_path: Path) -> None:
    form = yaml.safe_load(export(exported(ARGV, caps=["echo capped"]), "llama-swap", AROUND))
    assert form.keys() == {"models"}
    (model,) = form["models"].values()
    assert model.keys() <= {"cmd", "env", "checkEndpoint"}
    words = llama_swap_words(model["cmd"], "5800")
    assert "8181" not in words
    assert words[-2:] == ["--port", "5800"]
    words[words.index("/opt/llama-server")] = "/bin/echo"
    (tmp_path / "sudo").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (tmp_path / "sudo").chmod(0o755)
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.stdout.splitlines() == ["capped", shlex.join(words[words.index("/bin/echo") + 1 :])]


def test_a_preset_has_long_names_negations_and_no_address() -> None:
    text = export(exported(["/e", "-m", "/m m.gguf", *ARGV[3:], "--mlock"], {"A": "b c"}), "ini", AROUND)
    section = text[text.index("[my-study-coder]") :].splitlines()
    assert section[1:] == ["model = /m m.gguf", "no-jinja = true", "ctx-size = 8192", "mlock = true"]
    assert "# A='b c' llama-server --models-preset FILE.ini --host 127.0.0.1 --port 8181" in text


# ---- files -----------------------------------------------------------------------------------------------------------


def test_only_an_earlier_export_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "start.sh"
    write_export(path, "sh", export(exported(ARGV), "sh", AROUND))
    write_export(path, "sh", export(exported([*ARGV, "--mlock"]), "sh", AROUND))
    assert "--mlock" in path.read_text()
    path.write_text("mine")
    with pytest.raises(BadInput, match="not written by"):
        write_export(path, "sh", "x")
    assert path.read_text() == "mine"
