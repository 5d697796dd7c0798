"""A notice in the shape of Amazon's event "SageMaker Training Job State Change"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from leadline.actions.action import RejectedError
from leadline.records.notification import Notification, RuleState
from leadline.store.documents import encode

SOURCE: Final = "leadline"
DETAIL_TYPE: Final = "SageMaker Training Job State Change"
MOST_BYTES: Final = 256 * 1024
"""Of one entry with everything that counts."""
_TIME_BYTES: Final = 14
_DETAILS_CHARACTERS: Final = 1024
"""Of a text, as in Amazon's own."""

_JOB: Final = {"Starting": "InProgress", "Interrupted": "Stopped"}
"""Our statuses of a job that Amazon has not, as TrainingJobStatus."""
_SECONDARY: Final = {"InProgress": "Training"}
"""Statuses that Amazon's SecondaryStatus calls something else."""
_SHRINKING: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"evidence": {}},
    {"evidence": {}, "tensors": ()},
    {"evidence": {}, "tensors": (), "rules": ()},
)
"""What of the notice is left out in turn, until it fits."""


def detail(notice: Notification, most_bytes: int = MOST_BYTES) -> bytes:
    """The event's detail as JSON: Amazon's fields, and the notice itself under ``leadline``.

    Of a notice that is too large, evidence, tensors and rules are left out in this order, and ``leadline.left_out``
    names them; Amazon's fields stay, with shorter texts where nothing else helps.

    Args:
        most_bytes: Of the whole entry, counted as Amazon counts.
    Raises:
        RejectedError: It is too large all the same.
    """
    most = most_bytes - _TIME_BYTES - len(SOURCE) - len(DETAIL_TYPE)
    for given in _SHRINKING:
        data = _encoded(notice, given, _DETAILS_CHARACTERS)
        if len(data) <= most:
            return data
    for most_characters in (100, 0):
        data = _encoded(_cut(notice), _SHRINKING[-1], most_characters)
        if len(data) <= most:
            return data
    raise RejectedError(f"the event is larger than the {most_bytes:,} bytes that EventBridge takes")


def _encoded(notice: Notification, without: Mapping[str, Any], most_characters: int) -> bytes:
    ours = replace(notice, **without).to_dict()
    if without:
        ours["left_out"] = sorted(without)
    return encode({**_amazons(notice, most_characters), "leadline": ours})


def _cut(notice: Notification) -> Notification:
    texts = {name: getattr(notice, name)[:_DETAILS_CHARACTERS] for name in ("message", "suggestion", "why")}
    return replace(notice, **texts)


def _amazons(notice: Notification, most_characters: int) -> dict[str, Any]:
    status = notice.job_status
    said: dict[str, Any] = {
        "TrainingJobName": notice.run,
        "TrainingJobArn": f"arn:leadline:training:::training-job/{notice.run}",
        "TrainingJobStatus": _JOB.get(status, status),
        "SecondaryStatus": _SECONDARY.get(status, status),
        "CreationTime": _milliseconds(notice.started_ns),
        "TrainingStartTime": _milliseconds(notice.started_ns),
        "LastModifiedTime": _milliseconds(notice.time_ns),
        "DebugRuleEvaluationStatuses": [_rule(notice, each, most_characters) for each in _states(notice)],
    }
    if status == "Failed":
        said["FailureReason"] = (notice.message or notice.why)[:_DETAILS_CHARACTERS]
    return said


def _states(notice: Notification) -> list[RuleState]:
    """All rules as they stand, the notice's own as the notice has it."""
    if notice.rule is None:
        return list(notice.rules)
    mine = next((each for each in notice.rules if each.name == notice.rule), None)
    mine = mine or RuleState(notice.rule, notice.kind_of_rule or notice.rule, notice.status, notice.verdict)
    mine = replace(mine, status=notice.status, why=notice.message or notice.why, updated_ns=notice.time_ns)
    others = [each for each in notice.rules if each.name != notice.rule]
    return [mine, *others]


def _rule(notice: Notification, state: RuleState, most_characters: int) -> dict[str, Any]:
    return {
        "RuleConfigurationName": state.name,
        "RuleEvaluationJobArn": f"arn:leadline:judge:::rule-evaluation/{notice.run}/{state.name}",
        "RuleEvaluationStatus": state.status,
        "StatusDetails": state.why[:most_characters],
        "LastModifiedTime": _milliseconds(state.updated_ns or notice.started_ns),
    }


def _milliseconds(time_ns: int) -> int:
    return time_ns // 1_000_000
