"""Connections of our HTTP servers: none waits for its request for ever, and their number is bounded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.applications import Starlette

_REQUEST_SECONDS: Final = 20.0
"""The time for a whole request, with its body."""


class BoundedConnection(H11Protocol):  # type: ignore[misc]  # without types of uvicorn
    """A connection of uvicorn that is closed when its request does not arrive.

    uvicorn limits the time between two requests only: a client that sends nothing, or half a request, would keep its
    connection, and enough of them would keep everybody else out.

    **Bounded** - while as many connections are open as are served, a new one takes the place of the one that has waited
    longest for its request. If none waits, uvicorn answers 503.
    """

    request_seconds = _REQUEST_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Expect the first request."""
        self._make_room()
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._wait_or_not()

    def on_response_complete(self) -> None:
        """Expect the next request; it may be there already."""
        self._stop_waiting()
        super().on_response_complete()
        self._wait_or_not()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        if self.limit_concurrency is None:
            return
        kept = [other for other in self.connections if not other.transport.is_closing()]
        excess = len(kept) + 2 - self.limit_concurrency  # with this one, uvicorn serves fewer than the limit
        if excess > 0:
            bounded = [other for other in kept if isinstance(other, BoundedConnection)]
            waiting = [connection for connection in bounded if connection._deadline is not None]
            for connection in sorted(waiting, key=BoundedConnection._deadline_at)[:excess]:
                connection._give_up()

    def _deadline_at(self) -> float:
        assert self._deadline is not None
        return self._deadline.when()

    def _wait_or_not(self) -> None:
        if self.transport.is_closing() or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_waiting()
        elif self._deadline is None:
            self._expect_request()

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(self.request_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._stop_waiting()
        self.transport.close()


def quiet_server(app: Starlette, *, max_connections: int, shutdown_seconds: int) -> uvicorn.Server:
    """Return a server that prints nothing and answers HTTP requests only, over bounded connections.

    Args:
        shutdown_seconds: How long requests may still take after a signal.
    """
    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=shutdown_seconds,
        server_header=False,
        proxy_headers=False,
        http=BoundedConnection,
        ws="none",
        limit_concurrency=max_connections,
    )
    return uvicorn.Server(config)
