"""The delivery of notifications to actions: attempts, policy, rate limit, and what actions need to know of the job."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from leadline.actions.action import Action, Outcome, TrainingProgress
from leadline.records.documents import LoggedAction, WorkerDocument
from leadline.records.notification import Notification

_MAX_POINTS: Final = 16

MAX_WAIT_SECONDS: Final = 60.0

Result = Literal["asked", "done", "failed", "given up", "dry run", "skipped"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The parameters for repetition, retries and timeout that every action has; plain JSON values."""

    dry_run: bool
    cooldown: float
    """Seconds."""
    is_once: bool
    retries: int
    backoff: float
    """Seconds."""
    timeout: float
    """Seconds."""

    @classmethod
    def of(cls, action: Action) -> RetryPolicy:
        """Return the policy of an action."""
        is_once = action.episodes == "once"
        return cls(action.dry_run, action.cooldown, is_once, action.retries, action.backoff, action.timeout)


@dataclass(slots=True)
class Delivery:
    """One notification for one action."""

    notification: Notification
    attempts: int = 0
    why: str = ""
    """Why the last attempt failed."""
    not_before: float = 0.0
    """When the next attempt may start, on the monotonic clock."""
    known: LoggedAction | None = None
    """The last line that an earlier judge logged for it."""
    announcement: str | None = None
    """What is to be announced of it in the terminal."""

    @property
    def was_done(self) -> bool:
        """Whether an earlier judge delivered it."""
        return self.known is not None and (self.known.is_final or self.known.request is not None)

    def fail(self, policy: RetryPolicy, now: float, why: str, after_seconds: float | None = None) -> bool:
        """Record a failed attempt, and return whether another one follows."""
        wait = min(MAX_WAIT_SECONDS, policy.backoff * 2.0 ** min(self.attempts - 1, 30))
        self.not_before = now + max(wait, min(MAX_WAIT_SECONDS, after_seconds or 0.0))
        self.why = why
        return self.attempts <= policy.retries

    @property
    def failure(self) -> str:
        """The final failure, for the action log."""
        attempts = "" if self.attempts <= 1 else f" after {self.attempts} attempts"
        return f"failed{attempts}: {self.why}"


Report = Callable[[Delivery, Result, Outcome], None]
"""Called with every result of a delivery."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """What the actions need to know of the job, and how they announce something in its terminal."""

    workers: Callable[[], tuple[TrainingProgress, ...]]
    """Returns the workers that are running."""
    accepts_requests: Callable[[str], bool]
    """Returns whether requests to a place (``worker``, ``agent``) are still accepted."""
    announce: Callable[[str, str, bool], None]
    """Called with rule, message and whether it is a failure, to announce it in the terminal."""


class RateLimit:
    """Suppresses findings of a rule: all but the first, or those within the cool-down.

    Other notifications are never suppressed, except that a finding was closed whose opening was.
    """

    def __init__(self) -> None:
        self._done: dict[str | None, int] = {}
        self._skipped: set[str] = set()

    def record_delivered(self, notification: Notification) -> None:
        """Record that a finding was delivered."""
        if notification.kind == "finding":
            self._done[notification.rule] = notification.time_ns

    def record_skipped(self, notification: Notification) -> None:
        """Record that a finding was suppressed; so will be its closing."""
        self._skipped.add(notification.id.replace("/opened/", "/closed/"))

    def reason_to_skip(self, notification: Notification, policy: RetryPolicy) -> str:
        """Return why a notification is suppressed; empty: it is not."""
        if notification.kind == "closed" and notification.id in self._skipped:
            return "its opening was not delivered"
        if notification.kind != "finding" or notification.rule not in self._done:
            return ""
        if policy.is_once:
            return "only the first finding of a rule is delivered"
        elapsed = (notification.time_ns - self._done[notification.rule]) / 1e9
        return f"within the cool-down of {policy.cooldown:g} s" if 0 <= elapsed < policy.cooldown else ""


class WorkerProgress:
    """The last steps of each worker, and the speed computed from them."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[int, int]]] = {}

    def update(self, seen: Mapping[str, Sequence[int]]) -> None:
        """Record the last known step of each worker, and its time."""
        for worker, (step, time_ns) in seen.items():
            points = self._points.setdefault(worker, deque(maxlen=_MAX_POINTS))
            if not points or points[-1][0] < step:
                points.append((step, time_ns))

    def progress(self, workers: Mapping[str, WorkerDocument], gone: Iterable[str]) -> tuple[TrainingProgress, ...]:
        """Return the progress of running workers; a worker's document may know a later step than its stream."""
        running = (set(workers) | set(self._points)) - set(gone)
        return tuple(self._of(worker, workers.get(worker, WorkerDocument())) for worker in sorted(running))

    def _of(self, worker: str, document: WorkerDocument) -> TrainingProgress:
        points = self._points.get(worker) or deque([(-1, 0)])
        (first, first_ns), (last, last_ns) = points[0], points[-1]
        is_average = last <= first  # all that is known was read at once, as where a judge begins beside a training
        if is_average:
            seconds = document.loop_ns / 1e9 / max(1, document.step + 1)
        else:
            seconds = (last_ns - first_ns) / 1e9 / (last - first)
        reported = (document.step, document.time_ns)
        step, time_ns = max((last, last_ns), reported)
        train_step = document.train_step + step - document.step
        return TrainingProgress(worker, step, time_ns, max(0.0, seconds), train_step, is_average)
