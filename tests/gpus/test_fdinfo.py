"""Which programs hold memory on a card, from the files that they have open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.domain.gpu import GpuProcess
from tuner.gpus.fdinfo import processes_on

CARD = "0000:03:00.0"


def open_file(proc: Path, pid: int, number: int, target: str, facts: str = "") -> None:
    for name in ("fd", "fdinfo"):
        (proc / str(pid) / name).mkdir(parents=True, exist_ok=True)
    (proc / str(pid) / "comm").write_text("llama-server\n")
    (proc / str(pid) / "fd" / str(number)).symlink_to(target)
    (proc / str(pid) / "fdinfo" / str(number)).write_text(f"pos:\t0\nflags:\t02\n{facts}")


def facts(client: int, memory: str, bus_id: str = CARD) -> str:
    return f"drm-driver:\tamdgpu\ndrm-client-id:\t{client}\ndrm-pdev:\t{bus_id}\n{memory}\n"


@pytest.mark.parametrize(
    "memory",
    [
        "drm-memory-vram:\t2097152 KiB\ndrm-memory-gtt:\t99 KiB",
        "drm-total-vram:\t9999 MiB\ndrm-memory-vram:\t2097152 KiB",
        "drm-total-vram0:\t8192 MiB\ndrm-resident-vram0:\t2048 MiB\ndrm-resident-system:\t7 MiB",
        "drm-total-local0:\t2147483648",
    ],
)
def test_memory_in_the_words_of_every_driver(tmp_path: Path, memory: str) -> None:
    open_file(tmp_path, 42, 7, "/dev/dri/renderD128", facts(3, memory))

    assert processes_on(CARD, tmp_path) == [GpuProcess(pid=42, used_mib=2048, name="llama-server")]


def test_a_copied_descriptor_counts_once_and_another_card_not_at_all(tmp_path: Path) -> None:
    for number, client in ((5, 1), (6, 1), (7, 2)):
        open_file(tmp_path, 42, number, "/dev/dri/renderD128", facts(client, "drm-memory-vram:\t1024 KiB"))
    open_file(tmp_path, 42, 8, "/dev/dri/renderD129", facts(9, "drm-memory-vram:\t1024 KiB", "0000:0a:00.0"))
    open_file(tmp_path, 43, 8, "/dev/dri/renderD129", facts(9, "drm-memory-vram:\t1024 KiB", "0000:0a:00.0"))
    open_file(tmp_path, 44, 3, "/dev/null", facts(4, "drm-memory-vram:\t1024 KiB"))

    assert [(process.pid, process.used_mib) for process in processes_on(CARD, tmp_path)] == [(42, 2)]


def test_memory_that_is_not_told_is_unknown(tmp_path: Path) -> None:
    open_file(tmp_path, 42, 7, "/dev/dri/card0", facts(3, ""))

    assert processes_on(CARD, tmp_path) == [GpuProcess(pid=42, used_mib=None, name="llama-server")]


def test_programs_that_cannot_be_looked_into_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "99").mkdir()
    (tmp_path / "self").symlink_to("99")

    assert processes_on(CARD, tmp_path) == []
    assert processes_on(CARD, tmp_path / "nowhere") == []
