"""Serving the dashboard: a socket, and uvicorn on it."""

from __future__ import annotations

import errno
import socket
from types import FrameType
from typing import TYPE_CHECKING, Final

from leadline.dashboard.app import create_app
from leadline.dashboard.server_memory import share_arenas
from leadline.errors import ConfigurationError

if TYPE_CHECKING:
    from leadline.dashboard.security import Access

_NEXT_PORTS: Final = 20
_LAST_PORT: Final = 65_535
_SHUTDOWN_SECONDS: Final = 3
_MOST_CONNECTIONS: Final = 512


def bind(host: str, port: int, *, or_next: bool = False) -> socket.socket:
    """A socket to serve on.

    Args:
        port: 0: any that is free.
        or_next: Whether one of the next ports does where this one is taken.
    Raises:
        ConfigurationError: It is taken, or not ours to take.
    """
    if not 0 <= port <= _LAST_PORT:
        raise ConfigurationError(f"--port must be from 0 to {_LAST_PORT}, not {port}")
    for each in range(port, min(port + _NEXT_PORTS, _LAST_PORT + 1)) if or_next else (port,):
        try:
            return _listen(host, each)
        except OSError as error:
            failure = error
            if error.errno != errno.EADDRINUSE:
                break
    why = "it is in use" if failure.errno == errno.EADDRINUSE else failure.strerror or str(failure)
    raise ConfigurationError(f"cannot listen on {host}:{port}: {why}; --port 0 takes one that is free") from failure


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigurationError(f"--host {host!r}, --port {port}: no address of this machine") from error


def serve(root: str, listener: socket.socket, access: Access) -> None:
    """Serve until a signal comes; who still listens to a run is let go first."""
    import uvicorn

    share_arenas()
    app = create_app(root, access=access)

    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    end = server.handle_exit

    def let_go(number: int, frame: FrameType | None) -> None:
        app.state.site.watchers.close()
        end(number, frame)

    server.handle_exit = let_go
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        return  # uvicorn hands the signal on once it has ended
