"""TCP ports for engines."""

from __future__ import annotations

import errno
import os
import socket

from tuner.domain.errors import BadInput


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody uses at this moment, chosen by the operating system.

    It is not reserved: another program can take it before the engine does, so the start of the engine may still fail.

    Raises:
        BadInput: `host` is not an address of this machine.
    """
    with _bound(host, 0) as bound:
        port: int = bound.getsockname()[1]
        return port


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on the port now.

    Worth asking before a launch: llama-server's HTTP library sets SO_REUSEPORT, with which two servers can share a
    port and split the requests between them; SGLang keeps running without ever answering.

    Raises:
        BadInput: `host` is not an address of this machine.
    """
    try:
        _bound(host, port).close()
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return False
        raise
    return True


def _bound(host: str, port: int) -> socket.socket:
    """A socket bound to the address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise BadInput(f"unknown host: {error.strerror}", where=host) from error
    bound = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # Connections of an ended server that are still in TIME_WAIT do not keep a new one from listening. On
            # Windows the option would allow to take a port from under a living server.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise BadInput("not an address of this machine", where=host) from error
        raise
    return bound
