"""publish_metric with real endpoints: a Prometheus scrape, a Pushgateway, an OTLP receiver, CloudWatch."""

from __future__ import annotations

import math
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from agent_process import wait_for
from prometheus_client.parser import text_string_to_metric_families
from wire import otlp

from leadline.actions.action import ActionContext, Outcome, RejectedError, RetryLaterError
from leadline.actions.publish_metric import PublishMetric
from leadline.errors import ConfigurationError
from leadline.records.notification import Notification, RuleState

FIRED = RuleState("loss", "loss_spike", "IssuesFound", "fired", is_open=True, findings=1)
CLOSED = RuleState("loss", "loss_spike", "IssuesFound", "fired", findings=1)
UNDECIDED = RuleState("gpu", "low_gpu_utilization", "NoIssuesFound", "undecided")
QUICK = {"probe": False, "interval": 0.05, "timeout": 10.0}

Exchange = tuple[str, str, dict[str, str], bytes]
"""Method, path, lower-case headers, body."""


class Server:
    """An HTTP server that records requests and responds as configured."""

    def __init__(self) -> None:
        self.came: list[Exchange] = []
        self.status = 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.may_answer.wait(60)
                outer.came.append(
                    (self.command, self.path, {key.lower(): value for key, value in self.headers.items()}, body)
                )
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_PUT = do_POST

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.place}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def opened() -> Iterator[Callable[..., PublishMetric]]:
    """Return a function that creates actions; they are closed at the end."""
    made: list[PublishMetric] = []

    def make(**given: Any) -> PublishMetric:
        action = PublishMetric(**given)
        action.check()
        made.append(action)
        return action

    yield make
    for action in made:
        action.close()
    assert not any(thread.name == "leadline-metrics" for thread in threading.enumerate())


def tell(action: PublishMetric, *rules: RuleState, run: Path = Path("/nowhere"), **given: Any) -> Outcome:
    notification = Notification("n", "rule_status", "a-run", str(run), "InProgress", 0, rules=rules, **given)
    return action.run(ActionContext(str(run), notification, (), 0))


def scrape(url: str) -> dict[str, dict[str, float]]:
    """Return values by gauge and by the label other than the run."""
    with urllib.request.urlopen(url, timeout=60) as response:
        return parse(response.read().decode())


