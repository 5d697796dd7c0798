"""put_event, with moto's EventBridge and a queue behind a rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from amazon import CREDENTIALS, amazon, client, make_queue, received, route_events
from endpoints import HANGS, Reply, free_port, http_endpoint
from notices import FINDING, RUN, make_context

from leadline.actions import put_event
from leadline.actions.action import RejectedError, RetryLaterError
from leadline.actions.put_event import MAX_BYTES, PutEvent, detail
from leadline.actions.registry import make_action
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
    for each in list(put_event._clients):
        each.close()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with amazon() as address:
        yield address


def test_an_event_reaches_a_queue_by_the_pattern_for_amazons_events(server: str) -> None:
    queue, arn = make_queue(server, "all")
    route_events(server, PATTERN, arn)
    outcome = PutEvent(endpoint=server).run(make_context()).outcome
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


def test_a_custom_bus(server: str) -> None:
    client("events", server).create_event_bus(Name="training")
    queue, arn = make_queue(server, "own")
    route_events(server, PATTERN, arn, bus="training")
    made = make_action("put_event", {"bus": "training", "endpoint": server})
    assert made.run(make_context()).outcome.startswith("put on the bus training: event ")
    assert len(received(server, queue)) == 1


def test_one_event_for_what_changes_at_once_and_none_for_a_verdict(server: str) -> None:
    queue, arn = make_queue(server, "changes")
    route_events(server, PATTERN, arn)
    action = PutEvent(endpoint=server)

    def put(kind: Any, rule: str | None, status: str, job: Any, *rules: str, run: str = "/once") -> bool:
        states = tuple(RuleState(f"r{number}", "x", each, None) for number, each in enumerate(rules))
        notice = Notification(f"{rule}/{status}", kind, "demo", run, status, 5, job_status=job, rule=rule, rules=states)
        return not action.run(make_context(notice)).is_nothing

    running, found = ("InProgress", "InProgress"), ("InProgress", "IssuesFound")
    ended = ("NoIssuesFound", "IssuesFound")
    assert [
        put("job_status", None, "Starting", "Starting", *running),
        put("rule_status", "r0", "InProgress", "Starting", *running),  # a rule that is evaluated now
        put("job_status", None, "InProgress", "InProgress", *running),
        put("rule_status", "r0", "InProgress", "InProgress", *running),  # its verdict is clear now
        put("finding", "r1", "IssuesFound", "InProgress", *found),
        put("closed", "r1", "IssuesFound", "InProgress", *found),
        put("finding", "r1", "IssuesFound", "InProgress", *found),  # another episode
        put("rule_status", "r0", "NoIssuesFound", "InProgress", *ended),
        put("rule_status", "r1", "IssuesFound", "InProgress", *ended),  # both at once: the event before lists both
        put("job_status", None, "Completed", "Completed", *ended),
        put("job_status", None, "Completed", "Completed", *ended, run="/another"),
    ] == [True, False, True, False, True, True, True, True, False, True, True]
    assert len(received(server, queue)) == 8


def test_a_change_whose_event_failed_is_not_taken_for_sent(server: str) -> None:
    notice = Notification("job/Completed", "job_status", "demo", "/fails", "Completed", 5, job_status="Completed")
    with http_endpoint(Reply(500), Reply(500), Reply(500), Reply(500)) as endpoint, pytest.raises(RetryLaterError):
        PutEvent(endpoint=f"http://127.0.0.1:{endpoint.port}").run(make_context(notice))
    assert not PutEvent(endpoint=server).run(make_context(notice)).is_nothing


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
def test_the_job_status_is_one_of_amazons(ours: Any, status: str, secondary: str) -> None:
    notification = Notification(
        f"job/{ours}", "job_status", "demo", "/a", ours, 5_000_000, job_status=ours, message="exit 1"
    )
    said = json.loads(detail(notification))
    assert (said["TrainingJobStatus"], said["SecondaryStatus"]) == (status, secondary)
    assert said.get("FailureReason") == ("exit 1" if ours == "Failed" else None)
    assert (said["DebugRuleEvaluationStatuses"], said["LastModifiedTime"]) == ([], 5)


def test_the_rule_of_the_notification_has_its_state() -> None:
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
        ({"evidence": {"text": "ä" * MAX_BYTES}}, ["evidence"]),
        ({"tensors": (TensorSnapshot("x" * MAX_BYTES),)}, ["evidence", "tensors"]),
        (
            {"rules": tuple(RuleState(f"r{each}", "x", "Error", None, why="y" * 900) for each in range(200))},
            ["evidence", "rules", "tensors"],
        ),
        (
            {"rules": tuple(RuleState(f"r{each}", "x", "Error", None, why="y" * 900) for each in range(900))},
            ["evidence", "rules", "tensors"],
        ),
        ({"message": "z" * MAX_BYTES}, ["evidence", "rules", "tensors"]),
    ],
)
def test_a_large_event_leaves_parts_out_and_lists_them(large: dict[str, Any], left_out: list[str] | None) -> None:
    data = detail(replace(FINDING, **large))
    said = json.loads(data)
    assert len(data) + 14 + len("leadline") + len("SageMaker Training Job State Change") <= MAX_BYTES
    assert said["leadline"].get("left_out") == left_out
    assert said["DebugRuleEvaluationStatuses"][0]["RuleConfigurationName"] == "loud"
    assert len(said["DebugRuleEvaluationStatuses"]) == len(large.get("rules", FINDING.rules)) + ("rules" in large)
    assert said["leadline"]["message"].startswith(large.get("message", FINDING.message)[:1024])


def test_a_training_with_too_many_rules_for_an_event_is_refused() -> None:
    rules = tuple(RuleState(f"r{each}", "x", "Error", None) for each in range(3000))
    with pytest.raises(RejectedError, match="exceeds the 262,144 bytes"):
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
def test_a_failed_entry_in_a_successful_response_is_a_failure(code: str, error: type[Exception]) -> None:
    with http_endpoint(answer({"ErrorCode": code, "ErrorMessage": "no way with the key AKIATEST"})) as endpoint:
        with pytest.raises(error, match=f"^EventBridge answered {code}$"):
            PutEvent(endpoint=endpoint.url).run(make_context())
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
def test_permanent_and_transient_errors_of_amazon(status: int, code: str, error: type[Exception]) -> None:
    body = json.dumps({"__type": code, "message": "because of the key AKIATEST"})
    reply = Reply(status, body, {"Content-Type": "application/x-amz-json-1.1"})
    with http_endpoint(reply) as endpoint, pytest.raises(error, match=f"^EventBridge answered {code}$"):
        PutEvent(endpoint=endpoint.url).run(make_context())
    assert len(endpoint.received) == 1


def test_expired_credentials_are_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = {"Content-Type": "application/x-amz-json-1.1"}
    expired = Reply(400, json.dumps({"__type": "ExpiredTokenException", "message": "too old"}), kind)
    with http_endpoint(answer({"EventId": "1"}), expired, answer({"EventId": "2"})) as endpoint:
        action = PutEvent(endpoint=endpoint.url)
        action.run(make_context())
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANEW")
        with pytest.raises(RetryLaterError, match=r"^EventBridge answered ExpiredTokenException$"):
            action.run(make_context())
        assert action.run(make_context()).outcome.endswith("event 2")
    keys = [each.headers["authorization"].partition("Credential=")[2].split("/")[0] for each in endpoint.received]
    assert keys == ["AKIATEST", "AKIATEST", "AKIANEW"]


def test_an_unreachable_and_a_hanging_endpoint() -> None:
    with pytest.raises(RetryLaterError, match="EndpointConnectionError"):
        PutEvent(endpoint=f"http://127.0.0.1:{free_port()}").run(make_context())
    with http_endpoint(Reply(HANGS)) as endpoint, pytest.raises(RetryLaterError, match="ReadTimeoutError"):
        PutEvent(endpoint=endpoint.url, timeout=1.0).run(make_context())


def test_a_dry_run_puts_nothing() -> None:
    with http_endpoint() as endpoint:
        said = PutEvent(bus="training", endpoint=endpoint.url, dry_run=True).describe(make_context())
    assert said == "would put loud/opened/1313 on the bus training"
    assert endpoint.received == []


def test_invalid_targets_are_refused_before_the_start(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PutEvent(endpoint=server).check()
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:\d+ cannot be reached: connection refused"):
        PutEvent(endpoint=f"http://127.0.0.1:{free_port()}").check()
    with pytest.raises(ConfigurationError, match="put_event: endpoint is not a URL; write https://host"):
        PutEvent(endpoint="host").check()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(ConfigurationError, match="put_event: no AWS credentials; set AWS_PROFILE"):
        PutEvent(endpoint=server).check()
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigurationError, match="put_event: the AWS region is unknown"):
        PutEvent(endpoint=server).check()
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigurationError, match=r"put_event: ProfileNotFound; see the AWS profile in use"):
        PutEvent(endpoint=server).check()


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3.session", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'leadline\[aws\]'"):
        PutEvent().check()
