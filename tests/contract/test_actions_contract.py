"""Contract tests of the built-in actions, without the servers that they need."""

from __future__ import annotations

import socket
from typing import Any, ClassVar

import pytest

from leadline.actions.registry import BUILT_IN
from leadline.testing.action_contract import ActionContract


def _closed_port() -> int:
    """Return an unused port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


NOBODY = f"127.0.0.1:{_closed_port()}"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set fake AWS credentials, so that boto3 neither finds real ones nor requests them over the network."""
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "nobody"),
        ("AWS_SECRET_ACCESS_KEY", "nothing"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


class TestStopTraining(ActionContract):
    name = "stop_training"
    parameters: ClassVar[dict[str, Any]] = {"grace": 5.0}


class TestRunCommand(ActionContract):
    name = "run_command"
    parameters: ClassVar[dict[str, Any]] = {"command": "echo $SECRET"}


class TestTracker(ActionContract):
    name = "tracker"


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # raised by Apprise itself
class TestNotify(ActionContract):
    name = "notify"
    parameters: ClassVar[dict[str, Any]] = {"url": f"json://me:$SECRET@{NOBODY}/", "timeout": 5.0}


class TestWebhook(ActionContract):
    name = "webhook"
    parameters: ClassVar[dict[str, Any]] = {
        "url": f"http://{NOBODY}/hook?token=$SECRET",
        "authorization": "Bearer $SECRET",
        "timeout": 5.0,
    }


class TestPutEvent(ActionContract):
    name = "put_event"
    parameters: ClassVar[dict[str, Any]] = {
        "endpoint": f"http://{NOBODY}/$SECRET",
        "region": "us-east-1",
        "timeout": 5.0,
    }


class TestPublishMetricToPrometheus(ActionContract):
    name = "publish_metric"
    parameters: ClassVar[dict[str, Any]] = {
        "to": "prometheus",
        "gateway": f"http://me:$SECRET@{NOBODY}",
        "timeout": 5.0,
    }


class TestPublishMetricToOtlp(ActionContract):
    name = "publish_metric"
    parameters: ClassVar[dict[str, Any]] = {
        "to": "otlp",
        "endpoint": f"http://{NOBODY}/v1/metrics",
        "headers": "x-key=$SECRET",
        "timeout": 5.0,
    }


class TestPublishMetricToCloudWatch(ActionContract):
    name = "publish_metric"
    parameters: ClassVar[dict[str, Any]] = {
        "to": "cloudwatch",
        "endpoint": f"http://{NOBODY}/$SECRET",
        "region": "us-east-1",
        "timeout": 5.0,
    }


def test_every_built_in_action_has_a_contract_test() -> None:
    held = [
        contract
        for contract in globals().values()
        if isinstance(contract, type) and issubclass(contract, ActionContract)
    ]
    assert {contract.name for contract in held if contract is not ActionContract} == set(BUILT_IN)
