"""A notification in the format of Amazon's event "SageMaker Training Job State Change"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from leadline.actions.action import RejectedError
from leadline.records.notification import Notification, RuleState
from leadline.store.documents import encode

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
_OMISSIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"evidence": {}},
    {"evidence": {}, "tensors": ()},
    {"evidence": {}, "tensors": (), "rules": ()},
)
"""What is left out of the notification in turn, until it fits."""


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


def _amazon_fields(notification: Notification, max_characters: int) -> dict[str, Any]:
    status = notification.job_status
    fields: dict[str, Any] = {
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


def _rule(notification: Notification, state: RuleState, max_characters: int) -> dict[str, Any]:
    return {
        "RuleConfigurationName": state.name,
        "RuleEvaluationJobArn": f"arn:leadline:judge:::rule-evaluation/{notification.run}/{state.name}",
        "RuleEvaluationStatus": state.status,
        "StatusDetails": state.why[:max_characters],
        "LastModifiedTime": _milliseconds(state.updated_ns or notification.started_ns),
    }


def _milliseconds(time_ns: int) -> int:
    return time_ns // 1_000_000
