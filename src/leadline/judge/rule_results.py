"""The results of the rules of a run, and the documents that contain them."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from leadline.errors import LeadlineError, StoreFullError
from leadline.judge.announcements import Announcements
from leadline.judge.causes import FiredRule, causes
from leadline.judge.episodes import last_event
from leadline.judge.rule_entry import Results, RuleEntry
from leadline.judge.worker_messages import RuleTrackState
from leadline.records import describe
from leadline.records.documents import PhaseShare, RuleDocument, RuleSummary, SummarizedRule, TimeSummary
from leadline.records.finding import Finding
from leadline.records.manifest import RuleSpec
from leadline.records.names import BEST_EVALUATION, POSSIBLE_CAUSES, Severity
from leadline.records.notification import RuleState
from leadline.records.opposite_advice import StandingAdvice
from leadline.records.outcome import ranked
from leadline.store import layout
from leadline.store.documents import append_line, encode, make_subfolder, replace_file, write_document
from leadline.store.incarnations import read_incarnations
from leadline.store.run_state import read_rule_summary

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_SUMMARY_SECONDS = 0.05
_COUNTS_SECONDS = 1.0
_COUNTS_A_SECOND = 20
"""The number of documents rewritten in a second only for new counts; with more rules their interval grows."""
_RETRY_SECONDS = 1.0
_MAX_PHASES = 4
_BEAT_SECONDS = 1.0


class RuleResultStore:
    """The results of all rules of a run, written as documents into the run directory unless disabled.

    Attributes:
        version: The number of updates.
        delivering: The actions with pending deliveries after everything was evaluated.
        write_error: Why the documents could not be written the last time (a full disk); writing is retried.
        processor_seconds: What the judge took with its workers, once it has followed a run to its end.
    """

    def __init__(self, run: str, specs: Sequence[RuleSpec], *, is_written: bool) -> None:
        now_ns = time.time_ns()
        self.entries = {spec.alias: RuleEntry(spec, dict(spec.parameters), changed_ns=now_ns) for spec in specs}
        self.judged_step = -1
        self.version = 0
        self.delivering: list[str] = []
        self.is_complete = self._is_final = False
        self._run, self._is_written = run, is_written
        self._counts_seconds = max(_COUNTS_SECONDS, len(specs) / _COUNTS_A_SECOND)
        self._announcements = Announcements()
        self._time: TimeSummary | None = None
        self._written: dict[str, tuple[str, str | None, int]] = {}
        self._changed: set[str] = set(self.entries)
        self._summary_at = self._counts_at = 0.0
        self._is_stale = True
        self._unwritten: list[tuple[str, Mapping[str, Any]]] = []
        self._retry_at = 0.0
        self.write_error: OSError | None = None
        self.processor_seconds: float | None = None
        self._held_step = -1
        """A judge that has died had come so far: its results stay until this one has, too."""
        self._kept: tuple[SummarizedRule, ...] = ()
        if is_written:
            self._begin_documents()

    def add_rules(self, specs: Sequence[RuleSpec]) -> None:
        """Add rules that are evaluated from now on."""
        for spec in specs:
            self.entries[spec.alias] = RuleEntry(spec, dict(spec.parameters))
            if self._is_written and not self._is_held:
                self._begin_document(spec.alias)
            self._mark_changed(spec.alias)
        self._counts_seconds = max(_COUNTS_SECONDS, len(self.entries) / _COUNTS_A_SECOND)

    def remove_rules(self, aliases: Iterable[str]) -> None:
        """Keep the results of rules as they are: they are not evaluated any more."""
        for alias in aliases:
            self.entries[alias].stopped = f"removed at step {max(0, self.judged_step):,}"
            self._mark_changed(alias)

    def update(self, alias: str, state: RuleTrackState) -> None:
        """Update the state of a rule."""
        entry = self.entries[alias]
        entry.verdict, entry.why, entry.judged_steps = state["verdict"], state["why"], state["judged_steps"]
        entry.judged_step = state["judged_step"]
        entry.sampling = state["sampling"]
        entry.error = entry.error or state["error"]
        entry.product = state["product"]
        self._mark_changed(alias)

    def describe(
        self, alias: str, parameters: Mapping[str, Any], explains: tuple[str, ...], severity: Severity
    ) -> None:
        """Set the parameters of a rule, the rules that its findings may explain, and their severity."""
        entry = self.entries[alias]
        entry.parameters, entry.explains, entry.severity = parameters, explains, severity
        self._mark_changed(alias)

    def mark_failed(self, alias: str, error: str) -> None:
        """Record the error of a rule that crashed its worker."""
        self.entries[alias].error = error
        self._mark_changed(alias)

    def leave_out(self, alias: str, why: str) -> None:
        """Record that a rule is not evaluated, and why."""
        self.entries[alias].stopped = why
        self._mark_changed(alias)

    def set_missing_data(self, alias: str, why: str) -> None:
        """Record why data that a rule needs is not in the run; empty: all of it is."""
        if self.entries[alias].missing_data != why:
            self.entries[alias].missing_data = why
            self._mark_changed(alias)

    def restart(self, alias: str) -> None:
        """Delete the findings of a rule that is evaluated again from the start."""
        self.entries[alias].findings.clear()
        self.entries[alias].open_ids.clear()
        self._unwritten = [(name, event) for name, event in self._unwritten if name != alias]
        if self._is_written and not self._is_held:
            self._clear_findings(alias)
        self._mark_changed(alias)

    def add(self, alias: str, event: Mapping[str, Any]) -> Finding:
        """Add a finding that opened, or update one that closed."""
        finding = Finding(**{name: event[name] for name in Finding.__dataclass_fields__})
        entry = self.entries[alias]
        entry.findings[finding.id] = finding
        (entry.open_ids.add if finding.is_open else entry.open_ids.discard)(finding.id)
        self._unwritten.append((alias, event))
        self._mark_changed(alias)
        return finding

    def announce(self, finding: Finding, action: str | None, causes: Mapping[str, str]) -> None:
        """Announce a new finding in the terminal; see ``Announcements.add_finding``."""
        self._is_stale |= self._announcements.add_finding(finding, action, causes)

    def write(self, *, at_once: bool = False) -> None:
        """Write what changed: statuses at once, mere counts every second or two, the summary every 50 ms.

        What cannot be written is kept, and retried a second later.
        """
        now = time.monotonic()
        if not self._is_written or (now < self._retry_at and not at_once) or self._is_held:
            return
        try:
            if self._held_step >= 0:
                self._clear_documents()
                self._held_step = -1
            self._write(now, at_once=at_once)
            self.write_error = None
        except OSError as error:
            self.write_error, self._retry_at = error, now + _RETRY_SECONDS

    def check_written(self) -> None:
        """Raise an error if the documents could not be written.

        Raises:
            StoreFullError: The disk is full.
            LeadlineError: They could not be written for another reason.
        """
        if self.write_error is not None:
            message = f"the results could not be written: {self.write_error}"
            if self.write_error.errno in _NO_SPACE:
                raise StoreFullError(f"{message}; free disk space and judge again")
            raise LeadlineError(f"{message}; judge again")

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

    @property
    def _is_held(self) -> bool:
        """Whether a judge that has died had judged more than this one until now."""
        return self.judged_step < self._held_step and not self.is_complete

    def keep(self, before: RuleSummary, aliases: Collection[str]) -> None:
        """Keep what an earlier judge has told of some rules, and what it has announced."""
        self._kept = tuple(rule for rule in before.rules if rule.name in aliases)
        self._announcements.restore(before.announcements)
        self._time, self.judged_step = before.time, max(before.judged_step, self.judged_step)
        self.processor_seconds = before.processor_seconds

    def replace_documents(self) -> None:
        """Write the results of a run that has ended, each document as a whole.

        Raises:
            OSError: They cannot be written.
        """
        self.is_complete = self._is_final = True
        self._time = self._time or self._time_breakdown()
        for alias, entry in self.entries.items():
            make_subfolder(os.path.dirname(os.path.join(self._run, layout.rule_status(alias))))
            with replace_file(os.path.join(self._run, layout.rule_findings(alias))) as file:
                file.writelines(encode(last_event(entry.findings[key])) + b"\n" for key in sorted(entry.findings))
            self._write_status(alias, with_counts=True)
        write_document(os.path.join(self._run, layout.RULE_SUMMARY), self.summary())

    def summary(self) -> RuleSummary:
        """Return ``rules/summary.json``; rules that fired come first, ranked."""
        explained = self.causes()
        is_final = self._is_final
        rules = [entry.summarized(explained.get(alias), is_complete=is_final) for alias, entry in self.entries.items()]
        rules += self._kept
        fired = ranked(rules)
        standing = StandingAdvice.of(fired)
        fired = tuple(replace(rule, suggestion=standing.agreeing(rule.suggestion or "")) for rule in fired)
        rules = [rule for rule in rules if describe.rule_state(rule) != "fired"]
        products = self._products()
        return RuleSummary(
            complete=self.is_complete,
            delivering=tuple(self.delivering),
            judged_step=self.judged_step,
            updated_ns=time.time_ns(),
            announcements=tuple(self._announcements.lines),
            time=self._time,
            remarks=standing.remarks(products, "remarks", fired),
            possible_causes=standing.remarks(products, POSSIBLE_CAUSES, fired),
            best_evaluation=next((str(best) for product in products if (best := product.get(BEST_EVALUATION))), ""),
            processor_seconds=self.processor_seconds,
            rules=(*fired, *rules),
        )

    def _products(self) -> list[Mapping[str, Any]]:
        """Return what rules have collected beside their verdicts, of a run that is over."""
        return [entry.product for entry in self.entries.values() if entry.error is None] if self.is_complete else []

    def agreeing(self, finding: Finding) -> Finding:
        """Return a finding without a suggestion that contradicts that of a severer one."""
        return replace(finding, suggestion=StandingAdvice.of(self.summary().rules).agreeing(finding.suggestion))

    def causes(self) -> dict[str, str]:
        """Return the alias of the root cause of each rule whose findings are explained by another rule."""
        return causes(
            FiredRule(alias, entry.spec.rule, [entry.findings[key] for key in sorted(entry.findings)], entry.explains)
            for alias, entry in self.entries.items()
            if entry.findings
        )

    def complete(self) -> None:
        """Mark a complete run as completely evaluated."""
        self.is_complete = self._is_final = True
        if self._is_written:
            self._time = self._time_breakdown()
        for alias in self.entries:
            self._mark_changed(alias)

    def finish(self, delivering: Sequence[str] = ()) -> None:
        """Write everything.

        Args:
            delivering: The actions with pending deliveries.
        """
        if not self.is_complete:
            self.complete()
        self.delivering = list(delivering)
        self._changed |= set(self.entries)
        self._is_stale = True
        self.write(at_once=True)

    def end_early(self, unfinished: Iterable[str]) -> None:
        """Write everything: the judge has to end, and some rules are not evaluated to the end of the run."""
        for alias in unfinished:
            self.entries[alias].stopped = describe.ENDED_EARLY
        self._is_final = True
        self._changed |= set(self.entries)
        self._is_stale = True
        self.write(at_once=True)

    def beat(self) -> None:
        """Write the summary every second, so that the agent sees that the judge is at work."""
        self._is_stale = self._is_stale or time.monotonic() - self._summary_at >= _BEAT_SECONDS

    def results(self, damage: Iterable[str]) -> Results:
        """Return the results of all rules; the run is over.

        Args:
            damage: One line for each part of the run that could not be read.
        """
        return Results(tuple(entry.result() for entry in self.entries.values()), tuple(damage))

    def states(self) -> tuple[RuleState, ...]:
        """Return the states of all rules, as actions receive them."""
        return tuple(self._state(alias, entry) for alias, entry in self.entries.items())

    def _state(self, alias: str, entry: RuleEntry) -> RuleState:
        status = entry.status(is_complete=self._is_final)
        verdict = entry.current_verdict(is_complete=self._is_final)
        is_open = bool(entry.open_ids)
        count = len(entry.findings)
        return RuleState(
            alias, entry.spec.rule, status, verdict, is_open, entry.reason, entry.changed_ns, count, entry.severity
        )

    def announce_action(self, rule: str, message: str, is_failure: bool) -> None:
        """Announce the outcome of an action in the terminal, once."""
        self._is_stale |= self._announcements.add_action(rule, message, is_failure)

    def _time_breakdown(self) -> TimeSummary | None:
        """Return the largest phases and the bottleneck, for the summary in the terminal; None: no step was timed."""
        # imports pyarrow, which the judge needs only here
        from leadline.analysis.time_breakdown import phases, read_time_breakdown

        rules = (entry.summarized(None, is_complete=self._is_final) for entry in self.entries.values())
        breakdown = read_time_breakdown(self._run, describe.states_of(rules))
        parts = tuple(map(PhaseShare.from_dict, phases(breakdown.steps)[:_MAX_PHASES]))
        bound, overload = breakdown.bottleneck, breakdown.overload
        texts = (bound.summary() if bound else None, overload.summary() if overload else None)
        return TimeSummary(parts, *texts) if parts else None

    def _mark_changed(self, alias: str) -> None:
        self.entries[alias].changed_ns = time.time_ns()
        self.version += 1
        self._changed.add(alias)
        self._is_stale = True

    def _write_status(self, alias: str, *, with_counts: bool) -> None:
        entry = self.entries[alias]
        status = entry.status(is_complete=self._is_final)
        state = (status, entry.current_verdict(is_complete=self._is_final), len(entry.findings))
        if not with_counts and self._written.get(alias) == state:
            return
        document = RuleDocument(
            name=alias,
            rule=entry.spec.rule,
            parameters=dict(entry.parameters),
            status=status,
            verdict=state[1],
            why=entry.reason,
            sampling=entry.sampling,
            severity=entry.severity,
            judged_steps=entry.judged_steps,
            judged_step=entry.judged_step,
            findings=len(entry.findings),
            updated_ns=time.time_ns(),
            product=dict(entry.product),
        )
        write_document(os.path.join(self._run, layout.rule_status(alias)), document)
        self._written[alias] = state
        self._changed.discard(alias)

    def _begin_documents(self) -> None:
        before = read_rule_summary(self._run)
        self._announcements.restore(before.announcements if before is not None else ())
        make_subfolder(os.path.join(self._run, layout.RULES))
        since_ns = read_incarnations(self._run).since_ns
        if before is not None and not before.complete and before.updated_ns > since_ns:
            self._held_step = before.judged_step
        if not self._is_held:
            self._clear_documents()

    def _clear_documents(self) -> None:
        for alias in self.entries:
            self._begin_document(alias)

    def _begin_document(self, alias: str) -> None:
        make_subfolder(os.path.dirname(os.path.join(self._run, layout.rule_status(alias))))
        self._clear_findings(alias)

    def _clear_findings(self, alias: str) -> None:
        path = os.path.join(self._run, layout.rule_findings(alias))
        if os.path.exists(path):
            os.truncate(path, 0)
