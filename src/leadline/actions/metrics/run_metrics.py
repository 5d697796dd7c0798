"""The gauges of a run: one for each rule, and a few for the job."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from leadline.actions.action import ActionContext
from leadline.reader import liveness
from leadline.records.names import JOB_STATUSES
from leadline.records.notification import Notification, RuleState

GaugeName = Literal["rule_fired", "job_status", "job_step", "job_findings"]
GAUGES: Final[Mapping[GaugeName, str]] = {
    "rule_fired": "1 while an episode of the rule is open, 0 while it is clear; NaN: undecided, not yet, or it failed.",
    "job_status": "1 for the status that the job has, 0 for every other.",
    "job_step": "The last global step that is known to be finished.",
    "job_findings": "How many findings the rules have had so far.",
}
"""What each means, in one sentence."""


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One gauge at one moment."""

    name: GaugeName
    value: float
    labels: dict[str, str] = field(default_factory=dict)
    """What sets it apart from others of its name: ``{"rule": "stall_mail"}``; the run is not among them."""


def rule_value(state: RuleState) -> float:
    """1 where an episode is open, 0 where the rule sees nothing now, NaN where it cannot say."""
    if state.status == "Error":
        return math.nan
    if state.is_open:
        return 1.0
    return 0.0 if state.verdict in ("clear", "fired") else math.nan


class RunMetrics:
    """How the run stands: its rules as the last notice had them, its job as the run directory has it.

    Read by the threads of a server or a repeater while notices come in.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder, self._follows = "", "*"
        self._notice: Notification | None = None
        self._step = -1

    @property
    def run(self) -> str:
        """The run's name; "" before the first notice."""
        with self._lock:
            return self._notice.run if self._notice else ""

    def take(self, occasion: ActionContext) -> None:
        """Take in what a notice says of all rules, and how far the workers are."""
        steps = [each.step for each in occasion.workers]
        steps += [] if occasion.notice.step is None else [occasion.notice.step]
        with self._lock:
            self._folder, self._follows, self._notice = occasion.run, occasion.follows, occasion.notice
            self._step = max([self._step, *steps])

    def samples(self) -> list[MetricSample]:
        """All gauges as they are now; none before the first notice."""
        with self._lock:
            folder, notice, step, follows = self._folder, self._notice, self._step, self._follows
        if notice is None:
            return []
        status = str(liveness.read_status(folder).get("status") or notice.job_status)
        step = max([step, *_steps(folder)])
        # of others nothing would be heard when they change
        rules = [each for each in notice.rules if follows in ("*", each.name)]
        return [
            *(MetricSample("rule_fired", rule_value(each), {"rule": each.name}) for each in rules),
            *(MetricSample("job_status", float(each == status), {"status": each}) for each in JOB_STATUSES),
            *([MetricSample("job_step", float(step))] if step >= 0 else []),
            MetricSample("job_findings", float(sum(each.findings for each in rules))),
        ]


def _steps(folder: str) -> Iterable[int]:
    """How far each worker says that it is."""
    return (int(each.get("step", -1)) for each in liveness.read_workers(folder).values())
