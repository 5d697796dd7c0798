"""The endpoint that Prometheus scrapes, with clients that send no request, or half of one."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from leadline.actions.metrics.scraped_server import ScrapedServer

PATIENCE = 20
CONNECTIONS = 16


def _answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/fails":
        raise ZeroDivisionError("of the application")
    start("200 OK", [("Content-Type", "text/plain")])
    return [b"up 1\n"]


@pytest.fixture
def server() -> Iterator[ScrapedServer]:
    server = ScrapedServer("127.0.0.1", 0, _answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def connect(server: ScrapedServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), PATIENCE)


def scrape(server: ScrapedServer) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=PATIENCE) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize("begin", [b"", b"G", b"GET /metrics HTTP/1.1\r\nHost: a\r\n"])
def test_a_request_that_does_not_arrive_ends_its_connection(
    server: ScrapedServer, begin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScrapedServer, "seconds", 0.1)
    with connect(server) as client:
        client.sendall(begin)
        assert client.recv(1) == b""


def test_the_oldest_connections_make_room(server: ScrapedServer, capsys: pytest.CaptureFixture[str]) -> None:
    silent = [connect(server) for _ in range(3 * CONNECTIONS)]
    assert scrape(server) == b"up 1\n"
    for client in silent[: 2 * CONNECTIONS]:
        assert client.recv(1) == b""
    for client in silent:
        client.close()
    assert scrape(server) == b"up 1\n"
    assert capsys.readouterr() == ("", "")


def test_an_ipv6_address_is_listened_on() -> None:
    with ScrapedServer("::1", 0, _answer) as server:
        assert server.socket.family == socket.AF_INET6


def test_errors_of_ours_are_reported(server: ScrapedServer, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="500"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/fails", timeout=PATIENCE)
    assert "ZeroDivisionError" in capsys.readouterr().err
