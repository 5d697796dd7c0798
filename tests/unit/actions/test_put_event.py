"""put_event: on EventBridge as moto has it, handed on to a queue by a rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from amazon import CREDENTIALS, amazon, client, make_queue, received, route_events
from endpoints import HANGS, Reply, free_port, http_endpoint
from notices import FINDING, RUN, occasion

from leadline.actions import put_event
from leadline.actions.action import RejectedError, RetryLaterError
from leadline.actions.put_event import PutEvent
from leadline.actions.registry import make_action
from leadline.actions.sagemaker_event import MOST_BYTES, detail
from leadline.errors import ConfigurationError, MissingExtraError
from leadline.records.notification import Notification, RuleState, TensorSnapshot

PATTERN = json.dumps({"source": ["aws.sagemaker", "leadline"], "detail-type": ["SageMaker Training Job State Change"]})


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def clients() -> Iterator[None]:
    yield
    for each in list(put_event._kept):
        each.close()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with amazon() as address:
        yield address


def test_an_event_reaches_a_queue_by_the_pattern_of_amazons_own(server: str) -> None:
    queue, arn = make_queue(server, "all")
    route_events(server, PATTERN, arn)
    outcome = PutEvent(endpoint=server).run(occasion()).outcome
    (event,) = map(json.loads, received(server, queue))
    assert outcome == f"put on the bus default: event {event['id']}"
    assert (event["source"], event["detail-type"]) == ("leadline", "SageMaker Training Job State Change")
    assert event["time"].startswith("2026-11-20T15:53:20")
    assert event["detail"]["DebugRuleEvaluationStatuses"][0] == {
        "RuleConfigurationName": "loud",
        "RuleEvaluationJobArn": "arn:leadline:judge:::rule-evaluation/demo-1120/loud",
        "RuleEvaluationStatus": "IssuesFound",
        "StatusDetails": "loss is NaN, and 28 more tensors",
        "LastModifiedTime": 1_795_190_000_123,
    }
    said = {name: event["detail"][name] for name in ("TrainingJobName", "TrainingJobStatus", "SecondaryStatus")}
    assert said == {"TrainingJobName": "demo-1120", "TrainingJobStatus": "InProgress", "SecondaryStatus": "Training"}
    assert event["detail"]["leadline"]["uri"] == RUN
    assert event["detail"]["leadline"]["tensors"][0]["statistics"] == {"mean": "NaN"}


def test_a_bus_of_ones_own(server: str) -> None:
    client("events", server).create_event_bus(Name="training")
    queue, arn = make_queue(server, "own")
    route_events(server, PATTERN, arn, bus="training")
    made = make_action("put_event", {"bus": "training", "endpoint": server})
    assert made.run(occasion()).outcome.startswith("put on the bus training: event ")
    assert len(received(server, queue)) == 1


@pytest.mark.parametrize(
    ("ours", "status", "secondary"),
    [
        ("Starting", "InProgress", "Starting"),
        ("InProgress", "InProgress", "Training"),
        ("Completed", "Completed", "Completed"),
        ("Failed", "Failed", "Failed"),
        ("Stopping", "Stopping", "Stopping"),
        ("Stopped", "Stopped", "Stopped"),
        ("Interrupted", "Stopped", "Interrupted"),
    ],
)
def test_a_jobs_status_is_one_that_amazon_knows(ours: Any, status: str, secondary: str) -> None:
    notice = Notification(f"job/{ours}", "job_status", "demo", "/a", ours, 5_000_000, job_status=ours, message="exit 1")
    said = json.loads(detail(notice))
    assert (said["TrainingJobStatus"], said["SecondaryStatus"]) == (status, secondary)
    assert said.get("FailureReason") == ("exit 1" if ours == "Failed" else None)
    assert (said["DebugRuleEvaluationStatuses"], said["LastModifiedTime"]) == ([], 5)


def test_the_notices_own_rule_stands_as_the_notice_has_it() -> None:
    stale = (RuleState("other", "x", "InProgress", None), RuleState("loud", "exploding_tensor", "InProgress", "clear"))
    rules = json.loads(detail(replace(FINDING, rules=stale)))["DebugRuleEvaluationStatuses"]
    assert [(each["RuleConfigurationName"], each["RuleEvaluationStatus"]) for each in rules] == [
        ("loud", "IssuesFound"),
        ("other", "InProgress"),
    ]
    alone = json.loads(detail(replace(FINDING, rules=())))["DebugRuleEvaluationStatuses"]
    assert [each["RuleConfigurationName"] for each in alone] == ["loud"]


@pytest.mark.parametrize(
    ("large", "left_out"),
    [
        ({}, None),
        ({"evidence": {"text": "ä" * MOST_BYTES}}, ["evidence"]),
        ({"tensors": (TensorSnapshot("x" * MOST_BYTES),)}, ["evidence", "tensors"]),
        (
            {"rules": tuple(RuleState(f"r{each}", "x", "Error", None, why="y" * 900) for each in range(200))},
            ["evidence", "rules", "tensors"],
        ),
        (
            {"rules": tuple(RuleState(f"r{each}", "x", "Error", None, why="y" * 900) for each in range(900))},
            ["evidence", "rules", "tensors"],
        ),
        ({"message": "z" * MOST_BYTES}, ["evidence", "rules", "tensors"]),
    ],
)
def test_what_is_too_large_leaves_something_out_and_says_what(
    large: dict[str, Any], left_out: list[str] | None
) -> None:
    data = detail(replace(FINDING, **large))
    said = json.loads(data)
    assert len(data) + 14 + len("leadline") + len("SageMaker Training Job State Change") <= MOST_BYTES
    assert said["leadline"].get("left_out") == left_out
    assert said["DebugRuleEvaluationStatuses"][0]["RuleConfigurationName"] == "loud"
    assert len(said["DebugRuleEvaluationStatuses"]) == len(large.get("rules", FINDING.rules)) + ("rules" in large)
    assert said["leadline"]["message"].startswith(large.get("message", FINDING.message)[:1024])


def test_a_training_with_too_many_rules_for_an_event_is_refused() -> None:
    rules = tuple(RuleState(f"r{each}", "x", "Error", None) for each in range(3000))
    with pytest.raises(RejectedError, match="larger than the 262,144 bytes"):
        detail(replace(FINDING, rules=rules))


def answer(*entries: dict[str, str], status: int = 200) -> Reply:
    failed = sum("ErrorCode" in each for each in entries)
    body = json.dumps({"FailedEntryCount": failed, "Entries": list(entries)})
    return Reply(status, body, {"Content-Type": "application/x-amz-json-1.1"})


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("NotAuthorizedForSourceException", RejectedError),
        ("MalformedDetail", RejectedError),
        ("ThrottlingException", RetryLaterError),
        ("InternalFailure", RetryLaterError),
        ("InternalException", RetryLaterError),
    ],
)
def test_an_entry_that_failed_within_an_answer_of_success_is_a_failure(code: str, error: type[Exception]) -> None:
    with http_endpoint(answer({"ErrorCode": code, "ErrorMessage": "no\nway"})) as endpoint:
        with pytest.raises(error, match=f"^EventBridge answered {code}: no way$"):
            PutEvent(endpoint=endpoint.url).run(occasion())
        assert len(endpoint.received) == 1


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "AccessDeniedException", RejectedError),
        (400, "ResourceNotFoundException", RejectedError),
        (403, "InvalidSignatureException", RejectedError),
        (400, "ThrottlingException", RetryLaterError),
        (400, "ExpiredTokenException", RetryLaterError),
        (500, "InternalFailure", RetryLaterError),
        (503, "Whatever", RetryLaterError),
    ],
)
def test_what_amazon_refuses_for_good_and_what_may_pass(status: int, code: str, error: type[Exception]) -> None:
    body = json.dumps({"__type": code, "message": "because"})
    reply = Reply(status, body, {"Content-Type": "application/x-amz-json-1.1"})
    with http_endpoint(reply) as endpoint, pytest.raises(error, match=f"EventBridge answered {code}: because"):
        PutEvent(endpoint=endpoint.url).run(occasion())
    assert len(endpoint.received) == 1


def test_credentials_that_expired_are_looked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = {"Content-Type": "application/x-amz-json-1.1"}
    expired = Reply(400, json.dumps({"__type": "ExpiredTokenException", "message": "too old"}), kind)
    with http_endpoint(answer({"EventId": "1"}), expired, answer({"EventId": "2"})) as endpoint:
        action = PutEvent(endpoint=endpoint.url)
        action.run(occasion())
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANEW")
        with pytest.raises(RetryLaterError, match="too old"):
            action.run(occasion())
        assert action.run(occasion()).outcome.endswith("event 2")
    keys = [each.headers["authorization"].partition("Credential=")[2].split("/")[0] for each in endpoint.received]
    assert keys == ["AKIATEST", "AKIATEST", "AKIANEW"]


def test_nobody_listens_and_somebody_hangs() -> None:
    with pytest.raises(RetryLaterError, match="Could not connect"):
        PutEvent(endpoint=f"http://127.0.0.1:{free_port()}").run(occasion())
    with http_endpoint(Reply(HANGS)) as endpoint, pytest.raises(RetryLaterError, match="timeout"):
        PutEvent(endpoint=endpoint.url, timeout=1.0).run(occasion())


def test_a_dry_run_puts_nothing() -> None:
    with http_endpoint() as endpoint:
        said = PutEvent(bus="training", endpoint=endpoint.url, dry_run=True).describe(occasion())
    assert said == "would put loud/opened/1313 on the bus training"
    assert endpoint.received == []


def test_what_cannot_work_is_refused_before_the_start(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PutEvent(endpoint=server).check()
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:\d+ cannot be reached: connection refused"):
        PutEvent(endpoint=f"http://127.0.0.1:{free_port()}").check()
    with pytest.raises(ConfigurationError, match="put_event: endpoint is no URL; write https://host"):
        PutEvent(endpoint="host").check()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(ConfigurationError, match="put_event: no AWS credentials; set AWS_PROFILE"):
        PutEvent(endpoint=server).check()
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigurationError, match="put_event: in which region"):
        PutEvent(endpoint=server).check()
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigurationError, match=r"put_event: .*profile \(nobody\)"):
        PutEvent(endpoint=server).check()


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3.session", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'leadline\[aws\]'"):
        PutEvent().check()
