"""A real PostgreSQL of the test's own, and a cable to it that can be cut.

The server runs in a temporary folder on a free port, never as root: it refuses that.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PASSWORD = "s3cret:p@ss/word"
IN_A_URL = "s3cret%3Ap%40ss%2Fword"


def programs() -> Path | None:
    """The folder with Debian's server programs, which are not on the PATH of every user."""
    for place in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (place / "initdb").exists():
            return place
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


@contextmanager
def server() -> Iterator[int]:
    """A running server; yields its port. Its user is `tuner`, its database `postgres`."""
    place = programs()
    assert place is not None
    user = _ordinary_user()
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        folder = Path(name)
        (folder / "pw").write_text(PASSWORD)
        for path in (folder, folder / "pw"):
            if user is not None:
                os.chown(path, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        common = {"cwd": folder, "user": user, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        subprocess.run(
            [place / "initdb", "-D", folder / "data", "-U", "tuner", "--pwfile", folder / "pw", "--auth=scram-sha-256",
             "--no-sync", "--locale=C", "-E", "UTF8"],
            check=True, **common,
        )  # fmt: skip
        port = free_port()
        running = subprocess.Popen(
            [place / "postgres", "-D", folder / "data", "-p", str(port), "-h", "127.0.0.1", "-k", folder, "-F"],
            **{**common, "stderr": subprocess.DEVNULL},
        )
        try:
            _wait_for(port)
            yield port
        finally:
            running.send_signal(signal.SIGINT)  # With SIGTERM it would wait for its clients.
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ordinary_user() -> str | None:
    """Whom the server runs as: this user, or for root somebody without rights."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise AssertionError("no user without rights")


def _wait_for(port: int) -> None:
    import psycopg

    for _ in range(200):
        try:
            with psycopg.connect(host="127.0.0.1", port=port, user="tuner", password=PASSWORD, dbname="postgres"):
                return
        except psycopg.OperationalError:
            threading.Event().wait(0.1)
    raise AssertionError("the server never answered")


class Cable:
    """Passes connections on to a port. While it is cut nothing goes through, and nobody is told."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._whole = threading.Event()
        self._whole.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        """New connections go through; the old ones are dead, as after a router's restart."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self._whole.set()

    def close(self) -> None:
        self._listener.close()
        self.mend()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._whole.wait()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._pairs.append((near, far))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self._whole.is_set():
                    return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
