"""Dispatch of notifications to the actions of a run, and the log of their outcomes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from leadline.actions.action import Outcome
from leadline.actions.registry import canonical, find_action, is_built_in
from leadline.judge.action_queue import ActionQueue
from leadline.judge.action_transports import ActionProcess, InlineAction
from leadline.judge.delivery import Delivery, JobContext, Report, Result
from leadline.judge.worker_messages import ActionSetup
from leadline.records.documents import LoggedAction
from leadline.records.manifest import ActionSpec, Manifest
from leadline.records.names import EVERY_STATUS, JOB
from leadline.records.notification import Notification
from leadline.store import layout
from leadline.store.control import latest_entries
from leadline.store.documents import append_line

_LOG = logging.getLogger(__name__)
_MAX_ANNOUNCED: Final = 3
"""So many failures and so many dry runs of one action are announced in the terminal; all of them are logged."""


@dataclass(slots=True)
class _Entry:
    """One ``--on`` option."""

    queue: ActionQueue
    name: str
    """The display name."""
    position: int
    """How many entries before it have the same name."""
    affects_training: bool = False
    """Whether it stops the training, as far as built-in actions do."""
    followed: set[str] = field(default_factory=set)
    """The ids of the notifications that were handed to it."""
    failures: int = 0
    dry_runs: int = 0
    announced: set[str] = field(default_factory=set)
    """What was announced of it in the terminal."""

    def follows(self, notification: Notification) -> bool:
        """Return whether it follows a notification; an action of every rule stops no training for mere advice."""
        is_advice = notification.severity == "advice" and self.queue.spec.rule == "*"
        return _matches(self.queue.spec, notification) and not (is_advice and self.affects_training)


class ActionDispatcher:
    """Hands notifications to the actions of a run.

    **Once each** - a notification that was handled by an earlier judge of the run is not handled again.

    Args:
        manifest: The manifest of the run.
        is_acting: Whether actions are performed at all.
    """

    def __init__(self, run: str, manifest: Manifest, context: JobContext, *, is_acting: bool = True) -> None:
        self._run, self._manifest, self._context = run, manifest, context
        self._path = os.path.join(run, layout.ACTIONS)
        self._unwritten: list[LoggedAction] = []
        self._before = latest_entries(run) if is_acting else {}
        self._entries: list[_Entry] = []
        for spec in manifest.actions if is_acting else ():
            self._add(spec)

    @property
    def needs_statuses(self) -> bool:
        """Whether an action is interested in more than findings."""
        specs = (entry.queue.spec for entry in self._entries)
        return any(spec.rule == JOB or tuple(spec.statuses) != ("IssuesFound",) for spec in specs)

    @property
    def queues(self) -> list[ActionQueue]:
        """The queues of all actions."""
        return [entry.queue for entry in self._entries]

    @property
    def pending(self) -> list[str]:
        """The display names of the actions with pending deliveries."""
        return list(dict.fromkeys(entry.name for entry in self._entries if entry.queue.pending))

    def add_implied(self, alias: str, actions: Iterable[str]) -> None:
        """Add the actions that the parameters of a rule imply."""
        for action in actions:
            specs = [entry.queue.spec for entry in self._entries]
            if not any(spec.rule in ("*", alias) and canonical(spec.action) == canonical(action) for spec in specs):
                self._add(ActionSpec(alias, action))

    def dispatch(self, notification: Notification) -> str | None:
        """Hand a notification to the actions that follow it.

        What an earlier judge did is not done again: the id of a notification does not depend on the judge.

        Returns:
            What is to be announced in the terminal behind a finding; None: nothing.
        """
        announcement = None
        for entry in self._entries:
            if entry.follows(notification) and notification.id not in entry.followed:
                entry.followed.add(notification.id)
                announcement = self._enqueue(entry, notification) or announcement
        return announcement

    def _enqueue(self, entry: _Entry, notification: Notification) -> str | None:
        known = self._before.get((notification.id, entry.name, entry.position))
        if known is None and not entry.queue.is_inline:
            self._write_line(entry, Delivery(notification), "asked", Outcome("in progress"))
        return entry.queue.add(notification, known)

    def advance(self) -> None:
        """Start what is ready to be delivered; never blocks."""
        now = time.monotonic()
        for queue in self.queues:
            queue.advance(now)
        if self._unwritten:
            self.write()

    def give_up(self, why: str) -> None:
        """Make no further attempts, and log what was not delivered."""
        for queue in self.queues:
            queue.give_up(why)
        self.write()

    def close(self) -> None:
        """Close the queues: no more notifications follow."""
        for queue in self.queues:
            queue.close()

    def _add(self, spec: ActionSpec) -> None:
        name = display_name(spec)
        position = sum(entry.name == name for entry in self._entries)

        def report(delivery: Delivery, result: Result, outcome: Outcome) -> None:
            self._write_line(entry, delivery, result, outcome)
            if not entry.queue.is_inline or result != "done":
                self._announce(entry, delivery.notification, result, outcome)

        affects_training = is_built_in(spec.action) and find_action(spec.action).affects_training
        entry = _Entry(self._make_queue(spec, report), name, position, affects_training)
        self._entries.append(entry)

    def _make_queue(self, spec: ActionSpec, report: Report) -> ActionQueue:
        setup: ActionSetup = {
            "run": self._run,
            "follows": spec.rule,
            "action": spec.action,
            "parameters": spec.parameters,
            "folder": spec.folder or self._manifest.folder,
        }
        if not is_built_in(spec.action):
            return ActionQueue(spec, self._run, ActionProcess(setup), report, self._context)
        kind = find_action(spec.action)
        transport = ActionProcess(setup) if kind.place == "judge" else InlineAction(setup)
        return ActionQueue(
            spec, self._run, transport, report, self._context, place=kind.place, is_volatile=kind.is_volatile
        )

    def _write_line(self, entry: _Entry, delivery: Delivery, result: Result, outcome: Outcome) -> None:
        notification = delivery.notification
        self._unwritten.append(
            LoggedAction(
                rule=notification.rule or JOB,
                action=entry.name,
                outcome=outcome.outcome,
                state=result,
                time_ns=time.time_ns(),
                step=outcome.step,
                request=outcome.request,
                finding=notification.step if notification.kind == "finding" else None,
                notice=notification.id,
                attempts=delivery.attempts,
                entry=entry.position,
            )
        )
        self.write()

    def _announce(self, entry: _Entry, notification: Notification, result: Result, outcome: Outcome) -> None:
        """Announce final failures and dry runs, up to a limit, and each announcement of an action once."""
        rule = notification.rule or JOB
        if result in ("failed", "given up"):
            entry.failures += 1
            if entry.failures <= _MAX_ANNOUNCED:
                self._context.announce(rule, f"{entry.name} {outcome.outcome}", True)
            elif entry.failures == _MAX_ANNOUNCED + 1:
                self._context.announce(rule, f"{entry.name}: further failures are not listed", True)
        elif result == "dry run":
            entry.dry_runs += 1
            if entry.dry_runs <= _MAX_ANNOUNCED:
                self._context.announce(rule, f"{entry.name}: {outcome.outcome}", False)
            elif entry.dry_runs == _MAX_ANNOUNCED + 1:
                self._context.announce(rule, f"{entry.name}: further dry runs are not listed", False)
        elif result == "done" and outcome.announcement and outcome.announcement not in entry.announced:
            entry.announced.add(outcome.announcement)
            self._context.announce(rule, f"{entry.name}: {outcome.announcement}", False)

    def write(self) -> None:
        """Append the pending lines to the action log; what cannot be written is kept for the next call."""
        try:
            while self._unwritten:
                append_line(self._path, self._unwritten[0])
                del self._unwritten[0]
        except OSError as error:
            _LOG.info("actions.jsonl could not be written and will be retried: %s", error)


def display_name(spec: ActionSpec) -> str:
    """Return the name of an action as it is shown to users: ``notify:$MAIL``."""
    return spec.display_name or canonical(spec.action)


def _matches(spec: ActionSpec, notification: Notification) -> bool:
    """Return whether an action follows a notification.

    An action on findings of every rule follows only those that no other finding explains.
    The rule ``*`` matches every rule, and the job as well if every status is followed. A status of a rule is followed
    when it is reached; with every status, other changes are followed too: the verdict, closed findings.
    """
    is_every = EVERY_STATUS in spec.statuses
    if notification.rule is None:
        return (spec.rule == JOB or (spec.rule == "*" and is_every)) and spec.follows(notification.status)
    if spec.rule not in ("*", notification.rule):
        return False
    if spec.rule == "*" and notification.explained_by is not None and not is_every:
        return False
    is_reached = notification.kind == "finding" or (
        notification.kind == "rule_status" and notification.previous != notification.status
    )
    return is_every or (is_reached and spec.follows(notification.status))
