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


def detail(notice: Notification, max_bytes: int = MAX_BYTES) -> bytes:
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
        data = _encoded(notice, omission, _DETAILS_CHARACTERS)
        if len(data) <= limit:
            return data
    for max_characters in (100, 0):
        data = _encoded(_cut(notice), _OMISSIONS[-1], max_characters)
        if len(data) <= limit:
            return data
    raise RejectedError(f"the event exceeds the {max_bytes:,} bytes that EventBridge accepts")


def _encoded(notice: Notification, without: Mapping[str, Any], max_characters: int) -> bytes:
    ours = replace(notice, **without).to_dict()
    if without:
        ours["left_out"] = sorted(without)
    return encode({**_amazon_fields(notice, max_characters), "leadline": ours})


def _cut(notice: Notification) -> Notification:
    texts = {name: getattr(notice, name)[:_DETAILS_CHARACTERS] for name in ("message", "suggestion", "why")}
    return replace(notice, **texts)


def _amazon_fields(notice: Notification, max_characters: int) -> dict[str, Any]:
    status = notice.job_status
    fields: dict[str, Any] = {
        "TrainingJobName": notice.run,
        "TrainingJobArn": f"arn:leadline:training:::training-job/{notice.run}",
        "TrainingJobStatus": _JOB.get(status, status),
        "SecondaryStatus": _SECONDARY.get(status, status),
        "CreationTime": _milliseconds(notice.started_ns),
        "TrainingStartTime": _milliseconds(notice.started_ns),
        "LastModifiedTime": _milliseconds(notice.time_ns),
        "DebugRuleEvaluationStatuses": [_rule(notice, state, max_characters) for state in _states(notice)],
    }
    if status == "Failed":
        fields["FailureReason"] = (notice.message or notice.why)[:_DETAILS_CHARACTERS]
    return fields


def _states(notice: Notification) -> list[RuleState]:
    """Return the states of all rules, that of the notification's own rule updated from the notification."""
    if notice.rule is None:
        return list(notice.rules)
    state = next((state for state in notice.rules if state.name == notice.rule), None)
    state = state or RuleState(notice.rule, notice.kind_of_rule or notice.rule, notice.status, notice.verdict)
    state = replace(state, status=notice.status, why=notice.message or notice.why, updated_ns=notice.time_ns)
    others = [other for other in notice.rules if other.name != notice.rule]
    return [state, *others]


def _rule(notice: Notification, state: RuleState, max_characters: int) -> dict[str, Any]:
    return {
        "RuleConfigurationName": state.name,
        "RuleEvaluationJobArn": f"arn:leadline:judge:::rule-evaluation/{notice.run}/{state.name}",
        "RuleEvaluationStatus": state.status,
        "StatusDetails": state.why[:max_characters],
        "LastModifiedTime": _milliseconds(state.updated_ns or notice.started_ns),
    }


def _milliseconds(time_ns: int) -> int:
    return time_ns // 1_000_000
