"""Gauges for Prometheus: an endpoint that it scrapes, or a Pushgateway."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from leadline.actions.action import RejectedError, RetryLaterError
from leadline.actions.http_client import host
from leadline.actions.metrics.run_metrics import GAUGES, RunMetrics
from leadline.errors import ConfigurationError

_JOB: Final = "leadline"
_LATER: Final = frozenset({408, 425, 429})


class Collector:
    """Gives Prometheus' library the gauges of a board, as they are at the moment of the scrape."""

    def __init__(self, board: RunMetrics) -> None:
        self._board = board

    def collect(self) -> Iterator[Any]:
        """One metric family for each gauge."""
        from prometheus_client.core import GaugeMetricFamily

        samples, run = self._board.samples(), self._board.run
        for name, help_text in GAUGES.items():
            own = [each for each in samples if each.name == name]
            if own:
                labels = ["run", *own[0].labels]
                family = GaugeMetricFamily(f"leadline_{name}", help_text, labels=labels)
                for each in own:
                    family.add_metric([run, *each.labels.values()], each.value)
                yield family


class Endpoint:
    """An HTTP server on this machine, at ``/metrics``, for as long as the run is judged.

    Args:
        address: The one of this machine.
        port: 0 for any that is free.
    """

    is_pushed = False

    def __init__(self, board: RunMetrics, address: str, port: int) -> None:
        self._board, self._host, self._port = board, address, port
        self._server: Any = None
        self._thread: Any = None

    def publish(self) -> str:
        if self._server is None:
            self._start()
        return f"served at {self.url}"

    @property
    def url(self) -> str:
        """Where it is scraped."""
        return f"http://{_bracketed(self._host)}:{self._server.server_port}/metrics"

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def _start(self) -> None:
        from prometheus_client import start_http_server

        try:
            self._server, self._thread = start_http_server(self._port, self._host, _registry(self._board))
        except OSError as error:
            raise RetryLaterError(why_unbindable(self._host, self._port, error)) from error


class Gateway:
    """A Prometheus Pushgateway, which keeps what it was sent last, also after the run.

    Args:
        seconds: How long one exchange may take.
    """

    is_pushed = True

    def __init__(self, board: RunMetrics, url: str, seconds: float) -> None:
        self._board, self._url, self._seconds = board, url, seconds
        self._registry = _registry(board)

    def publish(self) -> str:
        from prometheus_client import push_to_gateway

        parts = urlsplit(self._url)
        bare = urlunsplit(parts._replace(netloc=host(parts)))
        grouping = {"run": self._board.run}
        try:
            push_to_gateway(bare, _JOB, self._registry, grouping, self._seconds, _handler(parts))
        except HTTPError as error:
            said = f"{host(parts)} answered {error.code} {error.reason}"
            raise (RejectedError if 400 <= error.code < 500 and error.code not in (408, 429) else RetryLaterError)(
                said
            ) from None
        except TimeoutError:
            raise RetryLaterError(f"{host(parts)} did not answer within {self._seconds:g} s") from None
        except URLError as error:
            raise RetryLaterError(f"{host(parts)}: {error.reason}") from None
        return f"pushed to {host(parts)}"

    def close(self) -> None: ...


def check_bindable(address: str, port: int) -> None:
    """Refuse an address that cannot be served at.

    Raises:
        ConfigurationError: It is in use, not this machine's, or not allowed.
    """
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        raise ConfigurationError(f"publish_metric: {why_unbindable(address, port, error)}") from error


def why_unbindable(address: str, port: int, error: OSError) -> str:
    """Why nothing can be served at an address, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {address} is in use; choose another, or port=0 for any that is free"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{address} is no address of this machine; choose host=127.0.0.1, or 0.0.0.0 for all it has"
    if error.errno == errno.EACCES:
        return f"port {port} of {address} may not be opened; choose one above 1023"
    return f"port {port} of {address} cannot be opened: {error.strerror}"


def _registry(board: RunMetrics) -> Any:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(Collector(board))
    return registry


def _handler(parts: SplitResult) -> Callable[..., Any]:
    from prometheus_client.exposition import basic_auth_handler, default_handler

    if parts.username is None:
        return default_handler  # type: ignore[no-any-return]
    user, password = unquote(parts.username), unquote(parts.password or "")

    def authorized(**given: Any) -> Any:
        return basic_auth_handler(**given, username=user, password=password)

    return authorized


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
