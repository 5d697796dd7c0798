"""The action put_event, and a notification in the format of Amazon's "SageMaker Training Job State Change"."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, NotRequired, TypedDict

from leadline.actions import aws
from leadline.actions.action import Action, ActionContext, Outcome, RejectedError
from leadline.actions.http_client import check_reachable
from leadline.records.names import EVERY_STATUS
from leadline.records.notification import Notification, RuleState
from leadline.store.documents import encode

_PROBE_SECONDS: Final = 5.0
_NAME: Final = "put_event"
_clients: dict[PutEvent, Any] = {}
"""The client of each action, created at its first notification: that takes ten times as long as a call."""
_last: dict[tuple[PutEvent, str], Any] = {}
"""The statuses of the last event of each action and run."""
SOURCE: Final = "leadline"
DETAIL_TYPE: Final = "SageMaker Training Job State Change"
MAX_BYTES: Final = 256 * 1024
"""The size limit of one entry, with everything that counts."""
_TIME_BYTES: Final = 14
_DETAILS_CHARACTERS: Final = 1024
"""The length limit of a text, as in Amazon's own events."""

_JOB: Final = {"Starting": "InProgress", "Interrupted": "Stopped"}
"""The TrainingJobStatus of statuses that Amazon does not have."""
_SECONDARY: Final = {"InProgress": "Training"}
"""The SecondaryStatus of statuses that Amazon calls differently there."""
_STATUS_KINDS: Final = ("rule_status", "job_status")
_OMISSIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"evidence": {}},
    {"evidence": {}, "tensors": ()},
    {"evidence": {}, "tensors": (), "rules": ()},
)
"""What is left out of the notification in turn, until it fits."""


class PutEvent(Action, frozen=True, kw_only=True):
    """Puts every notification on a bus of Amazon EventBridge, in the format of SageMaker's own events.

    The `detail-type` of the event is `SageMaker Training Job State Change`. Its `detail` contains TrainingJobName,
    TrainingJobStatus, SecondaryStatus and DebugRuleEvaluationStatuses like Amazon's, and the notification itself
    ([events.md](events.md)) under `leadline`. Only Amazon may use sources that begin with `aws.`; Leadline's is
    `leadline`. In the pattern of an existing rule replace `"source": ["aws.sagemaker"]` by
    `"source": ["aws.sagemaker", "leadline"]`; the Lambda behind it reads the same fields as before, but stops a run by
    `leadline stop` where it called `stop_training_job`.

    By default every status is followed: `--on '*=put_event'` sends an event for each finding that opens or closes, and
    whenever the status of the job or of rules changes, as SageMaker does: what changes at once is one event, which
    lists all rules, and a change of a verdict alone is none. boto3 finds the credentials, which need
    `events:PutEvents`. If an event exceeds 256 kB, evidence, tensors and rules are left out in this order, and listed
    in `leadline.left_out`.

    Args:
        bus: Name or ARN of the event bus.
        region: Region of the bus; empty: that of the environment or the profile.
        endpoint: An endpoint other than Amazon's own, such as a VPC endpoint; empty: Amazon's.
        probe: Whether to check credentials and connection before the training starts.
    """

    target: ClassVar[str | None] = "bus"
    statuses: ClassVar[tuple[str, ...]] = (EVERY_STATUS,)
    extra: ClassVar[str | None] = "aws"

    bus: str = "default"
    region: str = ""
    endpoint: str = ""
    probe: bool = True

    def check(self) -> None:
        with closing(self._client()) as client:
            host, port, scheme = aws.endpoint_address(client)
        if self.probe and not self.dry_run:
            aws.check_credentials(_NAME)
            check_reachable(host, port, min(self.timeout, _PROBE_SECONDS), scheme=scheme)

    def describe(self, context: ActionContext) -> str:
        return f"would put {context.notification.id} on the bus {self.bus}"

    def run(self, context: ActionContext) -> Outcome:
        notification = context.notification
        key, statuses = (self, notification.uri), _statuses(notification)
        if notification.kind in _STATUS_KINDS and _last.get(key) == statuses:
            return Outcome("no status has changed since the last event", is_nothing=True)
        moment = datetime.fromtimestamp(notification.time_ns / 1e9, tz=UTC)
        entry: EventEntry = {
            "Time": moment,
            "Source": SOURCE,
            "DetailType": DETAIL_TYPE,
            "Detail": detail(notification).decode(),
            "EventBusName": self.bus,
        }
        identity = self._put(entry)
        _last[key] = statuses
        return Outcome(f"put on the bus {self.bus}: event {identity}")

    def _put(self, entry: EventEntry) -> str:
        """Put one event on the bus, and return its id.

        Raises:
            RejectedError: Amazon refused it for good.
            RetryLaterError: It failed, and a retry may succeed.
        """
        client = _clients.get(self) or _clients.setdefault(self, self._client())
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = client.put_events(Entries=[entry])
        except (BotoCoreError, ClientError) as error:
            self.close()  # the next attempt searches for credentials again
            raise aws.translate_error("EventBridge", error) from error
        (result,) = answer["Entries"]
        if answer.get("FailedEntryCount"):
            raise aws.error_for_code("EventBridge", str(result.get("ErrorCode")))
        return str(result["EventId"])

    def close(self) -> None:
        client = _clients.pop(self, None)
        if client is not None:
            client.close()

    def _client(self) -> Any:
        return aws.make_client("events", action=_NAME, region=self.region, endpoint=self.endpoint, seconds=self.timeout)


