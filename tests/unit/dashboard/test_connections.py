"""Connections that keep a server waiting: they are closed, and make room for others."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from leadline.dashboard.connections import BoundedConnection, quiet_server
from leadline.dashboard.server import bind

PATIENCE = 20
LIMIT = 5
SECONDS = 0.2
SLOW = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


begun: list[str] = []


async def _answer(request: Request) -> PlainTextResponse:
    body = await request.body()
    begun.append(request.url.path)
    if request.url.path == "/slow":
        await asyncio.sleep(3 * SECONDS)
    return PlainTextResponse(f"read {len(body)}")


@pytest.fixture
def port() -> Iterator[int]:
    begun.clear()
    listener = bind("127.0.0.1", 0)
    app = Starlette(routes=[Route("/{path:path}", _answer, methods=["GET", "POST"])])
    server = quiet_server(app, max_connections=LIMIT, shutdown_seconds=3)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()
    listener.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def received(connection: socket.socket, end: bytes = b"") -> bytes:
    """Return what is received until some bytes; by default until the connection is closed."""
    data = b""
    while not end or not data.endswith(end):
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        data += part
    return data


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"P",
        b"POST / HTTP/1.1\r\nHost: a\r\nX-Long: ",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        GET.rstrip(),
    ],
)
def test_a_request_that_does_not_arrive_ends_its_connection(
    port: int, begin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedConnection, "request_seconds", SECONDS)
    with connect(port) as connection:
        connection.sendall(begin)
        assert received(connection) == b""


def test_a_request_that_arrives_byte_by_byte_ends_its_connection(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is one for the whole request."""
    monkeypatch.setattr(BoundedConnection, "request_seconds", SECONDS)
    has_ended = threading.Event()
    with connect(port) as connection:

        def send() -> None:
            while not has_ended.wait(SECONDS / 10):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nX-Long: ")
        sender = threading.Thread(target=send)
        sender.start()
        assert received(connection) == b""
        has_ended.set()
        sender.join()


def test_a_half_request_after_others_ends_its_connection(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "request_seconds", SECONDS)
    with connect(port) as connection:
        for _ in range(2):
            connection.sendall(GET)
            assert received(connection, b"read 0").startswith(b"HTTP/1.1 200")
        connection.sendall(GET[:10])
        assert received(connection) == b""


@pytest.mark.parametrize("requests", [[SLOW], [SLOW, SLOW], [GET, SLOW, GET]], ids=["one", "two", "mixed"])
def test_an_answer_may_take_longer_than_a_request(
    port: int, requests: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the requests arrive together, so that no more data follows."""
    monkeypatch.setattr(BoundedConnection, "request_seconds", SECONDS)
    closing = requests[-1].replace(b"Host: a", b"Host: a\r\nConnection: close")
    with connect(port) as connection:
        connection.sendall(b"".join([*requests[:-1], closing]))
        assert received(connection).count(b"HTTP/1.1 200") == len(requests)


def test_those_that_wait_longest_make_room(port: int) -> None:
    silent = [connect(port) for _ in range(3 * LIMIT)]
    with connect(port) as connection:
        connection.sendall(GET)
        assert received(connection, b"read 0").startswith(b"HTTP/1.1 200")
        for each in silent[: 2 * LIMIT]:
            assert received(each) == b"", "the oldest are closed"
        silent[-1].sendall(GET)
        assert received(silent[-1], b"read 0").startswith(b"HTTP/1.1 200")
    for each in silent:
        each.close()


def test_requests_that_are_answered_are_not_interrupted_by_new_connections(port: int) -> None:
    busy = [connect(port) for _ in range(LIMIT - 1)]
    for each in busy:
        each.sendall(SLOW)
    while len(begun) < len(busy):
        time.sleep(0.01)
    late = [connect(port) for _ in range(LIMIT)]
    for each in busy:
        assert received(each, b"read 2").startswith(b"HTTP/1.1 200")
    last = connect(port)
    last.sendall(GET)
    assert received(last, b"read 0").startswith(b"HTTP/1.1 200")
    for each in (*busy, *late, last):
        each.close()
