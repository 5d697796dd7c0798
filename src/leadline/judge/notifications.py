"""Notices: what happens in a run, in the form in which actions are told of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from leadline.records.finding import Finding
from leadline.records.manifest import Manifest
from leadline.records.names import JOB, JOB_ENDED
from leadline.records.notification import NoticeKind, Notification, RuleState, TensorSnapshot

_Heard = tuple[str, str | None, str]
_JOB_WORDS: Final = {
    "Starting": "the run is starting",
    "InProgress": "the training is under way",
    "Completed": "the run has finished",
    "Failed": "the run has failed",
    "Stopping": "the run is being stopped",
    "Stopped": "the run was stopped",
    "Interrupted": "the run was interrupted",
}


class Notifications:
    """Makes the notices of a run; each id is the same whoever judges, and unique within the run.

    Attributes:
        job_status: The job's status as it was last told.
    """

    def __init__(self, run: str, manifest: Manifest) -> None:
        self._run, self._manifest = run, manifest
        self.job_status = "Starting"
        self._transitions = 0
        self._heard: dict[str, _Heard] = {}
        self._given: dict[str, int] = {}
        self._openings: dict[str, list[int]] = {}

    def begin_again(self, alias: str) -> None:
        """All of a rule is told again from the start, under the ids that it was told before."""
        self._openings = {name: ids for name, ids in self._openings.items() if not name.startswith(f"{alias}/")}

    def of_finding(self, finding: Finding, kind: NoticeKind, rules: Sequence[RuleState]) -> Notification:
        """A finding that opened, or closed; its step is the one at which it did, or at which it last fired."""
        of_step = self._openings.setdefault(f"{finding.rule}/{finding.step}", [])
        if finding.id not in of_step:
            of_step.append(finding.id)
        count = of_step.index(finding.id) + 1
        state = next((each for each in rules if each.name == finding.rule), None)
        previous = self._heard.get(finding.rule, ("InProgress", None, ""))[0]
        if state is not None:
            self._heard[finding.rule] = _heard(state)
        common: dict[str, Any] = {
            "rule": finding.rule,
            "kind_of_rule": state.rule if state else None,
            "verdict": "fired",
            "worker": finding.worker,
            "evidence": finding.evidence,
            "tensor_count": finding.tensor_count,
            "tensors": tuple(map(TensorSnapshot, finding.tensors)),
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
            message=f"over, last seen at step {finding.last_step}: {finding.message}",
            **common,
        )

    def of_rules(self, rules: Sequence[RuleState]) -> list[Notification]:
        """What changed of the statuses and verdicts of rules since the last call; findings are told apart."""
        told = []
        for state in rules:
            before = self._heard.get(state.name)
            if before is None or before[:2] != (state.status, state.verdict):
                self._heard[state.name] = _heard(state)
                if state.status != "IssuesFound":
                    told.append(self._of_rule(state, before, rules))
        return told

    def _of_rule(self, state: RuleState, before: _Heard | None, rules: Sequence[RuleState]) -> Notification:
        words = {None: "not judged yet", "clear": "clear", "undecided": "undecided"}
        message = f"failed: {state.why}" if state.status == "Error" else words.get(state.verdict, f"{state.verdict}")
        return self._notice(
            self._again(f"{state.name}/status/{state.status}/{state.verdict or 'none'}"),
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

    def of_job(self, document: Mapping[str, Any], rules: Sequence[RuleState], *, status: str) -> list[Notification]:
        """The transitions of the job that were not told yet.

        Args:
            document: ``status.json``.
            status: The status as it is: of a run whose agent is gone nobody writes it.
        """
        transitions = list(document.get("transitions") or ())
        last = transitions[-1]["status"] if transitions else self.job_status
        new = transitions[self._transitions :]
        told = [self._of_job(each["status"], each["time_ns"], rules, document) for each in new]
        self._transitions = len(transitions)
        if status in JOB_ENDED and last not in JOB_ENDED and self.job_status != status:
            ended_ns = max([self._manifest.started_ns, *(each["time_ns"] for each in transitions)])
            told.append(self._of_job(status, ended_ns, rules, {}))
        return told

    def _of_job(
        self, status: str, time_ns: int, rules: Sequence[RuleState], document: Mapping[str, Any]
    ) -> Notification:
        previous, self.job_status = self.job_status, status
        has_ended = status in JOB_ENDED and document.get("status") == status
        exit_status = document.get("exit_status") if has_ended else None
        by = document.get("stopped_by") if status in ("Stopping", "Stopped") else None
        message = _JOB_WORDS.get(status, f"the run is {status}")
        message += f" by {str(by).removeprefix('rule:')}" if by else ""
        message += f", exit status {exit_status}" if exit_status is not None else ""
        facts = {"exit_status": exit_status, "stopped_by": by}
        return self._notice(
            self._again(f"{JOB}/{status}"),
            "job_status",
            status,
            time_ns,
            rules,
            previous=previous if previous != status else None,
            message=message,
            evidence={name: each for name, each in facts.items() if each is not None},
        )

    def _notice(
        self, name: str, kind: NoticeKind, status: str, time_ns: int, rules: Iterable[RuleState], **more: Any
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

    def _again(self, name: str) -> str:
        count = self._given[name] = self._given.get(name, 0) + 1
        return _name(name, count)


def _name(name: str, count: int) -> str:
    """A name as it is; where the same comes again, with how often it came."""
    return name if count == 1 else f"{name}/{count}"


def _heard(state: RuleState) -> _Heard:
    return state.status, state.verdict, state.why
