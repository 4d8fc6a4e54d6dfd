from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest
from families import Families

from tuner.domain.errors import NotPermitted
from tuner.process.ending import end_processes


class Untouchable(psutil.Process):
    """A process of which the system refuses every signal, as for one that runs with other rights."""

    def terminate(self) -> None:
        raise psutil.AccessDenied(self.pid)

    kill = terminate


class Stuck(psutil.Process):
    """A process that signals do not end, as for one that waits for a device forever."""

    def kill(self) -> None:
        pass

    terminate = kill


@pytest.mark.parametrize("kind", [Untouchable, Stuck])
def test_processes_that_stay_are_named(kind: type[psutil.Process]) -> None:
    children = [subprocess.Popen(["/bin/sleep", "60"]) for _ in range(2)]
    processes = [kind(child.pid) for child in children]
    began = time.monotonic()
    with pytest.raises(NotPermitted) as raised:
        end_processes(lambda: processes, grace_s=0.1, death_wait_s=0.3 if kind is Stuck else 60)
    assert time.monotonic() - began < 5
    assert all(str(child.pid) in raised.value.what for child in children)
    for child in children:
        child.kill()
        child.wait()
    assert end_processes(lambda: processes, grace_s=60) == set()


def test_processes_that_appear_while_others_end_are_ended_too() -> None:
    first, second = (subprocess.Popen(["/bin/sleep", "60"]) for _ in range(2))
    answers = [[psutil.Process(first.pid)], [psutil.Process(second.pid)]]
    ended = end_processes(lambda: answers.pop(0) if answers else [], grace_s=5)
    assert {process.pid for process in ended} == {first.pid, second.pid}
    assert (first.wait(timeout=5), second.wait(timeout=5)) == (-15, -15)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="needs root, to give rights up")
def test_engine_with_other_rights_is_reported(families: Families) -> None:
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from tuner.domain.errors import NotPermitted\n"
        "from tuner.process.engine_process import EngineProcess\n"
        "folder, log, marker, *argv = sys.argv[1:]\n"
        "engine = EngineProcess(argv, env=os.environ, log_path=Path(log), marker=marker, stop_grace_s=0.2)\n"
        "engine.start()\n"
        "while not Path(folder, 'server').exists(): time.sleep(0.01)\n"
        "os.setuid(65534)\n"
        "try:\n"
        "    engine.stop()\n"
        "except NotPermitted as error:\n"
        "    assert str(engine.pid) in error.what\n"
        "    print('reported', flush=True)\n"
        "os._exit(0)\n"
    )
    tuner = families.python(code, *families.argv("server"))
    output, errors = tuner.communicate(timeout=15)
    assert output == "reported\n", errors
    assert families.living() == [families.pid("server")]
    psutil.Process(families.pid("server")).kill()
    end_processes(lambda: [psutil.Process(pid) for pid in families.living()], grace_s=5)
