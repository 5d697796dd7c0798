"""Servers on loopback that receive what actions send: HTTP with prepared responses, and SMTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

HANGS = -1
"""The status for no response until the server is closed."""


@dataclass(frozen=True)
class Reply:
    """The response of a server to one request."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Received:
    """A received request."""

    path: str
    headers: dict[str, str]
    """Header names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class HttpEndpoint:
    """An HTTP server with prepared responses; the last one is repeated."""

    def __init__(self, replies: Sequence[Reply] = (Reply(),), port: int = 0) -> None:
        self.received: list[Received] = []
        self._replies = list(replies)
        self._lock = threading.Lock()
        self._ending = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint._answer(self)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length", 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            self.received.append(Received(handler.path, headers, handler.rfile.read(length)))
            reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if reply.status == HANGS:
            self._ending.wait()
            return
        handler.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body.encode())), **reply.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(reply.body.encode())


@contextmanager
def http_endpoint(*replies: Reply, port: int = 0) -> Iterator[HttpEndpoint]:
    """Start an HTTP server on loopback; it is closed at the end of the block."""
    endpoint = HttpEndpoint(replies or (Reply(),), port)
    try:
        yield endpoint
    finally:
        endpoint.close()


class MailEndpoint(Controller):
    """An SMTP server that stores received mails; with a password it requires a login."""

    def __init__(self, *, user: str = "bob", password: str | None = None, refuses: str | None = None) -> None:
        self.mails: list[EmailMessage] = []
        self._connections: list[Any] = []
        self._refuses = refuses
        self._login = None if password is None else (user.encode(), password.encode())
        self._socket = socket.create_server(("127.0.0.1", 0))
        login = {"authenticator": self._authenticate, "auth_require_tls": False} if password else {}
        super().__init__(self, hostname="127.0.0.1", port=self._socket.getsockname()[1], **login)

    def _create_server(self) -> Any:
        return self.loop.create_server(self._factory_invoker, sock=self._socket)

    def factory(self) -> Any:
        self._connections.append(super().factory())
        return self._connections[-1]

    def cancel_tasks(self, stop_loop: bool = True) -> None:
        """Close the connections that are left first: the loop would leave their sockets to the garbage collector."""
        for connection in self._connections:
            if connection.transport is not None:
                connection.transport.abort()
        self.loop.call_soon(super().cancel_tasks, stop_loop)

    def _authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, given: Any) -> Any:
        return AuthResult(success=(given.login, given.password) == self._login, handled=False)

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self._login and not session.authenticated:
            return "530 5.7.0 Authentication required"
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address == self._refuses:
            return "550 5.1.1 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message = message_from_bytes(envelope.content, policy=default)
        assert isinstance(message, EmailMessage)
        self.mails.append(message)
        return "250 OK"


@contextmanager
def mail_endpoint(**wanted: Any) -> Iterator[MailEndpoint]:
    """Start a ``MailEndpoint`` on loopback; it is closed at the end of the block."""
    endpoint = MailEndpoint(**wanted)
    endpoint.start()
    try:
        yield endpoint
    finally:
        with suppress(OSError), socket.create_connection(("127.0.0.1", endpoint.port), timeout=10) as last:
            last.recv(64)  # greeted, as are those that connected before: none is left half accepted
        endpoint.stop()


def free_port() -> int:
    """Return an unused port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
