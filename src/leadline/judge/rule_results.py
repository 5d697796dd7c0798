"""What has come of each rule, and the documents that say so."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.judge.causes import FiredRule, causes
from leadline.records.finding import Finding
from leadline.records.manifest import RuleSpec
from leadline.records.notification import RuleState
from leadline.store import layout
from leadline.store.documents import append_line, make_folder, read_document, write_document

_SUMMARY_SECONDS = 0.05
_COUNTS_SECONDS = 1.0
_COUNTS_A_SECOND = 20
"""Documents rewritten in a second for mere counts; with more rules each of them waits longer."""
_RETRY_SECONDS = 1.0
_MOST_PHASES = 4
_MOST_ANNOUNCED = 100
"""Findings of one rule beyond so many are written down, not announced."""


@dataclass(slots=True)
class RuleEntry:
    """One rule."""

    spec: RuleSpec
    parameters: Mapping[str, Any]
    """Those that were given; once the rule has been made, all."""
    explains: tuple[str, ...] = ()
    """Names of rules whose findings may follow from this one's."""
    verdict: str | None = None
    why: str = ""
    judged_steps: int = 0
    error: str | None = None
    product: Mapping[str, Any] = field(default_factory=dict)
    """What a rule that never fires has gathered."""
    findings: dict[int, Finding] = field(default_factory=dict)
    """By id; those that closed as they closed."""
    open_ids: set[int] = field(default_factory=set)
    """Of the findings that are open."""
    changed_ns: int = 0
    """When something of it was heard last."""

    def status(self, *, is_complete: bool) -> str:
        """As SageMaker names it."""
        if self.error is not None:
            return "Error"
        if self.findings:
            return "IssuesFound"
        return "NoIssuesFound" if is_complete else "InProgress"

    blind: str = ""
    """Why something that it should have seen is not in the run; then nothing found is not clear."""

    def spoken_verdict(self, *, is_complete: bool) -> str | None:
        """``clear``, ``fired``, ``undecided``; None where it has none, or not yet."""
        if self.findings:
            return "fired"
        if self.error is not None:
            return None
        verdict = "undecided" if self.blind else self.verdict
        return (verdict or "undecided") if is_complete or verdict == "clear" else None

    @property
    def reason(self) -> str:
        """Why it has no verdict."""
        if self.error is not None or self.findings:
            return self.error or ""
        return self.blind or ("" if self.verdict == "clear" else self.why)


