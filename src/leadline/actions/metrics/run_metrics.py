"""The gauges of a run, for its rules and its job."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from leadline.actions.action import ActionContext
from leadline.records.documents import RunStatus
from leadline.records.names import JOB_STATUSES
from leadline.records.notification import Notification
from leadline.store.run_state import read_status, read_workers

GaugeName = Literal["rule_fired", "job_status", "job_step", "job_findings"]
GAUGES: Final[Mapping[GaugeName, str]] = {
    "rule_fired": "1 while a finding of the rule is open, 0 while it is clear, NaN while undecided or failed.",
    "job_status": "1 for the current status of the job, 0 for every other.",
    "job_step": "The last train step that is known to be complete.",
    "job_findings": "The number of findings so far.",
}
"""The help text of each gauge."""


@dataclass(frozen=True, slots=True)
class MetricSample:
    """The value of one gauge at one moment."""

    name: GaugeName
    value: float
    labels: dict[str, str] = field(default_factory=dict)
    """The labels that distinguish it from others of its name: ``{"rule": "stall_mail"}``, without the run."""


class RunMetrics:
    """The current state of a run: its rules from the last notification, its job from the run directory.

    Thread-safe: read by the threads of a server or a publisher while notifications arrive.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder, self._follows = "", "*"
        self._notification: Notification | None = None
        self._step = -1

    @property
    def run(self) -> str:
        """The name of the run; empty before the first notification."""
        with self._lock:
            return self._notification.run if self._notification else ""

    def take(self, context: ActionContext) -> None:
        """Update from a notification and the progress of the workers."""
        steps = [worker.train_step for worker in context.workers]
        steps += [] if context.notification.step is None else [context.notification.step]
        with self._lock:
            self._folder, self._follows, self._notification = context.run, context.follows, context.notification
            self._step = max([self._step, *steps])

    def samples(self) -> list[MetricSample]:
        """Return all gauges as they are now; none before the first notification."""
        with self._lock:
            folder, notification, step, follows = self._folder, self._notification, self._step, self._follows
        if notification is None:
            return []
        stored = read_status(folder)
        status = notification.job_status if stored == RunStatus() else stored.status
        step = max([step, *_steps(folder)])
        # changes of rules that the action does not follow would not be noticed
        rules = [rule for rule in notification.rules if follows in ("*", rule.name)]
        return [
            *(MetricSample("rule_fired", rule.value, {"rule": rule.name}) for rule in rules),
            *(MetricSample("job_status", float(name == status), {"status": name}) for name in JOB_STATUSES),
            *([MetricSample("job_step", float(step))] if step >= 0 else []),
            MetricSample("job_findings", float(sum(rule.findings for rule in rules))),
        ]


def _steps(folder: str) -> Iterable[int]:
    """Return the step of each worker, from its document."""
    return (document.train_step for document in read_workers(folder).values())
