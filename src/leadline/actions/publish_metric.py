"""The action publish_metric."""

from __future__ import annotations

import importlib.util
from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

from leadline.actions.action import Action, ActionContext, Outcome
from leadline.actions.http_client import PORTS
from leadline.actions.http_client import port as port_of
from leadline.actions.metrics.exporter import MetricExporter
from leadline.actions.metrics.periodic_publisher import PeriodicPublisher
from leadline.actions.metrics.run_metrics import RunMetrics
from leadline.errors import ConfigurationError, MissingExtraError

Place = Literal["prometheus", "otlp", "cloudwatch"]

_OWN: Final = {
    "prometheus": ("host", "port", "gateway"),
    "otlp": ("endpoint", "headers"),
    "cloudwatch": ("endpoint", "region", "namespace"),
}
"""The parameters that only some places have."""
_NEEDED: Final = {
    "prometheus": ("prometheus_client", "prometheus"),
    "otlp": ("opentelemetry.exporter.otlp.proto.http.metric_exporter", "otel"),
    "cloudwatch": ("boto3", "aws"),
}
"""The module that each needs, and the extra that brings it."""
_SHARE: Final = 0.45
"""Of the time limit of one try: a notice may have to wait for one sending before its own."""
_PROBE_SECONDS: Final = 5.0
_FAREWELL_SECONDS: Final = 3.0


class PublishMetric(Action, frozen=True, kw_only=True, dict=True):
    """Publishes a gauge for each rule, and a few for the job, where alarms and dashboards find them.

    | gauge | labels | value |
    |---|---|---|
    | `leadline_rule_fired` | `run`, `rule` | 1: an episode is open, 0: clear, NaN: undecided, not yet, or it failed |
    | `leadline_job_status` | `run`, `status` | 1 for the status that the job has, 0 for every other |
    | `leadline_job_step` | `run` | the last global step that is known to be finished |
    | `leadline_job_findings` | `run` | how many findings the rules have had so far |

    These are Prometheus' names; OpenTelemetry has `leadline.rule.fired`, CloudWatch `RuleFired`, and so on.
    So an alarm on `leadline_rule_fired == 1` resets when the episode closes, and never takes "no data" for "fine".

    `prometheus`: an HTTP endpoint `/metrics`, from the start of the judging to its end; the outcome says its address.
    With `gateway` the values are pushed to a Pushgateway instead, which keeps the last ones after the run.
    `otlp`: sent to an OpenTelemetry collector over HTTP. Without `endpoint`, where OTEL_EXPORTER_OTLP_METRICS_ENDPOINT
    or OTEL_EXPORTER_OTLP_ENDPOINT say, else to port 4318 of this machine.
    `cloudwatch`: custom metrics with the dimensions Run and Rule. CloudWatch takes no NaN: then there is no point, and
    the alarm's treatment of missing data decides. Credentials come from where boto3 looks for them.

    What is pushed is pushed at each change, and again every `interval` seconds so that alarms have points.

    Args:
        to: `prometheus`, `otlp` or `cloudwatch`.
        host: prometheus: the address of this machine that is served at; 0.0.0.0 is all of them.
        port: prometheus: the port that is served at, 0 to 65535; 0 is any that is free.
        gateway: prometheus: the URL of a Pushgateway; empty: served, not pushed.
        endpoint: otlp: the receiver's URL. cloudwatch: another address than Amazon's own (a VPC endpoint).
        headers: otlp: sent with each request, `name=value,name=value`; with a secret in it as `$NAME`.
        region: cloudwatch: the region; empty: the one of the environment or the profile.
        namespace: cloudwatch: the namespace of the metrics.
        interval: Seconds after which values that did not change are pushed again, > 0.
        probe: Whether a connection to the place is tried before the training starts.
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
        own, known = _OWN[self.to], {each for names in _OWN.values() for each in names}
        for each in msgspec.structs.fields(self):
            if each.name in known.difference(own) and getattr(self, each.name) != each.default:
                raise ConfigurationError(f"publish_metric: {self.to} has no {each.name}; it has {', '.join(own)}")

    def check(self) -> None:
        module, extra = _NEEDED[self.to]
        if not _is_installed(module):
            raise MissingExtraError(f"publish_metric:{self.to} needs an extra: pip install 'leadline[{extra}]'")
        if self.to == "prometheus":
            self._check_prometheus()
        elif self.to == "otlp":
            self._check_otlp()
        else:
            self._check_cloudwatch()

    def describe(self, occasion: ActionContext) -> str:
        return f"would publish the gauges of {len(occasion.notice.rules)} rules: {self.to}"

    def run(self, occasion: ActionContext) -> Outcome:
        self._board.take(occasion)
        is_first = "_repeater" not in self.__dict__
        outcome = self._repeater.publish()
        return Outcome(outcome, announcement=outcome if is_first else None)

    def close(self) -> None:
        if "_repeater" in self.__dict__:
            self._repeater.close()

    @cached_property
    def _board(self) -> RunMetrics:
        return RunMetrics()

    @cached_property
    def _repeater(self) -> PeriodicPublisher:
        seconds = self.timeout * _SHARE
        return PeriodicPublisher(self._outlet(seconds), self.interval, min(seconds, _FAREWELL_SECONDS))

    def _outlet(self, seconds: float) -> MetricExporter:
        if self.to == "otlp":
            from leadline.actions.metrics.otlp import OtlpReceiver

            return OtlpReceiver(self._board, self.endpoint, self.headers, seconds)
        if self.to == "cloudwatch":
            from leadline.actions.metrics.cloudwatch import CloudWatch

            return CloudWatch(self._board, self.namespace, self.region, self.endpoint, seconds)
        from leadline.actions.metrics.prometheus import Endpoint, Gateway

        if self.gateway:
            return Gateway(self._board, self.gateway, seconds)
        return Endpoint(self._board, self.host, self.port)

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
        from leadline.actions.aws import check_credentials, make_client, place
        from leadline.actions.connectivity import check_reachable

        client = make_client(
            "cloudwatch", action="publish_metric", region=self.region, endpoint=self.endpoint, seconds=_PROBE_SECONDS
        )
        host, port, scheme = place(client)
        client.close()
        check_credentials("publish_metric")
        if self.probe:
            check_reachable(host, port, min(self.timeout, _PROBE_SECONDS), scheme=scheme)

    def _check_url(self, name: str, url: str) -> None:
        """Refuse a URL that cannot be sent to; no error quotes it, since it may be a secret."""
        from leadline.actions.connectivity import check_reachable

        parts = _split(name, url)
        if self.probe:
            limit = min(self.timeout, _PROBE_SECONDS)
            check_reachable(parts.hostname or "", port_of(parts), limit, scheme=parts.scheme)


def _split(name: str, url: str) -> SplitResult:
    """The parts of a URL that can be sent to.

    Raises:
        ConfigurationError: It cannot be.
    """
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ConfigurationError(f"publish_metric: {name} is no URL; write {name}=https://host:port")
    return parts


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False
