"""Export of gauges to OpenTelemetry, as OTLP over HTTP."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from leadline.actions.action import RetryLaterError
from leadline.actions.http_client import host, reason_of, status_error
from leadline.actions.metrics.run_metrics import GAUGES, GaugeName, MetricSample, RunMetrics
from leadline.errors import ConfigurationError
from leadline.records.version import __version__

_METRICS_PATH: Final = "/v1/metrics"
_DEFAULT: Final = "http://localhost:4318"


class OtlpReceiver:
    """An OpenTelemetry collector, or any other receiver of OTLP.

    Args:
        endpoint: The URL of the collector; ``/v1/metrics`` is added if it has no path.
        headers: The headers of each request in OpenTelemetry's notation: ``name=value,name=value``.
        seconds: The time limit of one export.
    """

    is_pushed = True

    def __init__(self, metrics: RunMetrics, endpoint: str, headers: str, seconds: float) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.resources import Resource

        # its messages would appear in the training's terminal; ``publish`` reports what matters of them
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        self._metrics, self._endpoint = metrics, resolve_endpoint(endpoint, os.environ)
        self._resource = Resource.create({"service.name": "leadline", "service.version": __version__})
        self._responses: list[Any] = []
        session = _recording_session(self._responses)
        self._exporter = OTLPMetricExporter(
            self._endpoint, headers=read_headers(headers) or None, timeout=seconds, session=session
        )

    def publish(self) -> str:
        from opentelemetry.sdk.metrics.export import MetricExportResult

        self._responses.clear()
        if self._exporter.export(_metrics_data(self._metrics, self._resource)) is not MetricExportResult.SUCCESS:
            raise self._error()
        return f"sent to {host(urlsplit(self._endpoint))}"

    def close(self) -> None:
        self._exporter.shutdown()

    def _error(self) -> Exception:
        """Return the error of the last export."""
        last = self._responses[-1] if self._responses else None
        address = host(urlsplit(self._endpoint))
        if last is None:
            return RetryLaterError(f"{address} could not be sent to")
        if isinstance(last, Exception):
            return RetryLaterError(f"{address}: {_why(last)}")
        return status_error(address, last.status_code)


def _metrics_data(metrics: RunMetrics, resource: Any) -> Any:
    """Return the gauges as OpenTelemetry's data; its instruments are not used, since they leave out NaN."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    samples, run, now_ns = metrics.samples(), metrics.run, time.time_ns()
    by_name = {name: [sample for sample in samples if sample.name == name] for name in GAUGES}
    metric_list = [_metric(name, by_name[name], run, now_ns) for name in GAUGES]
    scope = ScopeMetrics(InstrumentationScope("leadline", __version__), metric_list, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(name: GaugeName, samples: Iterable[MetricSample], run: str, now_ns: int) -> Any:
    from opentelemetry.sdk.metrics.export import Gauge, Metric, NumberDataPoint

    points = [NumberDataPoint({"run": run, **sample.labels}, now_ns, now_ns, sample.value) for sample in samples]
    return Metric(f"leadline.{name.replace('_', '.')}", GAUGES[name], "1", Gauge(points))


def resolve_endpoint(given: str, environment: Mapping[str, str]) -> str:
    """Return the URL that metrics are sent to: the one given, or that of OpenTelemetry's environment variables."""
    whole = environment.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "")
    if not given and whole:
        return whole
    parts = urlsplit(given or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT") or _DEFAULT)
    is_whole = bool(given) and parts.path not in ("", "/")
    return urlunsplit(parts if is_whole else parts._replace(path=parts.path.rstrip("/") + _METRICS_PATH))


def read_headers(text: str) -> dict[str, str]:
    """Parse headers in OpenTelemetry's notation; no error contains them, since they may be secrets.

    Raises:
        ConfigurationError: They are invalid.
    """
    from opentelemetry.util.re import parse_env_headers

    headers = dict(parse_env_headers(text, liberal=True))
    if len(headers) < len([part for part in text.split(",") if part.strip()]):
        raise ConfigurationError("publish_metric: headers must be written name=value,name=value")
    return headers


def _recording_session(responses: list[Any]) -> Any:
    """Return a session that records every response: the exporter itself reports only that it failed."""
    import requests

    session: Any = requests.Session()
    send = session.send

    def recording_send(*arguments: Any, **options: Any) -> Any:
        try:
            response = send(*arguments, **options)
        except requests.RequestException as error:
            responses.append(error)
            raise
        responses.append(response)
        return response

    session.send = recording_send
    return session


def _why(error: Exception) -> str:
    """Return the innermost reason of an error of requests, whose own message is long and nested."""
    import requests

    if isinstance(error, requests.Timeout):
        return "did not answer in time"
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return reason_of(cause)
