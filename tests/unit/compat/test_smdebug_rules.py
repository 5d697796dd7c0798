"""Custom rules in smdebug's interface, evaluated on a trial that smdebug wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from moto import mock_aws

from leadline.compat.smdebug import create_trial
from leadline.compat.smdebug.exceptions import NoMoreData, RuleEvaluationConditionMet, SMDebugValueError
from leadline.compat.smdebug.rules import Rule, invoke_rule
from leadline.compat.smdebug.rules.action import Actions
from leadline.compat.smdebug.trials import Trial

DATA = Path(__file__).parents[2] / "data" / "smdebug"


class LargeGradient(Rule):
    """Fires where a gradient has a large mean of absolute values; as in smdebug, parameters may be texts."""

    def __init__(self, base_trial: Trial, threshold: str = "10") -> None:
        super().__init__(base_trial)
        self.threshold = float(threshold)
        self.steps: list[int] = []

    def set_required_tensors(self, step: int) -> None:
        self.req_tensors.add("^gradient/.*bias$", [step], should_match_regex=True)

    def invoke_at_step(self, step: int) -> bool:
        self.steps.append(step)
        tensors = self.req_tensors.get()
        assert [tensor.name for tensor in tensors] == self.base_trial.tensor_names(regex="^gradient/.*bias$")
        return any(tensor.reduction_value(step, "mean", abs=True) > self.threshold for tensor in tensors)


def test_every_step_with_the_required_tensors_is_evaluated() -> None:
    rule = LargeGradient(create_trial(DATA / "pt1"))
    with pytest.raises(NoMoreData):
        invoke_rule(rule)
    assert rule.steps == [0, 2, 6, 8]  # step 4 is an eval step, without gradients


def test_condition_is_met() -> None:
    expected = json.loads((DATA / "pt1.expected.json").read_text())["tensors"]
    values = [expected[f"gradient/Net_{layer}.bias"]["values"] for layer in ("conv1", "fc")]  # with all elements
    largest = {
        step: max(float(np.abs(of_tensor[str(step)]["first"]).mean()) for of_tensor in values) for step in (0, 2, 6, 8)
    }
    threshold = sorted(largest.values())[1]
    first, second = (step for step, value in largest.items() if value > threshold * 1.0001)
    rule = LargeGradient(create_trial(DATA / "pt1"), threshold=str(threshold * 1.0001))
    with pytest.raises(RuleEvaluationConditionMet, match=f"LargeGradient is met at step {first}$") as met:
        invoke_rule(rule, raise_eval_cond=True)
    assert (met.value.rule_name, met.value.step) == ("LargeGradient", first)
    with pytest.raises(RuleEvaluationConditionMet, match=f"at step {second}$"):
        invoke_rule(rule, start_step=first + 1, raise_eval_cond=True)
    invoke_rule(rule, end_step=9)
    assert rule.steps[-4:] == [0, 2, 6, 8]


class Warned(LargeGradient):
    """Fires at once, and says so."""

    def __init__(self, base_trial: Trial, action_str: str) -> None:
        Rule.__init__(self, base_trial, action_str)
        self.threshold, self.steps = -1.0, []


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """An account with a queue that gets every message of the topic; returns what is in the queue."""
    with mock_aws():
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        sns, sqs = boto3.client("sns"), boto3.client("sqs")
        topic = sns.create_topic(Name="SMDebugRules")["TopicArn"]
        queue = sqs.create_queue(QueueName="inbox")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

        def messages() -> list[dict[str, Any]]:
            found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
            return [json.loads(message["Body"]) for message in found]

        yield messages


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu-west-1"}


def test_the_actions_of_a_rule_are_performed_when_it_fires(inbox: Callable[[], list[dict[str, Any]]]) -> None:
    actions = [{"name": "Email", "endpoint": "Me@example.org"}, {"name": "sms", "endpoint": "+11234567890"}]
    rule = Warned(create_trial(DATA / "pt1"), json.dumps(actions))
    described = [one for one in boto3.client("sns").list_subscriptions()["Subscriptions"] if one["Protocol"] != "sqs"]
    assert {(one["Protocol"], one["Endpoint"]) for one in described} == {
        ("email", "Me@example.org"),
        ("sms", "+11234567890"),
    }
    assert inbox() == []
    with pytest.raises(RuleEvaluationConditionMet):
        invoke_rule(rule, raise_eval_cond=True)
    sent = inbox()
    assert {message["Message"] for message in sent} == {"SMDebugRule:Warned fired. "}
    attributes = [message["MessageAttributes"] for message in sent]
    receivers = {name: entry["Value"] for one in attributes for name, entry in one.items()}
    assert receivers == {"email": "Me@example.org", "phone_num": "+11234567890"}


@pytest.mark.parametrize(
    "described",
    ['{"name": "page", "endpoint": "me"}', '{"name": "sms"}', '"sms"', '[["sms"]]'],
)
def test_what_is_no_action_is_logged_and_left_out(described: str, caplog: pytest.LogCaptureFixture) -> None:
    Actions(described, "MyRule").invoke()
    assert "is no action; there are stoptraining, email, sms" in caplog.text


def test_an_action_that_fails_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    stop = {"name": "stoptraining", "training_job_prefix": "job"}
    Actions(json.dumps([stop, {"name": "sms", "endpoint": "+1"}]), "MyRule").invoke("at step 3")
    assert "MyRule cannot stop job: Could not connect" in caplog.text
    assert "+1 got no message of MyRule: Could not connect" in caplog.text


def test_actions_that_are_no_json_are_refused() -> None:
    with pytest.raises(SMDebugValueError, match="as JSON, not 'StopTraining'"):
        Actions("StopTraining", "MyRule")
    Actions(None, "MyRule").invoke()
