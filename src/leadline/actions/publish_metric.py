"""The action publish_metric, and the periodic publication of unchanged gauges."""

from __future__ import annotations

import importlib.util
import logging
import threading
from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal, Protocol
from urllib.parse import SplitResult, urlsplit

import msgspec

from leadline.actions.action import Action, ActionContext, Outcome, RejectedError, RetryLaterError
from leadline.actions.http_client import PORTS, check_reachable
from leadline.actions.http_client import port as port_of
from leadline.actions.metrics.run_metrics import RunMetrics
from leadline.errors import ConfigurationError, MissingExtraError

Place = Literal["prometheus", "otlp", "cloudwatch"]

_PARAMETERS: Final = {
    "prometheus": ("host", "port", "gateway"),
    "otlp": ("endpoint", "headers"),
    "cloudwatch": ("endpoint", "region", "namespace"),
}
"""The parameters that only some destinations have."""
_REQUIREMENTS: Final = {
    "prometheus": ("prometheus_client", "prometheus"),
    "otlp": ("opentelemetry.exporter.otlp.proto.http.metric_exporter", "otel"),
    "cloudwatch": ("boto3", "aws"),
}
"""The module that each destination needs, and the extra that installs it."""
_SHARE: Final = 0.45
"""The share of the time limit for one export: a notification may have to wait for another export to end."""
_PROBE_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 3.0
_LOG = logging.getLogger(__name__)


class PublishMetric(Action, frozen=True, kw_only=True, dict=True):
    """Publishes gauges for the rules and the job, for use in alarms and dashboards.

    | gauge | labels | value |
    |---|---|---|
    | `leadline_rule_fired` | `run`, `rule` | 1: a finding is open, 0: clear, NaN: undecided or failed |
    | `leadline_job_status` | `run`, `status` | 1 for the current status of the job, 0 for every other |
    | `leadline_job_step` | `run` | the last train step that is known to be complete |
    | `leadline_job_findings` | `run` | the number of findings so far |

    These are the names in Prometheus; OpenTelemetry has `leadline.rule.fired`, CloudWatch `RuleFired`, and so on.
    An alarm on `leadline_rule_fired == 1` resets when the finding closes, and never takes missing data for "clear".
    `integrations/grafana/leadline.json` is a dashboard for Grafana with these names, to be imported as it is.

    `prometheus`: an HTTP endpoint `/metrics` for as long as the judge runs; the outcome contains its address. With
    `gateway` the values are pushed to a Pushgateway instead, which keeps the last ones after the run.
    `otlp`: sent to an OpenTelemetry collector over HTTP. Without `endpoint` it is the one of
    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, else port 4318 of this machine.
    `cloudwatch`: custom metrics with the dimensions Run and Rule. CloudWatch does not accept NaN: there is no data
    point then, and the alarm's treatment of missing data decides. boto3 finds the credentials.

    Values are pushed at every change, and again every `interval` seconds so that alarms have data points.

    Args:
        to: `prometheus`, `otlp` or `cloudwatch`.
        host: prometheus: the address of this machine to listen on; 0.0.0.0 for all of them. Whoever can connect to it
            can read the metrics.
        port: prometheus: the port to listen on, 0 to 65535; 0 for any free one.
        gateway: prometheus: the URL of a Pushgateway; empty: an endpoint is served instead.
        endpoint: otlp: the URL of the collector. cloudwatch: an endpoint other than Amazon's own (a VPC endpoint).
        headers: otlp: headers of each request, `name=value,name=value`; secrets as `$NAME`.
        region: cloudwatch: the region; empty: that of the environment or the profile.
        namespace: cloudwatch: the namespace of the metrics.
        interval: Seconds after which unchanged values are pushed again, > 0.
        probe: Whether to test the connection before the training starts.
    """

    target: ClassVar[str | None] = "to"
    statuses: ClassVar[tuple[str, ...]] = ("*",)
    wants_snapshot: ClassVar[bool] = False
    is_volatile: ClassVar[bool] = True

    to: Place
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    gateway: str = ""
    endpoint: str = ""
    headers: str = ""
    region: str = ""
    namespace: str = "Leadline"
    interval: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    probe: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        own, known = _PARAMETERS[self.to], {name for names in _PARAMETERS.values() for name in names}
        for field in msgspec.structs.fields(self):
            if field.name in known.difference(own) and getattr(self, field.name) != field.default:
                raise ConfigurationError(f"publish_metric: {self.to} has no {field.name}; it has {', '.join(own)}")

    def check(self) -> None:
        module, extra = _REQUIREMENTS[self.to]
        if not _is_installed(module):
            raise MissingExtraError(f"publish_metric:{self.to} needs an extra: pip install 'leadline[{extra}]'")
        if self.to == "prometheus":
            self._check_prometheus()
        elif self.to == "otlp":
            self._check_otlp()
        else:
            self._check_cloudwatch()

    def describe(self, context: ActionContext) -> str:
        return f"would publish the gauges of {len(context.notification.rules)} rules: {self.to}"

    def run(self, context: ActionContext) -> Outcome:
        self._metrics.take(context)
        is_first = "_publisher" not in self.__dict__
        outcome = self._publisher.publish()
        return Outcome(outcome, announcement=outcome if is_first else None)

    def close(self) -> None:
        if "_publisher" in self.__dict__:
            self._publisher.close()

    @cached_property
    def _metrics(self) -> RunMetrics:
        return RunMetrics()

    @cached_property
    def _publisher(self) -> PeriodicPublisher:
        seconds = self.timeout * _SHARE
        return PeriodicPublisher(self._make_exporter(seconds), self.interval, min(seconds, _CLOSE_SECONDS))

    def _make_exporter(self, seconds: float) -> MetricExporter:
        if self.to == "otlp":
            from leadline.actions.metrics.otlp import OtlpReceiver

            return OtlpReceiver(self._metrics, self.endpoint, self.headers, seconds)
        if self.to == "cloudwatch":
            from leadline.actions.metrics.cloudwatch import CloudWatch

            return CloudWatch(self._metrics, self.namespace, self.region, self.endpoint, seconds)
        from leadline.actions.metrics.prometheus import Endpoint, Gateway

        if self.gateway:
            return Gateway(self._metrics, self.gateway, seconds)
        return Endpoint(self._metrics, self.host, self.port)

    def _check_prometheus(self) -> None:
        from leadline.actions.metrics.prometheus import check_bindable

        if self.gateway:
            self._check_url("gateway", self.gateway)
        else:
            check_bindable(self.host, self.port)

    def _check_otlp(self) -> None:
        import os

        from leadline.actions.metrics.otlp import read_headers, resolve_endpoint

        read_headers(self.headers)
        self._check_url("endpoint", resolve_endpoint(self.endpoint, os.environ))

    def _check_cloudwatch(self) -> None:
        from leadline.actions.aws import check_credentials, endpoint_address, make_client

        client = make_client(
            "cloudwatch", action="publish_metric", region=self.region, endpoint=self.endpoint, seconds=_PROBE_SECONDS
        )
        host, port, scheme = endpoint_address(client)
        client.close()
        if not self.dry_run:
            check_credentials("publish_metric")
        if self.probe and not self.dry_run:
            check_reachable(host, port, min(self.timeout, _PROBE_SECONDS), scheme=scheme)

    def _check_url(self, name: str, url: str) -> None:
        """Refuse a URL that cannot be used; no error contains it, since it may be a secret."""
        parts = _split(name, url)
        if self.probe and not self.dry_run:
            limit = min(self.timeout, _PROBE_SECONDS)
            check_reachable(parts.hostname or "", port_of(parts), limit, scheme=parts.scheme)