class RuleResults:
    """All rules of a run; writes their documents unless it is told to keep them to itself.

    Attributes:
        version: Counts what was heard of the rules.
        delivering: The actions for which something waits when all is judged.
        write_error: Why the documents could not be written the last time (a full disk); it is tried again.
    """

    def __init__(self, run: str, specs: Sequence[RuleSpec], *, is_written: bool) -> None:
        now_ns = time.time_ns()
        self.entries = {spec.alias: RuleEntry(spec, dict(spec.parameters), changed_ns=now_ns) for spec in specs}
        self.judged_step = -1
        self.version = 0
        self.delivering: list[str] = []
        self.is_complete = False
        self._run, self._is_written = run, is_written
        self._counts_seconds = max(_COUNTS_SECONDS, len(specs) / _COUNTS_A_SECOND)
        self._announcements: list[dict[str, Any]] = []
        self._time: dict[str, Any] | None = None
        self._said: dict[str, tuple[str, str | None, int]] = {}
        self._changed: set[str] = set(self.entries)
        self._summary_at = self._counts_at = 0.0
        self._is_stale = True
        self._unwritten: list[tuple[str, Mapping[str, Any]]] = []
        self._retry_at = 0.0
        self.write_error: OSError | None = None
        if is_written:
            self._begin_documents()

    def include(self, specs: Sequence[RuleSpec]) -> None:
        """More rules judge from now on."""
        for spec in specs:
            self.entries[spec.alias] = RuleEntry(spec, dict(spec.parameters))
            if self._is_written:
                self._begin_document(spec.alias)
            self._note(spec.alias)
        self._counts_seconds = max(_COUNTS_SECONDS, len(self.entries) / _COUNTS_A_SECOND)

    def update(self, alias: str, state: Mapping[str, Any]) -> None:
        """Take in where a rule stands."""
        entry = self.entries[alias]
        entry.verdict, entry.why, entry.judged_steps = state["verdict"], state["why"], state["judged_steps"]
        entry.error = entry.error or state["error"]
        entry.product = state["product"]
        self._note(alias)

    def describe(self, alias: str, parameters: Mapping[str, Any], explains: tuple[str, ...]) -> None:
        """Take in what a rule says of itself: all its parameters, and what its findings may lead to."""
        entry = self.entries[alias]
        entry.parameters, entry.explains = parameters, explains
        self._note(alias)

    def blame(self, alias: str, error: str) -> None:
        """A rule brought its worker down."""
        self.entries[alias].error = error
        self._note(alias)

    def go_blind(self, alias: str, why: str) -> None:
        """Something that a rule should have seen is not in the run."""
        if self.entries[alias].blind != why:
            self.entries[alias].blind = why
            self._note(alias)

    def begin_again(self, alias: str) -> None:
        """All of a rule is told again from the start."""
        self.entries[alias].findings.clear()
        self.entries[alias].open_ids.clear()
        self._unwritten = [each for each in self._unwritten if each[0] != alias]
        if self._is_written:
            self._clear_findings(alias)
        self._note(alias)

    def add(self, alias: str, event: Mapping[str, Any]) -> Finding:
        """Take in what opened or closed."""
        finding = Finding(**{name: event[name] for name in Finding.__dataclass_fields__})
        entry = self.entries[alias]
        entry.findings[finding.id] = finding
        (entry.open_ids.add if finding.is_open else entry.open_ids.discard)(finding.id)
        self._unwritten.append((alias, event))
        self._note(alias)
        return finding

    def announce(self, finding: Finding, action: str | None) -> None:
        """Have the terminal told of a finding that opened, once."""
        known = {
            (each["step"], each["message"])
            for each in self._announcements
            if each["rule"] == finding.rule and "kind" not in each
        }
        if (finding.step, finding.message) in known or len(known) >= _MOST_ANNOUNCED:
            return
        self._announcements.append(
            {
                "id": len(self._announcements) + 1,
                "step": finding.step,
                "rule": finding.rule,
                "message": finding.message,
                "action": action,
            }
        )
        self._is_stale = True

    def write(self, *, at_once: bool = False) -> None:
        """Write what changed: statuses at once, mere counts each second or two, the summary every 50 ms.

        What the disk refuses is kept, and tried again a second later.
        """
        now = time.monotonic()
        if not self._is_written or (now < self._retry_at and not at_once):
            return
        try:
            self._write(now, at_once=at_once)
            self.write_error = None
        except OSError as error:
            self.write_error, self._retry_at = error, now + _RETRY_SECONDS

    def _write(self, now: float, *, at_once: bool) -> None:
        while self._unwritten:
            alias, event = self._unwritten[0]
            append_line(os.path.join(self._run, layout.rule_findings(alias)), event)
            del self._unwritten[0]
        with_counts = at_once or now - self._counts_at >= self._counts_seconds
        if with_counts:
            self._counts_at = now
        for alias in sorted(self._changed):
            self._write_status(alias, with_counts=with_counts)
        if self._is_stale and (at_once or now - self._summary_at >= _SUMMARY_SECONDS):
            write_document(os.path.join(self._run, layout.RULE_SUMMARY), self.summary())
            self._summary_at, self._is_stale = now, False

    def summary(self) -> dict[str, Any]:
        """``rules/summary.json``; of the rules those that found something lead, causes before what comes of them."""
        explained = self.causes()
        return {
            "complete": self.is_complete,
            "delivering": self.delivering,
            "judged_step": self.judged_step,
            "updated_ns": time.time_ns(),
            "announcements": self._announcements,
            "time": self._time,
            "rules": [self._summary_of(self.entries[each], explained.get(each)) for each in self.in_order(explained)],
        }

    def causes(self) -> dict[str, str]:
        """For each rule whose finding follows from another's: the alias of that one."""
        return causes(
            FiredRule(alias, entry.spec.rule, [entry.findings[each] for each in sorted(entry.findings)], entry.explains)
            for alias, entry in self.entries.items()
            if entry.findings
        )

    def in_order(self, explained: Mapping[str, str]) -> list[str]:
        """The aliases: those that found something by step, each followed by what it explains; then the others."""
        firsts = {alias: min(entry.findings) for alias, entry in self.entries.items() if entry.findings}
        steps = {alias: self.entries[alias].findings[first].step for alias, first in firsts.items()}

        def place(alias: str) -> tuple[bool, int, str, bool, int]:
            if alias not in steps:
                return True, 0, "", False, 0
            root = explained.get(alias, alias)
            return False, steps[root], root, root != alias, steps[alias]

        return sorted(self.entries, key=place)

    def _summary_of(self, entry: RuleEntry, cause: str | None) -> dict[str, Any]:
        first = entry.findings[min(entry.findings)] if entry.findings else None
        suggestion = first.suggestion if first else None
        if cause is not None:
            suggestion = f"what {cause} says first; this usually follows from it"
        return {
            "name": entry.spec.alias,
            "rule": entry.spec.rule,
            "status": entry.status(is_complete=self.is_complete),
            "verdict": entry.spoken_verdict(is_complete=self.is_complete),
            "why": entry.reason,
            "findings": len(entry.findings),
            "step": first.step if first else None,
            "message": first.message if first else None,
            "suggestion": suggestion,
            "explained_by": cause,
        }

    def complete(self) -> None:
        """The last of an ended run is judged."""
        self.is_complete = True
        if self._is_written:
            self._time = self._where_time_went()
        for alias in self.entries:
            self._note(alias)

    def finish(self, delivering: Sequence[str] = ()) -> None:
        """Write all down.

        Args:
            delivering: What the judge still has to deliver.
        """
        if not self.is_complete:
            self.complete()
        self.delivering = list(delivering)
        self._changed |= set(self.entries)
        self._is_stale = True
        self.write(at_once=True)

    def states(self) -> tuple[RuleState, ...]:
        """Where the rules stand, as actions are told."""
        return tuple(self._state(alias, entry) for alias, entry in self.entries.items())

    def _state(self, alias: str, entry: RuleEntry) -> RuleState:
        status = entry.status(is_complete=self.is_complete)
        verdict = entry.spoken_verdict(is_complete=self.is_complete)
        is_open = bool(entry.open_ids)
        count = len(entry.findings)
        return RuleState(alias, entry.spec.rule, status, verdict, is_open, entry.reason, entry.changed_ns, count)

    def say(self, rule: str, message: str, is_failure: bool) -> None:
        """Have the terminal told what came of an action, once."""
        kind = "failure" if is_failure else "action"
        line = {"step": None, "rule": rule, "message": message, "action": None, "kind": kind}
        if all({**each, "id": 0} != {**line, "id": 0} for each in self._announcements):
            self._announcements.append({"id": len(self._announcements) + 1, **line})
            self._is_stale = True

    def _where_time_went(self) -> dict[str, Any] | None:
        """The largest phases and what bound the run, for the last words on the terminal; None: no step was timed."""
        from leadline.analysis.time_breakdown import phases, read_time  # loads pyarrow, which the judge needs only here

        fired = {entry.spec.rule for entry in self.entries.values() if entry.findings}
        found = read_time(self._run, fired)
        parts = phases(found.steps)[:_MOST_PHASES]
        return {"phases": parts, "bound": found.bound.brief() if found.bound else None} if parts else None

    def _note(self, alias: str) -> None:
        self.entries[alias].changed_ns = time.time_ns()
        self.version += 1
        self._changed.add(alias)
        self._is_stale = True

    def _write_status(self, alias: str, *, with_counts: bool) -> None:
        entry = self.entries[alias]
        status = entry.status(is_complete=self.is_complete)
        spoken = (status, entry.spoken_verdict(is_complete=self.is_complete), len(entry.findings))
        if not with_counts and self._said.get(alias) == spoken:
            return
        document = {
            "name": alias,
            "rule": entry.spec.rule,
            "parameters": dict(entry.parameters),
            "status": status,
            "verdict": spoken[1],
            "why": entry.reason,
            "judged_steps": entry.judged_steps,
            "findings": len(entry.findings),
            "updated_ns": time.time_ns(),
            **({"product": dict(entry.product)} if entry.product else {}),
        }
        write_document(os.path.join(self._run, layout.rule_status(alias)), document)
        self._said[alias] = spoken
        self._changed.discard(alias)

    def _begin_documents(self) -> None:
        before = read_document(os.path.join(self._run, layout.RULE_SUMMARY))
        if isinstance(before, dict):
            self._announcements = list(before.get("announcements", ()))
        make_folder(os.path.join(self._run, layout.RULES))
        for alias in self.entries:
            self._begin_document(alias)

    def _begin_document(self, alias: str) -> None:
        make_folder(os.path.dirname(os.path.join(self._run, layout.rule_status(alias))))
        self._clear_findings(alias)

    def _clear_findings(self, alias: str) -> None:
        path = os.path.join(self._run, layout.rule_findings(alias))
        if os.path.exists(path):
            os.truncate(path, 0)
