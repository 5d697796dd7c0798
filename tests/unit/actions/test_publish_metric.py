"""publish_metric: parameters, and checks before the start; exporters are tested in tests/process."""

from __future__ import annotations

import builtins
import importlib.util
import socket
from typing import Any

import pytest

from leadline.actions.action import ActionContext
from leadline.actions.publish_metric import PublishMetric
from leadline.actions.registry import make_action
from leadline.errors import ConfigurationError, MissingExtraError
from leadline.records.notification import Notification, RuleState

RULES = (RuleState("a", "a", "InProgress", None), RuleState("b", "b", "InProgress", None))
NOTICE = Notification("n", "rule_status", "a-run", "/nowhere", "InProgress", 0, rules=RULES)


def test_the_action_is_found_by_name_and_follows_every_status() -> None:
    made = make_action("publish_metric", {"to": "prometheus", "port": "9300"})
    assert made == PublishMetric(to="prometheus", port=9300)
    assert (made.target, made.statuses, made.place) == ("to", ("*",), "judge")


def test_the_description_is_one_line() -> None:
    said = PublishMetric(to="otlp").describe(ActionContext("/nowhere", NOTICE, (), 0))
    assert said == "would publish the gauges of 2 rules: otlp"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"to": "statsd"}, "to must be one of 'prometheus', 'otlp', 'cloudwatch', not 'statsd'"),
        ({"to": "prometheus", "port": "70000"}, "port must be an integer >= 0 and <= 65535"),
        ({"to": "prometheus", "interval": "0"}, "interval must be a number > 0"),
        ({"to": "otlp", "port": "9300"}, "otlp has no port; it has endpoint, headers"),
        ({"to": "cloudwatch", "headers": "$TOKEN"}, "cloudwatch has no headers; it has endpoint, region, namespace"),
        ({"to": "prometheus", "region": "eu-central-1"}, "prometheus has no region; it has host, port, gateway"),
    ],
)
def test_invalid_parameters_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make_action("publish_metric", given)


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} of 127.0.0.1 is in use; choose another, or port=0"):
            PublishMetric(to="prometheus", port=port).check()
    PublishMetric(to="prometheus", port=port).check()


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1 is not an address of this machine"):
        PublishMetric(to="prometheus", host="192.0.2.1").check()


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (PublishMetric(to="prometheus", gateway="pushgateway:9091"), "gateway"),
        (PublishMetric(to="otlp", endpoint="collector"), "endpoint"),
        (PublishMetric(to="otlp", endpoint="http://collector:port"), "endpoint"),
    ],
)
def test_an_invalid_url_is_refused(action: PublishMetric, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is not a URL; write"):
        action.check()


def test_an_unreachable_endpoint_is_refused_unless_probing_is_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
    for given in ({"to": "prometheus", "gateway": url}, {"to": "otlp", "endpoint": url}):
        with pytest.raises(ConfigurationError, match="cannot be reached"):
            make_action("publish_metric", given).check()
        make_action("publish_metric", {**given, "probe": "false"}).check()


def test_an_invalid_endpoint_of_cloudwatch_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="publish_metric: endpoint is not a URL"):
        PublishMetric(to="cloudwatch", region="eu-central-1", endpoint="nothing").check()


def test_an_unknown_region_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="publish_metric: the AWS region is unknown"):
        PublishMetric(to="cloudwatch").check()


@pytest.mark.parametrize(("to", "extra"), [("prometheus", "prometheus"), ("otlp", "otel"), ("cloudwatch", "aws")])
def test_a_missing_extra_is_named(to: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str, *_: Any) -> None:
        assert name
        if "." in name:
            raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    with pytest.raises(MissingExtraError, match=rf"pip install 'leadline\[{extra}\]'"):
        make_action("publish_metric", {"to": to}).check()


def test_the_class_can_be_imported_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def guarded(name: str, *rest: Any, **options: Any) -> Any:
        assert name.partition(".")[0] not in ("prometheus_client", "opentelemetry", "boto3", "botocore"), name
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", guarded)
    made = make_action("publish_metric", {"to": "cloudwatch"})
    made.close()
