"""Server of the dashboard: socket and uvicorn."""

from __future__ import annotations

import ctypes
import errno
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from leadline.dashboard.app import create_app
from leadline.dashboard.connections import quiet_server
from leadline.errors import ConfigurationError
from leadline.reader.pandas_import import skip_pandas_import

if TYPE_CHECKING:
    import uvicorn

    from leadline.dashboard.security import Access

_PORT_ATTEMPTS: Final = 20
_LAST_PORT: Final = 65_535
_SHUTDOWN_SECONDS: Final = 3
_MAX_CONNECTIONS: Final = 512
_ARENA_MAX: Final = -8
"""glibc's ``M_ARENA_MAX``."""


def bind(host: str, port: int, *, or_next: bool = False) -> socket.socket:
    """Open the listening socket.

    Args:
        port: 0: any free port.
        or_next: Whether to try the next ports if this one is in use.
    Raises:
        ConfigurationError: The port is in use or not permitted.
    """
    if not 0 <= port <= _LAST_PORT:
        raise ConfigurationError(f"--port must be from 0 to {_LAST_PORT}, not {port}")
    for candidate in range(port, min(port + _PORT_ATTEMPTS, _LAST_PORT + 1)) if or_next else (port,):
        try:
            return _listen(host, candidate)
        except OSError as error:
            failure = error
            if error.errno != errno.EADDRINUSE:
                break
    why = "it is in use" if failure.errno == errno.EADDRINUSE else failure.strerror or str(failure)
    raise ConfigurationError(f"cannot listen on {host}:{port}: {why}; --port 0 selects a free port") from failure


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigurationError(f"--host {host!r}, --port {port}: not an address of this machine") from error


def serve(root: str, listener: socket.socket, access: Access, on_start: Callable[[], None]) -> None:
    """Serve until a signal arrives; open event streams are closed first.

    Args:
        on_start: Called once, as ``call_after_start`` does.
    """
    share_arenas()
    skip_pandas_import()
    app = create_app(root, access=access)

    server = quiet_server(app, max_connections=_MAX_CONNECTIONS, shutdown_seconds=_SHUTDOWN_SECONDS)
    handle_exit = server.handle_exit

    def close_streams(number: int, frame: FrameType | None) -> None:
        app.state.site.notifier.close()
        handle_exit(number, frame)

    server.handle_exit = close_streams
    call_after_start(server, on_start)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        return  # uvicorn raises the signal again after shutdown


def call_after_start(server: uvicorn.Server, on_start: Callable[[], None]) -> None:
    """Have a function called when a server has begun to answer, and handles signals itself.

    An interrupt that arrives before is an exception within an import, where it can be lost.
    """
    startup = server.startup

    async def start(sockets: list[socket.socket] | None = None) -> None:
        await startup(sockets)
        on_start()

    server.startup = start


def share_arenas(count: int = 2) -> None:
    """Limit the number of malloc arenas: otherwise each thread retains the memory of its largest response.

    C libraries other than glibc lack this call and are left unchanged.
    """
    call = getattr(ctypes.CDLL(None), "mallopt", None)
    if call is not None:
        call(_ARENA_MAX, count)
    pa.set_memory_pool(pa.system_memory_pool())
