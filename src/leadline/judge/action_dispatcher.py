"""Doing what a run asks to be done about what happens in it: who is told of what, once each, and what came of it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.actions.action import Outcome, TrainingProgress
from leadline.actions.registry import canonical, find_action, is_built_in, make_action
from leadline.errors import LeadlineError
from leadline.judge.action_queue import ActionQueue
from leadline.judge.delivery import Delivery, DeliveryQueue, Report, Result
from leadline.judge.inline_actions import InlineQueue
from leadline.records.manifest import ActionSpec, Manifest
from leadline.records.names import EVERY_STATUS, JOB
from leadline.records.notification import Notification
from leadline.store import layout
from leadline.store.actions import last_lines
from leadline.store.documents import append_line

_LOG = logging.getLogger(__name__)
_MOST_TOLD: Final = 3
"""Failures of one action beyond so many are written down, not told in the terminal."""


@dataclass(slots=True)
class _Entry:
    """One ``--on``."""

    lane: DeliveryQueue
    name: str
    """As it is spoken."""
    place: int
    """How many before it are spoken the same."""
    followed: set[str] = field(default_factory=set)
    """Ids of the notices that were handed to it."""
    failures: int = 0
    announced: set[str] = field(default_factory=set)
    """What the terminal was told of it."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """What acting must know of the run beyond the notices."""

    workers: Callable[[], tuple[TrainingProgress, ...]]
    """Those that still run."""
    can_be_heard: Callable[[str], bool]
    """Whether somebody is still there who takes up requests to a place: ``worker``, ``agent``."""
    tell: Callable[[str, str, bool], None]
    """Told what the terminal shall say: of whom, what, and whether it is a failure."""


class ActionDispatcher:
    """The actions of a run.

    Args:
        manifest: Whose actions they are.
        is_acting: Whether anything is done.
    """

    def __init__(self, run: str, manifest: Manifest, around: JobContext, *, is_acting: bool = True) -> None:
        self._run, self._manifest, self._around = run, manifest, around
        self._path = os.path.join(run, layout.ACTIONS)
        self._unwritten: list[dict[str, Any]] = []
        self._before = last_lines(run) if is_acting else {}
        self._entries: list[_Entry] = []
        for spec in manifest.actions if is_acting else ():
            self._add(spec)

    @property
    def wants_statuses(self) -> bool:
        """Whether somebody wants to be told of more than findings."""
        specs = (each.lane.spec for each in self._entries)
        return any(spec.rule == JOB or tuple(spec.statuses) != ("IssuesFound",) for spec in specs)

    @property
    def lanes(self) -> list[DeliveryQueue]:
        """The actions, each with what waits for it."""
        return [each.lane for each in self._entries]

    @property
    def pending(self) -> list[str]:
        """The actions for which something waits, as they are spoken."""
        return list(dict.fromkeys(each.name for each in self._entries if each.lane.pending))

    def imply(self, alias: str, actions: Iterable[str]) -> None:
        """A rule's own parameters ask for actions."""
        for action in actions:
            specs = [each.lane.spec for each in self._entries]
            if not any(each.rule in ("*", alias) and canonical(each.action) == canonical(action) for each in specs):
                self._add(ActionSpec(alias, action))

    def follow(self, notice: Notification) -> str | None:
        """Do what follows a notice; what the terminal shall say behind a finding.

        What a judge before this one did is not done again: a notice's id is the same whoever judges.
        """
        told = None
        for entry in self._entries:
            if _matches(entry.lane.spec, notice) and notice.id not in entry.followed:
                entry.followed.add(notice.id)
                told = self._hand_on(entry, notice) or told
        return told

    def _hand_on(self, entry: _Entry, notice: Notification) -> str | None:
        known = self._before.get((notice.id, entry.name, entry.place))
        if known is None and isinstance(entry.lane, ActionQueue):
            self._write_line(entry, Delivery(notice), "asked", Outcome("under way"))
        return entry.lane.add(notice, known)

    def turn(self) -> None:
        """Do what is due; nothing here takes time."""
        now = time.monotonic()
        for lane in self.lanes:
            lane.turn(now)
        if self._unwritten:
            self.write()

    def give_up(self, why: str) -> None:
        """Nothing more is tried; what was not delivered is written down as such."""
        for lane in self.lanes:
            lane.give_up(why)
        self.write()

    def close(self) -> None:
        """No notice comes any more."""
        for lane in self.lanes:
            lane.close()

    def _add(self, spec: ActionSpec) -> None:
        name = spoken(spec)
        place = sum(each.name == name for each in self._entries)

        def report(delivery: Delivery, result: Result, outcome: Outcome) -> None:
            self._write_line(entry, delivery, result, outcome)
            if isinstance(entry.lane, ActionQueue) or result != "done":
                self._tell(entry, delivery.notice, result, outcome)

        entry = _Entry(self._lane(spec, report), name, place)
        self._entries.append(entry)

    def _lane(self, spec: ActionSpec, report: Report) -> DeliveryQueue:
        """Built-in actions that only ask others run here; all others, and every stranger's, in a courier."""
        around, is_volatile = self._around, None
        try:
            if is_built_in(spec.action):
                is_volatile = find_action(spec.action).is_volatile
            if is_built_in(spec.action) and find_action(spec.action).place != "judge":
                action = make_action(spec.action, spec.parameters)
                return InlineQueue(spec, action, self._run, report, around.workers, around.can_be_heard)
        except LeadlineError as error:
            _LOG.info("%s cannot be made here; its courier says so: %s", spec.action, error)
        folder = spec.folder or self._manifest.folder
        order = {
            "run": self._run,
            "follows": spec.rule,
            "action": spec.action,
            "parameters": spec.parameters,
            "folder": folder,
        }
        return ActionQueue(spec, order, report, around.workers, is_volatile=is_volatile)

    def _write_line(self, entry: _Entry, delivery: Delivery, result: Result, outcome: Outcome) -> None:
        notice = delivery.notice
        line = {
            "rule": notice.rule or JOB,
            "action": entry.name,
            "outcome": outcome.outcome,
            "state": result,
            "time_ns": time.time_ns(),
            "step": outcome.step,
            "request": outcome.request,
            "finding": notice.step if notice.kind == "finding" else None,
            "notice": notice.id,
            "attempts": delivery.attempts,
        }
        self._unwritten.append(line if entry.place == 0 else {**line, "entry": entry.place})
        self.write()

    def _tell(self, entry: _Entry, notice: Notification, result: Result, outcome: Outcome) -> None:
        """What failed for good is said in the terminal, the first few times; so is what a courier has to say."""
        who = notice.rule or JOB
        if result in ("failed", "given up"):
            entry.failures += 1
            if entry.failures <= _MOST_TOLD:
                self._around.tell(who, f"{entry.name} {outcome.outcome}", True)
            elif entry.failures == _MOST_TOLD + 1:
                self._around.tell(who, f"{entry.name}: further failures are not told one by one", True)
        elif result == "done" and outcome.announcement and outcome.announcement not in entry.announced:
            entry.announced.add(outcome.announcement)
            self._around.tell(who, f"{entry.name}: {outcome.announcement}", False)

    def write(self) -> None:
        """Write down what was done; what the disk refuses is kept for the next call."""
        try:
            while self._unwritten:
                append_line(self._path, self._unwritten[0])
                del self._unwritten[0]
        except OSError as error:
            _LOG.info("actions.jsonl could not be written; it is tried again: %s", error)


def spoken(spec: ActionSpec) -> str:
    """An action as people are told of it: ``notify:$MAIL``."""
    return spec.spoken or canonical(spec.action)


def _matches(spec: ActionSpec, notice: Notification) -> bool:
    """Whether an action follows a notice.

    ``*`` as the rule is every rule, and the job too where every status is asked for. A rule's status is followed when
    it is reached; with every status asked for, also what else changes: its verdict, closings.
    """
    is_every = EVERY_STATUS in spec.statuses
    if notice.rule is None:
        return (spec.rule == JOB or (spec.rule == "*" and is_every)) and spec.follows(notice.status)
    if spec.rule not in ("*", notice.rule):
        return False
    is_reached = notice.kind == "finding" or (notice.kind == "rule_status" and notice.previous != notice.status)
    return is_every or (is_reached and spec.follows(notice.status))