class EventEntry(TypedDict):
    """An event as EventBridge takes it."""

    Time: datetime
    Source: str
    DetailType: str
    Detail: str
    EventBusName: str


class EvaluatedRule(TypedDict):
    """The status of a rule as Amazon's events have it; times are milliseconds since the epoch."""

    RuleConfigurationName: str
    RuleEvaluationJobArn: str
    RuleEvaluationStatus: str
    StatusDetails: str
    LastModifiedTime: int


class JobChange(TypedDict):
    """The detail of Amazon's event of a training job."""

    TrainingJobName: str
    TrainingJobArn: str
    TrainingJobStatus: str
    SecondaryStatus: str
    CreationTime: int
    TrainingStartTime: int
    LastModifiedTime: int
    FailureReason: NotRequired[str]
    DebugRuleEvaluationStatuses: list[EvaluatedRule]


def _statuses(notification: Notification) -> tuple[object, ...]:
    """Return all statuses that an event of a notification contains."""
    return notification.job_status, {state.name: state.status for state in _states(notification)}


def detail(notification: Notification, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the detail of the event as JSON: Amazon's fields, and the notification itself under ``leadline``.

    If it is too large, evidence, tensors and rules are left out in this order, and ``leadline.left_out`` lists them;
    Amazon's fields remain, with shorter texts if nothing else helps.

    Args:
        max_bytes: The size limit of the whole entry, counted as Amazon counts.
    Raises:
        RejectedError: It is too large anyway.
    """
    limit = max_bytes - _TIME_BYTES - len(SOURCE) - len(DETAIL_TYPE)
    for omission in _OMISSIONS:
        data = _encoded(notification, omission, _DETAILS_CHARACTERS)
        if len(data) <= limit:
            return data
    for max_characters in (100, 0):
        data = _encoded(_cut(notification), _OMISSIONS[-1], max_characters)
        if len(data) <= limit:
            return data
    raise RejectedError(f"the event exceeds the {max_bytes:,} bytes that EventBridge accepts")


def _encoded(notification: Notification, without: Mapping[str, Any], max_characters: int) -> bytes:
    ours = replace(notification, **without).to_dict()
    if without:
        ours["left_out"] = sorted(without)
    return encode({**_amazon_fields(notification, max_characters), "leadline": ours})


def _cut(notification: Notification) -> Notification:
    texts = {name: getattr(notification, name)[:_DETAILS_CHARACTERS] for name in ("message", "suggestion", "why")}
    return replace(notification, **texts)


def _amazon_fields(notification: Notification, max_characters: int) -> JobChange:
    status = notification.job_status
    fields: JobChange = {
        "TrainingJobName": notification.run,
        "TrainingJobArn": f"arn:leadline:training:::training-job/{notification.run}",
        "TrainingJobStatus": _JOB.get(status, status),
        "SecondaryStatus": _SECONDARY.get(status, status),
        "CreationTime": _milliseconds(notification.started_ns),
        "TrainingStartTime": _milliseconds(notification.started_ns),
        "LastModifiedTime": _milliseconds(notification.time_ns),
        "DebugRuleEvaluationStatuses": [_rule(notification, state, max_characters) for state in _states(notification)],
    }
    if status == "Failed":
        fields["FailureReason"] = (notification.message or notification.why)[:_DETAILS_CHARACTERS]
    return fields


def _states(notification: Notification) -> list[RuleState]:
    """Return the states of all rules, that of the notification's own rule updated from the notification."""
    if notification.rule is None:
        return list(notification.rules)
    state = next((state for state in notification.rules if state.name == notification.rule), None)
    state = state or RuleState(
        notification.rule, notification.kind_of_rule or notification.rule, notification.status, notification.verdict
    )
    state = replace(
        state, status=notification.status, why=notification.message or notification.why, updated_ns=notification.time_ns
    )
    others = [other for other in notification.rules if other.name != notification.rule]
    return [state, *others]


def _rule(notification: Notification, state: RuleState, max_characters: int) -> EvaluatedRule:
    return {
        "RuleConfigurationName": state.name,
        "RuleEvaluationJobArn": f"arn:leadline:judge:::rule-evaluation/{notification.run}/{state.name}",
        "RuleEvaluationStatus": state.status,
        "StatusDetails": state.why[:max_characters],
        "LastModifiedTime": _milliseconds(state.updated_ns or notification.started_ns),
    }


def _milliseconds(time_ns: int) -> int:
    return time_ns // 1_000_000
