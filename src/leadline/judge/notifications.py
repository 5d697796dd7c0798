"""Notifications of findings, rule states and job states, in the form that actions receive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from leadline.records import describe
from leadline.records.documents import RunStatus
from leadline.records.finding import MAX_SHOWN_TENSORS, Finding
from leadline.records.manifest import Manifest
from leadline.records.names import JOB, JOB_ENDED
from leadline.records.notification import Notification, NotificationKind, RuleState, TensorSnapshot
from leadline.records.outcome import RunOutcome

_ReportedState = tuple[str, str | None, str]
_JOB_MESSAGES: Final = {
    "Starting": "the run is starting",
    "InProgress": "the training is running",
    "Stopping": "the run is being stopped",
}


class Notifications:
    """Creates the notifications of a run.

    **Stable ids** - the id of a notification is unique within the run and the same for every judge.

    Attributes:
        job_status: The last status of the job for which there was a notification.
    """

    def __init__(self, run: str, manifest: Manifest) -> None:
        self._run, self._manifest = run, manifest
        self.job_status = "Starting"
        self._transitions = 0
        self._reported: dict[str, _ReportedState] = {}
        self._name_counts: dict[str, int] = {}
        self._openings: dict[str, list[int]] = {}

    def restart(self, alias: str) -> None:
        """Start a rule again from the beginning, with the same ids as before."""
        self._openings = {name: ids for name, ids in self._openings.items() if not name.startswith(f"{alias}/")}

    def of_finding(
        self, finding: Finding, kind: NotificationKind, rules: Sequence[RuleState], *, explained_by: str | None = None
    ) -> Notification:
        """Return the notification of a finding that opened or closed, with the step at which it did or last fired.

        Args:
            explained_by: The rule whose finding is the cause.
        """
        of_step = self._openings.setdefault(f"{finding.rule}/{finding.step}", [])
        if finding.id not in of_step:
            of_step.append(finding.id)
        count = of_step.index(finding.id) + 1
        state = next((rule for rule in rules if rule.name == finding.rule), None)
        previous = self._reported.get(finding.rule, ("InProgress", None, ""))[0]
        if state is not None:
            self._reported[finding.rule] = _reported_state(state)
        common: dict[str, Any] = {
            "rule": finding.rule,
            "kind_of_rule": state.rule if state else None,
            "severity": state.severity if state else None,
            "verdict": "fired",
            "explained_by": explained_by,
            "worker": finding.worker,
            "evidence": finding.evidence,
            "tensor_count": finding.tensor_count,
            "tensors": tuple(map(TensorSnapshot, finding.tensors[:MAX_SHOWN_TENSORS])),
        }
        if kind == "finding":
            return self._notice(
                _name(f"{finding.rule}/opened/{finding.step}", count),
                kind,
                "IssuesFound",
                finding.time_ns,
                rules,
                previous=previous,
                step=finding.step,
                global_step=finding.global_step,
                message=finding.message,
                suggestion=finding.suggestion,
                **common,
            )
        return self._notice(
            _name(f"{finding.rule}/closed/{finding.step}", count),
            kind,
            "IssuesFound",
            finding.time_ns,
            rules,
            previous="IssuesFound",
            step=finding.last_step,
            global_step=finding.last_global_step,
            message=f"resolved, last seen at step {finding.last_step}: {finding.message}",
            **common,
        )

    def of_rules(self, rules: Sequence[RuleState]) -> list[Notification]:
        """Return notifications of the statuses and verdicts that changed since the last call, except findings."""
        notices = []
        for state in rules:
            before = self._reported.get(state.name)
            if before is None or before[:2] != (state.status, state.verdict):
                self._reported[state.name] = _reported_state(state)
                if state.status != "IssuesFound":
                    notices.append(self._of_rule(state, before, rules))
        return notices

    def _of_rule(self, state: RuleState, before: _ReportedState | None, rules: Sequence[RuleState]) -> Notification:
        verdict = (state.verdict or "not evaluated yet").replace("_", " ")
        message = f"failed: {state.why}" if state.status == "Error" else verdict
        return self._notice(
            self._unique_name(f"{state.name}/status/{state.status}/{state.verdict or 'none'}"),
            "rule_status",
            state.status,
            state.updated_ns,
            rules,
            rule=state.name,
            kind_of_rule=state.rule,
            previous=before[0] if before else None,
            verdict=state.verdict,
            why=state.why,
            message=message,
        )

    def of_job(self, document: RunStatus, rules: Sequence[RuleState], outcome: RunOutcome | None) -> list[Notification]:
        """Return notifications of the transitions of the job that were not reported yet.

        Args:
            document: ``status.json`` with the effective status, which differs from that of its last transition if the
                agent is gone.
            outcome: The outcome of the run, with which its end is reported; None: it is not known yet.
        """
        transitions = document.transitions
        last = transitions[-1].status if transitions else self.job_status
        new = transitions[self._transitions :]
        if outcome is None and new and new[-1].status in JOB_ENDED:
            new = new[:-1]
        notices = [self._of_job(entry.status, entry.time_ns, rules, document, outcome) for entry in new]
        self._transitions += len(new)
        if outcome and document.status in JOB_ENDED and last not in JOB_ENDED and self.job_status != document.status:
            ended_ns = max([self._manifest.started_ns, *(entry.time_ns for entry in transitions)])
            notices.append(self._of_job(document.status, ended_ns, rules, RunStatus(), outcome))
        return notices

    def _of_job(
        self, status: str, time_ns: int, rules: Sequence[RuleState], document: RunStatus, outcome: RunOutcome | None
    ) -> Notification:
        previous, self.job_status = self.job_status, status
        has_ended = status in JOB_ENDED and document.status == status
        exit_status = document.exit_status if has_ended else None
        by = document.stopped_by if status in ("Stopping", "Stopped") else None
        if status in JOB_ENDED and outcome is not None:
            message = outcome.text
        else:
            message = _JOB_MESSAGES.get(status, f"the run is {status}") + (f" by {describe.sender(by)}" if by else "")
        facts = {"exit_status": exit_status, "stopped_by": by}
        return self._notice(
            self._unique_name(f"{JOB}/{status}"),
            "job_status",
            status,
            time_ns,
            rules,
            previous=previous if previous != status else None,
            message=message,
            evidence={name: value for name, value in facts.items() if value is not None},
        )

    def _notice(
        self, name: str, kind: NotificationKind, status: str, time_ns: int, rules: Iterable[RuleState], **more: Any
    ) -> Notification:
        return Notification(
            name,
            kind,
            self._manifest.name,
            self._run,
            status,
            time_ns,
            job_status=self.job_status,
            started_ns=self._manifest.started_ns,
            rules=tuple(rules),
            **more,
        )

    def _unique_name(self, name: str) -> str:
        count = self._name_counts[name] = self._name_counts.get(name, 0) + 1
        return _name(name, count)


def _name(name: str, count: int) -> str:
    """Return a name, with its number from the second occurrence on."""
    return name if count == 1 else f"{name}/{count}"


def _reported_state(state: RuleState) -> _ReportedState:
    return state.status, state.verdict, state.why
