"""Gauges for OpenTelemetry: sent as OTLP over HTTP."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from leadline.actions.action import RejectedError, RetryLaterError
from leadline.actions.http_client import host
from leadline.actions.metrics.run_metrics import GAUGES, GaugeName, MetricSample, RunMetrics
from leadline.errors import ConfigurationError
from leadline.records.version import __version__

_METRICS_PATH: Final = "/v1/metrics"
_DEFAULT: Final = "http://localhost:4318"
_LATER: Final = frozenset({408, 425, 429})


class OtlpReceiver:
    """An OpenTelemetry collector, or whatever else takes OTLP.

    Args:
        endpoint: Where it listens; ``/v1/metrics`` is added where there is no path.
        headers: Sent with each request, as OpenTelemetry writes them: ``name=value,name=value``.
        seconds: How long one sending may take.
    """

    is_pushed = True

    def __init__(self, board: RunMetrics, endpoint: str, headers: str, seconds: float) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.resources import Resource

        # its words would come into the training's terminal; what matters of them is told by ``publish``
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        self._board, self._endpoint = board, resolve_endpoint(endpoint, os.environ)
        self._resource = Resource.create({"service.name": "leadline", "service.version": __version__})
        self._heard: list[Any] = []
        self._exporter = OTLPMetricExporter(
            self._endpoint, headers=read_headers(headers) or None, timeout=seconds, session=_listening(self._heard)
        )

    def publish(self) -> str:
        from opentelemetry.sdk.metrics.export import MetricExportResult

        self._heard.clear()
        if self._exporter.export(_metrics_data(self._board, self._resource)) is not MetricExportResult.SUCCESS:
            raise self._error()
        return f"sent to {host(urlsplit(self._endpoint))}"

    def close(self) -> None:
        self._exporter.shutdown()

    def _error(self) -> Exception:
        """What the last exchange came to."""
        last = self._heard[-1] if self._heard else None
        place = host(urlsplit(self._endpoint))
        if last is None:
            return RetryLaterError(f"{place} could not be sent to")
        if isinstance(last, Exception):
            return RetryLaterError(f"{place}: {_why(last)}")
        said = f"{place} answered {last.status_code} {last.reason}"
        is_final = 400 <= last.status_code < 500 and last.status_code not in _LATER
        return RejectedError(said) if is_final else RetryLaterError(said)


def _metrics_data(board: RunMetrics, resource: Any) -> Any:
    """The gauges as OpenTelemetry has them; not by its instruments, which leave out what is NaN."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    samples, run, now_ns = board.samples(), board.run, time.time_ns()
    metrics = [_metric(name, [each for each in samples if each.name == name], run, now_ns) for name in GAUGES]
    scope = ScopeMetrics(InstrumentationScope("leadline", __version__), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(name: GaugeName, samples: Iterable[MetricSample], run: str, now_ns: int) -> Any:
    from opentelemetry.sdk.metrics.export import Gauge, Metric, NumberDataPoint

    points = [NumberDataPoint({"run": run, **each.labels}, now_ns, now_ns, each.value) for each in samples]
    return Metric(f"leadline.{name.replace('_', '.')}", GAUGES[name], "1", Gauge(points))


def resolve_endpoint(given: str, environment: Mapping[str, str]) -> str:
    """The URL that metrics are sent to: the one given, or OpenTelemetry's own from the environment."""
    whole = environment.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "")
    if not given and whole:
        return whole
    parts = urlsplit(given or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT") or _DEFAULT)
    is_whole = bool(given) and parts.path not in ("", "/")
    return urlunsplit(parts if is_whole else parts._replace(path=parts.path.rstrip("/") + _METRICS_PATH))


def read_headers(text: str) -> dict[str, str]:
    """Headers as OpenTelemetry writes them; no error quotes them, since they may be secrets.

    Raises:
        ConfigurationError: It is no such list.
    """
    from opentelemetry.util.re import parse_env_headers

    headers = dict(parse_env_headers(text, liberal=True))
    if len(headers) < len([each for each in text.split(",") if each.strip()]):
        raise ConfigurationError("publish_metric: headers must be written name=value,name=value")
    return headers


def _listening(heard: list[Any]) -> Any:
    """A session of requests that keeps what came back: the exporter says only that it failed."""
    import requests

    session: Any = requests.Session()
    send = session.send

    def listening(*arguments: Any, **options: Any) -> Any:
        try:
            response = send(*arguments, **options)
        except requests.RequestException as error:
            heard.append(error)
            raise
        heard.append(response)
        return response

    session.send = listening
    return session


def _why(error: Exception) -> str:
    """The innermost reason of an error of requests, whose own words are a wall."""
    import requests

    if isinstance(error, requests.Timeout):
        return "did not answer in time"
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return getattr(cause, "strerror", None) or type(cause).__name__
