"""The HTTP server that Prometheus scrapes: no client keeps it busy."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

_MAX_CONNECTIONS: Final = 16
_SECONDS: Final = 10.0
"""The time for a request and its answer."""

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _SilentHandler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing: the output of this process is that of the training."""


class ScrapedServer(ThreadingMixIn, WSGIServer):
    """Answers each request in a thread of its own.

    **Bounded** - a connection ends after some seconds, whether or not its request has arrived. While as many are open
    as are served, a new one takes the place of the oldest.

    Args:
        address: The address to listen on.
        port: The port to listen on; 0 for any free one.
        application: What answers requests.
    Raises:
        OSError: The address cannot be listened on.
    """

    daemon_threads = True
    seconds = _SECONDS

    def __init__(self, address: str, port: int, application: Application) -> None:
        infos = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = infos[0][0]
        self._timers: dict[socket.socket, threading.Timer] = {}
        self._lock = threading.Lock()
        super().__init__((address, port), _SilentHandler)
        self.set_app(application)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a new thread."""
        timer = threading.Timer(self.seconds, _end, (request,))
        timer.daemon = True
        with self._lock:
            if len(self._timers) >= _MAX_CONNECTIONS:
                oldest = next(iter(self._timers))
                self._timers.pop(oldest).cancel()
                _end(oldest)
            self._timers[request] = timer
        timer.start()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._lock:
            timer = self._timers.pop(request, None)
        if timer is not None:
            timer.cancel()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error; one of the connection is none of ours."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _end(request: socket.socket) -> None:
    with suppress(OSError):  # it has ended already
        request.shutdown(socket.SHUT_RDWR)