def parse(text: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("run") == "a-run"
            found.setdefault(sample.name, {})["".join(labels.values())] = sample.value
    return found


def test_prometheus_sees_a_rule_fire_and_reset(opened: Any) -> None:
    action = opened(to="prometheus")
    outcome = tell(action, FIRED, UNDECIDED, step=12)
    url = outcome.outcome.removeprefix("served at ")
    assert outcome.announcement == outcome.outcome
    seen = scrape(url)
    assert seen["leadline_rule_fired"]["loss"] == 1.0
    assert math.isnan(seen["leadline_rule_fired"]["gpu"])
    assert seen["leadline_job_step"] == {"": 12.0}
    assert seen["leadline_job_findings"] == {"": 1.0}
    assert seen["leadline_job_status"]["InProgress"] == 1.0
    again = tell(action, CLOSED, UNDECIDED)
    assert (again.outcome, again.announcement) == (outcome.outcome, None)
    assert scrape(url)["leadline_rule_fired"]["loss"] == 0.0


def test_the_endpoint_ends_with_the_action(opened: Any) -> None:
    action = opened(to="prometheus")
    url = tell(action, FIRED).outcome.removeprefix("served at ")
    action.close()
    with pytest.raises(OSError, match="refused"):
        scrape(url)


def test_a_port_in_use_is_reported_and_retried(opened: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    action = opened(to="prometheus", port=port)
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(RetryLaterError, match=f"port {port} of 127.0.0.1 is in"),
    ):
        tell(action, FIRED)
    assert tell(action, FIRED).outcome == f"served at http://127.0.0.1:{port}/metrics"


def test_a_gateway_gets_all_gauges_of_the_run(server: Server, opened: Any) -> None:
    action = opened(to="prometheus", gateway=f"http://me:s3cret@{server.place}", **QUICK)
    assert tell(action, FIRED, UNDECIDED).outcome == f"pushed to {server.place}"
    method, path, headers, body = server.came[0]
    assert (method, path) == ("PUT", "/metrics/job/leadline/run/a-run")
    assert headers["authorization"] == "Basic bWU6czNjcmV0"
    seen = parse(body.decode())
    assert seen["leadline_rule_fired"]["loss"] == 1.0
    assert math.isnan(seen["leadline_rule_fired"]["gpu"])


@pytest.mark.parametrize("to", ["prometheus", "otlp"])
@pytest.mark.parametrize(("status", "error"), [(503, RetryLaterError), (429, RetryLaterError), (401, RejectedError)])
def test_the_response_of_a_server_is_reported(
    to: str, status: int, error: type[Exception], server: Server, opened: Any
) -> None:
    server.status = status
    given = {"gateway": server.url} if to == "prometheus" else {"endpoint": server.url}
    action = opened(to=to, **given, **QUICK | {"interval": 600.0, "timeout": 2.0})
    with pytest.raises(error, match=rf"{server.place} answered {status}"):
        tell(action, FIRED)


@pytest.mark.parametrize("to", ["prometheus", "otlp"])
def test_an_unreachable_server_is_reported(to: str, opened: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
    given = {"gateway": f"http://{place}"} if to == "prometheus" else {"endpoint": f"http://{place}"}
    action = opened(to=to, **given, **QUICK | {"interval": 600.0, "timeout": 2.0})
    with pytest.raises(RetryLaterError, match=rf"{place}: .*[Cc]onnection refused"):
        tell(action, FIRED)


@pytest.mark.parametrize("to", ["prometheus", "otlp"])
def test_a_server_that_hangs_times_out(to: str, server: Server, opened: Any) -> None:
    server.may_answer.clear()
    given = {"gateway": server.url} if to == "prometheus" else {"endpoint": server.url}
    action = opened(to=to, **given, **QUICK | {"interval": 600.0, "timeout": 1.0})
    with pytest.raises(RetryLaterError, match="did not answer"):
        tell(action, FIRED)


def test_a_receiver_of_otlp_sees_a_rule_fire_and_reset(server: Server, opened: Any) -> None:
    action = opened(
        to="otlp", endpoint=server.url, headers="Authorization=Bearer s3cret", **QUICK | {"interval": 600.0}
    )
    outcome = tell(action, FIRED, UNDECIDED, step=12)
    assert (outcome.outcome, outcome.announcement) == (f"sent to {server.place}", f"sent to {server.place}")
    method, path, headers, _ = server.came[0]
    assert (method, path, headers["content-type"]) == ("POST", "/v1/metrics", "application/x-protobuf")
    assert headers["authorization"] == "Bearer s3cret"
    seen, resource = otlp(server.came[0][3])
    assert resource["service.name"] == "leadline"
    assert seen["leadline.rule.fired"]["loss"] == 1.0
    assert math.isnan(seen["leadline.rule.fired"]["gpu"])
    assert seen["leadline.job.step"] == {"": 12.0}
    assert seen["leadline.job.status"]["InProgress"] == 1.0
    tell(action, CLOSED, UNDECIDED)
    assert otlp(server.came[1][3])[0]["leadline.rule.fired"]["loss"] == 0.0


def test_unchanged_values_are_pushed_again(server: Server, opened: Any) -> None:
    action = opened(to="otlp", endpoint=server.url, **QUICK)
    tell(action, FIRED)
    wait_for(lambda: len(server.came) > 3, "more of the same")
    assert all(otlp(request[3])[0]["leadline.rule.fired"]["loss"] == 1.0 for request in list(server.came))
    action.close()
    sent = len(server.came)
    assert sent == len(server.came)


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start CloudWatch emulated by moto, over HTTP."""
    from moto.server import ThreadedMotoServer

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def points(endpoint: str, rule: str) -> list[float]:
    """Return the values of a rule in CloudWatch: maximum and minimum of the latest minute."""
    from datetime import UTC, datetime, timedelta

    import boto3

    client = boto3.client("cloudwatch", region_name="eu-central-1", endpoint_url=endpoint)
    now = datetime.now(UTC)
    answer = client.get_metric_statistics(
        Namespace="Leadline",
        MetricName="RuleFired",
        Period=3600,
        Statistics=["Maximum", "Minimum"],
        Dimensions=[{"Name": "Run", "Value": "a-run"}, {"Name": "Rule", "Value": rule}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(hours=1),
    )
    client.close()
    return [point[key] for point in answer["Datapoints"] for key in ("Maximum", "Minimum")]


@pytest.mark.slow
def test_cloudwatch_sees_a_rule_fire_and_reset_and_nothing_of_an_undecided_one(amazon: str, opened: Any) -> None:
    action = opened(to="cloudwatch", region="eu-central-1", endpoint=amazon, interval=600.0)
    assert tell(action, FIRED, UNDECIDED).outcome == "put into the CloudWatch namespace Leadline, eu-central-1"
    assert points(amazon, "loss") == [1.0, 1.0]
    tell(action, CLOSED, UNDECIDED)
    assert points(amazon, "loss") == [1.0, 0.0]
    assert points(amazon, "gpu") == []


@pytest.mark.slow
def test_unreachable_cloudwatch_and_missing_credentials_are_reported(
    opened: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
    action = PublishMetric(to="cloudwatch", region="eu-central-1", endpoint=url, timeout=4.0, probe=False)
    with pytest.raises(ConfigurationError, match="publish_metric: no AWS credentials; set AWS_PROFILE"):
        action.check()
    with pytest.raises(RejectedError, match="CloudWatch: no AWS credentials"):
        tell(action, FIRED)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with pytest.raises(RetryLaterError, match="CloudWatch: EndpointConnectionError"):
        tell(opened(to="cloudwatch", region="eu-central-1", endpoint=url, timeout=4.0, probe=False), FIRED)
    action.close()
