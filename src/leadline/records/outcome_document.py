"""The outcome of a run as it is in JSON: what ``leadline show``, ``ls`` and ``compare`` print with ``--json``."""

from __future__ import annotations

from typing import TypedDict

from leadline.records.json_object import JsonObject
from leadline.records.names import Severity


class RankedRule(TypedDict):
    """The first finding of a rule that fired."""

    name: str
    rule: str
    severity: Severity
    step: int | None
    since_step: int | None
    last_step: int | None
    is_open: bool
    message: str | None
    suggestion: str | None
    explained_by: str | None


class RankedProblem(RankedRule):
    """A finding that no other one explains, with those that follow from it."""

    explains: list[RankedRule]


class OutcomeDocument(TypedDict):
    """See ``RunOutcome``."""

    text: str
    word: str
    level: str
    headline: str
    cause: str | None
    first_sign: str
    advice: str
    note: str
    rules: dict[str, int]
    """The number of rules by state, as in ``RuleCounts``."""
    findings_ranked: list[RankedProblem]
    remarks: list[str]
    possible_causes: list[str]
    best_evaluation: str | None
    capture_ended: JsonObject | None
    """A ``DisabledCapture``."""