def _split(name: str, url: str) -> SplitResult:
    """Parse a URL.

    Raises:
        ConfigurationError: It is invalid.
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigurationError(f"publish_metric: {name} is not a URL; write {name}=https://host:port")
    return parts


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


class MetricExporter(Protocol):
    """An exporter for the gauges of one run.

    **Fails in two ways**
    ``publish`` raises ``RetryLaterError`` if a retry may succeed, ``RejectedError`` if not, and nothing else.

    **Ends**
    ``publish`` and ``close`` return within their time limits, and no thread keeps the process alive.
    """

    is_pushed: bool
    """Whether values are visible only after they were sent, so that they must be sent again periodically."""

    def publish(self) -> str:
        """Publish the current values, and return what was done in one line."""

    def close(self) -> None:
        """Release all resources."""


class PeriodicPublisher:
    """Publishes through an exporter, on demand and periodically, never twice at once.

    Args:
        seconds: The interval of publications, > 0.
        patience_seconds: How long ``close`` waits for a publication in progress.
    """

    def __init__(self, exporter: MetricExporter, seconds: float, patience_seconds: float) -> None:
        self._exporter, self._seconds, self._patience_seconds = exporter, seconds, patience_seconds
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="leadline-metrics", daemon=True)
        if exporter.is_pushed:
            self._thread.start()

    def publish(self) -> str:
        """Publish now, and return what was done in one line.

        Raises:
            RetryLaterError: It failed, and a retry may succeed.
            RejectedError: It failed for good.
        """
        with self._lock:
            return self._exporter.publish()

    def close(self) -> None:
        """Stop publishing."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(self._patience_seconds)
        self._exporter.close()

    def _repeat(self) -> None:
        while not self._is_over.wait(self._seconds):
            try:
                self.publish()
            except (RetryLaterError, RejectedError, OSError) as error:  # the next notification reports the same error
                _LOG.info("the metrics could not be sent again: %s", error)
