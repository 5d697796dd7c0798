"""Export of gauges to Prometheus, by an endpoint that it scrapes or by a Pushgateway."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from leadline.actions.action import RetryLaterError
from leadline.actions.http_client import host, reason_of, status_error
from leadline.actions.metrics.run_metrics import GAUGES, RunMetrics
from leadline.actions.metrics.scraped_server import ScrapedServer
from leadline.errors import ConfigurationError

_JOB: Final = "leadline"


class Collector:
    """Provides the gauges of a run to the Prometheus client library, as they are when they are scraped."""

    def __init__(self, metrics: RunMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Any]:
        """Yield one metric family for each gauge."""
        from prometheus_client.core import GaugeMetricFamily

        samples, run = self._metrics.samples(), self._metrics.run
        for name, help_text in GAUGES.items():
            gauge_samples = [sample for sample in samples if sample.name == name]
            if gauge_samples:
                labels = ["run", *gauge_samples[0].labels]
                family = GaugeMetricFamily(f"leadline_{name}", help_text, labels=labels)
                for sample in gauge_samples:
                    family.add_metric([run, *sample.labels.values()], sample.value)
                yield family


class Endpoint:
    """An HTTP server on this machine, at ``/metrics``, for as long as the judge runs.

    Args:
        address: The address to listen on.
        port: The port to listen on; 0 for any free one.
    """

    is_pushed = False

    def __init__(self, metrics: RunMetrics, address: str, port: int) -> None:
        self._metrics, self._host, self._port = metrics, address, port
        self._server: Any = None
        self._thread: Any = None

    def publish(self) -> str:
        if self._server is None:
            self._start()
        return f"served at {self.url}"

    @property
    def url(self) -> str:
        """The URL to scrape."""
        return f"http://{_bracket_ipv6(self._host)}:{self._server.server_port}/metrics"

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def _start(self) -> None:
        from prometheus_client import make_wsgi_app

        try:
            self._server = ScrapedServer(self._host, self._port, make_wsgi_app(_registry(self._metrics)))
        except OSError as error:
            raise RetryLaterError(describe_bind_error(self._host, self._port, error)) from error
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()


class Gateway:
    """A Prometheus Pushgateway, which keeps the last values also after the run.

    Args:
        seconds: The time limit of one request.
    """

    is_pushed = True

    def __init__(self, metrics: RunMetrics, url: str, seconds: float) -> None:
        self._metrics, self._url, self._seconds = metrics, url, seconds
        self._registry = _registry(metrics)

    def publish(self) -> str:
        from prometheus_client import push_to_gateway

        parts = urlsplit(self._url)
        bare = urlunsplit(parts._replace(netloc=host(parts)))
        grouping = {"run": self._metrics.run}
        try:
            push_to_gateway(bare, _JOB, self._registry, grouping, self._seconds, _handler(parts))
        except HTTPError as error:
            raise status_error(host(parts), error.code) from None
        except TimeoutError:
            raise RetryLaterError(f"{host(parts)} did not answer within {self._seconds:g} s") from None
        except URLError as error:
            raise RetryLaterError(f"{host(parts)}: {reason_of(error.reason)}") from None
        return f"pushed to {host(parts)}"

    def close(self) -> None: ...


def check_bindable(address: str, port: int) -> None:
    """Refuse an address that cannot be listened on.

    Raises:
        ConfigurationError: It is in use, not an address of this machine, or not permitted.
    """
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        raise ConfigurationError(f"publish_metric: {describe_bind_error(address, port, error)}") from error


def describe_bind_error(address: str, port: int, error: OSError) -> str:
    """Return why an address cannot be listened on, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {address} is in use; choose another, or port=0 for any free one"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{address} is not an address of this machine; choose host=127.0.0.1, or 0.0.0.0 for all of them"
    if error.errno == errno.EACCES:
        return f"port {port} of {address} is not permitted; choose one above 1023"
    return f"port {port} of {address} cannot be opened: {error.strerror}"


def _registry(metrics: RunMetrics) -> Any:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(Collector(metrics))
    return registry


def _handler(parts: SplitResult) -> Callable[..., Any]:
    from prometheus_client.exposition import basic_auth_handler, default_handler

    if parts.username is None:
        return default_handler  # type: ignore[no-any-return]
    user, password = unquote(parts.username), unquote(parts.password or "")

    def authorized(**arguments: Any) -> Any:
        return basic_auth_handler(**arguments, username=user, password=password)

    return authorized


def _bracket_ipv6(address: str) -> str:
    return f"[{address}]" if ":" in address else address
