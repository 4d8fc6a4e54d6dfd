"""The memory that programs may use: the lowest limit of all control groups around this process."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tuner.store.memory_limit import usable_memory_mib

GIB = 2**30
TOTAL_MIB = psutil.virtual_memory().total // 2**20


def tree(root: Path, groups: str, limits: dict[str, str]) -> Path:
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(groups)
    for path, limit in limits.items():
        file = root / "sys" / "fs" / "cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit + "\n")
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "mib"),
    [
        ("0::/a/b\n", {"a/b/memory.max": str(2 * GIB), "a/memory.max": "max"}, 2048),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": str(GIB)}, 1024),
        ("0::/host/path\n", {"memory.max": str(GIB)}, 1024),
        ("5:cpu,memory:/x\n4:pids:/x\n", {"memory/x/memory.limit_in_bytes": str(GIB)}, 1024),
        ("5:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9223372036854771712"}, TOTAL_MIB),
        ("0::/a\n", {"a/memory.max": "max"}, TOTAL_MIB),
        ("0::/a\n", {}, TOTAL_MIB),
        ("nonsense\n", {}, TOTAL_MIB),
    ],
    ids=["own", "parent's", "in a container", "version 1", "version 1, none", "max", "no files", "unreadable"],
)
def test_the_lowest_limit_counts(tmp_path: Path, groups: str, limits: dict[str, str], mib: int) -> None:
    assert usable_memory_mib(tree(tmp_path, groups, limits)) == mib


def test_elsewhere_all_memory_is_usable(tmp_path: Path) -> None:
    assert usable_memory_mib(tmp_path) == TOTAL_MIB
