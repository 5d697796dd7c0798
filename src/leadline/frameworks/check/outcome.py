"""What a probe returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from leadline.records.check_result import CheckResult, Outcome
from leadline.records.json_object import JsonObject


class NotRepeatableError(Exception):
    """The step cannot be repeated for tests, in one line."""


@dataclass(frozen=True, slots=True)
class Tested:
    """The outcome of a probe."""

    outcome: Outcome
    message: str
    advice: str = ""
    evidence: JsonObject = field(default_factory=dict)


def passed(message: str, **evidence: Any) -> Tested:
    """Return the outcome of a probe that has found nothing wrong."""
    return Tested("passed", message, evidence=evidence)


def failed(message: str, advice: str, **evidence: Any) -> Tested:
    """Return the outcome of a probe that has found something wrong."""
    return Tested("failed", message, advice, evidence)


def not_applicable(why: str) -> Tested:
    """Return the outcome of a probe that this training has nothing for."""
    return Tested("not applicable", why)


def one_line(error: Exception) -> str:
    """Return an exception in one short line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}"


def make_probe(name: str, probe: Callable[[], Tested], step: int) -> CheckResult:
    """Make a probe; one that raises is not applicable.

    Args:
        step: The train step that is tested.
    """
    begun = time.perf_counter()
    try:
        tested = probe()
    except Exception as error:  # noqa: BLE001 - a probe calls the code of the user in ways it was not written for
        tested = not_applicable(f"the model could not be called as this probe does: {one_line(error)}")
    seconds = round(time.perf_counter() - begun, 3)
    return CheckResult(
        name, tested.outcome, tested.message, step, tested.advice, tested.evidence, seconds, time.time_ns()
    )


def without_results(probes: list[str], why: str, step: int) -> list[CheckResult]:
    """Return that probes are not applicable, all for one reason."""
    now_ns = time.time_ns()
    return [CheckResult(probe, "not applicable", why, step, time_ns=now_ns) for probe in probes]
