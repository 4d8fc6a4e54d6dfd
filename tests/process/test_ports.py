from __future__ import annotations

import socket

import pytest

from tuner.domain.errors import BadInput
from tuner.process.ports import free_port, port_is_free


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost", "::1"])
def test_free_port_can_be_listened_on(host: str) -> None:
    try:
        port = free_port(host)
    except BadInput:
        assert host == "::1", "only IPv6 can be switched off"
        pytest.skip("this machine has no IPv6")
    assert 1024 <= port < 65536
    assert port_is_free(port, host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family):
        assert not port_is_free(port, host)
    assert port_is_free(port, host)


@pytest.mark.parametrize(("listens_on", "asked_for"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0")])
def test_port_on_all_addresses_and_on_one_exclude_each_other(listens_on: str, asked_for: str) -> None:
    with socket.create_server((listens_on, 0)) as server:
        assert not port_is_free(server.getsockname()[1], asked_for)


def test_server_that_would_share_its_port_is_noticed() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as server:
        assert not port_is_free(server.getsockname()[1])


def test_port_with_connections_of_an_ended_server_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # The side that closes first keeps the port in TIME_WAIT.
        client.close()
    assert port_is_free(port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_host_that_is_not_this_machine_is_named(host: str) -> None:
    for call in (lambda: free_port(host), lambda: port_is_free(8080, host)):
        with pytest.raises(BadInput) as raised:
            call()
        assert raised.value.where == host
