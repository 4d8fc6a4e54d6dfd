"""A stand-in for an engine and its workers: `family_program.py FOLDER NAME:TRAIT,TRAIT... NAME:TRAIT...`

The first of the names is this process; it starts the others, as its child, grandchild and so on. Each writes its pid
to FOLDER/NAME once it has its traits and its child is ready, so that the pid of the first tells that all are.

Traits:
    ignores-term      notes each SIGTERM in FOLDER/NAME.asked and goes on
    ends-slowly       takes half a second to end after a SIGTERM and then writes FOLDER/NAME.ended; a second SIGTERM
                      ends it at once
    exits             ends with code 3 once it is ready
    own-session       begins a session of its own
    no-environment    started with an empty environment
    hides-environment overwrites the environment that the system shows of it
    marked            started with TUNER_MARKER taken from the variable CHILD_MARKER
    fat               occupies 64 MiB
    first-thread-ends only its second thread goes on
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path


def main() -> None:
    folder, me, *others = sys.argv[1:]
    name, _, trait_list = me.partition(":")
    traits = trait_list.split(",")
    note = Path(folder, name)
    if "own-session" in traits:
        os.setsid()
    if "ignores-term" in traits:
        signal.signal(signal.SIGTERM, lambda *_: note.with_suffix(".asked").open("a").write("asked\n"))
    if "ends-slowly" in traits:
        signal.signal(signal.SIGTERM, lambda *_: end_slowly(note))
    ballast = []
    if "fat" in traits:
        ballast.append(b"x" * (64 << 20))
    if "hides-environment" in traits:
        hide_environment()
    if others:
        start_child(folder, others)
    note.with_suffix(".new").write_text(str(os.getpid()))
    note.with_suffix(".new").rename(note)
    if "exits" in traits:
        sys.exit(3)
    if "first-thread-ends" in traits:
        threading.Thread(target=time.sleep, args=(60,)).start()
        ctypes.CDLL(None).pthread_exit(None)
    deadline = time.monotonic() + 60  # Even a failed test leaves nothing for long.
    while time.monotonic() < deadline:
        time.sleep(1)


def start_child(folder: str, others: list[str]) -> None:
    child_name, _, child_traits = others[0].partition(":")
    env = {} if "no-environment" in child_traits else dict(os.environ)
    if "marked" in child_traits:
        env["TUNER_MARKER"] = env["CHILD_MARKER"]
    subprocess.Popen([sys.executable, "-S", __file__, folder, *others], env=env)
    while not Path(folder, child_name).exists():
        time.sleep(0.01)


def end_slowly(note: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(0.5)
    note.with_suffix(".ended").touch()
    sys.exit(0)


def hide_environment() -> None:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])  # env_start and env_end, see proc(5); the first field is the third.
    ctypes.memset(start, 0, end - start)


main()
