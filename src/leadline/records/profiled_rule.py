"""The result of a profiler rule as it is in JSON: in the product of ``profiler_report``, and in reports."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from leadline.records.json_object import JsonObject


class FirstFinding(TypedDict, total=False):
    """The first finding of a profiler rule; empty: it has none."""

    step: int
    time_ns: int
    message: str
    suggestion: str | None
    evidence: JsonObject
    devices: list[str]


class ProfiledRule(TypedDict):
    """A profiler rule, what it says, and how often it was evaluated."""

    rule: str
    verdict: str
    times_triggered: int
    moments: int | None
    """The evaluations on which it was clear or fired; None: not known."""
    moments_fired: NotRequired[int]
    parameters: JsonObject
    why: str
    first: FirstFinding
