"""The connectivity check, with real connections."""

from __future__ import annotations

import socket

import pytest
from endpoints import free_port

from leadline.actions.http_client import check_reachable
from leadline.errors import ConfigurationError


def test_a_listening_host_is_reached_and_receives_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_reachable("127.0.0.1", server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            assert connection.recv(1) == b""


def test_a_host_that_does_not_listen_is_reported_with_a_workaround() -> None:
    port = free_port()
    with pytest.raises(
        ConfigurationError, match=f"^127.0.0.1:{port} cannot be reached: connection refused; .*probe=false$"
    ):
        check_reachable("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "why"), [("no-such-host.invalid", "unknown host"), ("a" * 70, "not a valid host name")]
)
def test_an_unknown_host_name(host: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{host}:25 cannot be reached: .*{why}"):
        check_reachable(host, 25)


def test_an_address_in_brackets() -> None:
    with pytest.raises(ConfigurationError, match=r"^\[::1\]:1 cannot be reached: "):
        check_reachable("::1", 1)


def test_a_connection_that_is_not_accepted_times_out() -> None:
    """A full backlog: the kernel answers no further connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        place = server.getsockname()
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(place)
            waiting.append(one)
        try:
            with pytest.raises(ConfigurationError, match=r"no answer within 0\.3 s"):
                check_reachable(*place, timeout=0.3)
        finally:
            for one in waiting:
                one.close()


def test_with_a_proxy_the_proxy_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        check_reachable("only-the-proxy-knows.invalid", 443, scheme="https")
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{free_port()}")
        with pytest.raises(ConfigurationError, match=r"\(the proxy\) cannot be reached: connection refused"):
            check_reachable("only-the-proxy-knows.invalid", 443, scheme="https")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        check_reachable("127.0.0.1", port, scheme="https")
