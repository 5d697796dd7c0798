"""The outcome of a run in one line, and the order of its findings; every surface shows this record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from leadline.records import describe, verdict_scope
from leadline.records.documents import (
    DisabledCapture,
    RuleSummary,
    RunStatus,
    SummarizedRule,
    TimeSummary,
    WorkerDocument,
)
from leadline.records.formatting import clause, counted, number
from leadline.records.names import JOB_ENDED, NO_BETTER, OVERHEAD, SEVERITIES
from leadline.records.outcome_document import OutcomeDocument
from leadline.records.problems import Problem, place_of
from leadline.records.rule_counts import RuleCounts, count_rules
from leadline.records.run_end import error_of, how_it_ended
from leadline.records.trainer_facts import with_checkpoint_name

Level = Literal["fatal", "warning", "advice", "clear", "unknown"]
LEVELS: Final[tuple[Level, ...]] = ("fatal", "warning", "advice", "unknown", "clear")
"""The levels of an outcome, the worst first."""

_WORDS: Final[dict[Level, str]] = {
    "fatal": "▲ problem",
    "warning": "▲ problem",
    "advice": "● advice",
    "clear": "✓ ok",
    "unknown": "– no verdict",
}
_ENDED: Final = {"Failed": "✗ failed", "Interrupted": "✗ interrupted", "Stopped": "■ stopped"}
_BLIND: Final = "◌ blind"
_READ_OUTPUT: Final = "read the output of the command, in the terminal or log where it ran"
_CHECK: Final = "leadline check with the same command, which tests its inputs, labels and updates on a copy"
_CHECKED: Final = ("torch", "keras", "tensorflow", "jax")
_PROBE: Final = "unlearnable_batch"
"""A rule that a run has only if such a copy was tested."""
_REPORT: Final = "the latest version of Leadline; if it fails as well, please report this line"
_SAME: Final = {"input": "input_bound", "communication": "straggler", "memory": "memory_growth"}
"""The rule whose finding says the same as a bottleneck."""
_NAMED_STEPS: Final = re.compile(r"(since|from|of) (step|round) \d")


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended or is going, what is wrong with it, the first sign of that, and what to try."""

    headline: str
    """How it ended and its worst problem, without a final period."""
    first_sign: str = ""
    """The earliest finding of the worst problem's chain of causes, if that is another one, with its step."""
    advice: str = ""
    """The first thing to try."""
    cause: str = ""
    """The name of the rule whose finding is the root cause of the worst problem."""
    level: Level = "unknown"
    """The severity of the worst problem; ``clear``: no problem; ``unknown``: no rule has a verdict."""
    rules: RuleCounts = field(default_factory=RuleCounts)
    findings_ranked: tuple[SummarizedRule, ...] = ()
    """The rules that fired, in the order of ``ranked``."""
    note: str = ""
    """What makes the times of a run without problems unreliable: an overloaded machine."""
    remarks: tuple[str, ...] = ()
    """What is worth knowing of a run that has ended without a problem."""
    possible_causes: tuple[str, ...] = ()
    """Remarks that are facts about the program, where there is a problem of the model."""
    best_evaluation: str = ""
    """The best evaluation of a run that has ended, and its noise."""
    capture_ended: DisabledCapture | None = None
    """The first failure of ours that ended the capture in a worker; what the training did afterwards is not known."""
    verdict: str = ""
    """The headline without how the run ended, for a table that has the status and the steps in columns of their own."""
    word: str = _WORDS["unknown"]
    """The verdict as a sign and one or two words, with which lists begin: ``✓ ok``, ``▲ problem``, ``✗ failed``."""

    @property
    def plain_word(self) -> str:
        """The word without its sign: ``ok``, ``problem``, ``failed``."""
        return self.word.partition(" ")[2]

    @property
    def brief(self) -> str:
        """The verdict, the first sign, what to try, and the remarks, in one line; see ``sentences``."""
        return " ".join(self._sentences(self.verdict or self.headline))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The rules that fired, each cause with its effects, in the order of ``ranked``."""
        causes = {rule.name: rule for rule in self.findings_ranked if rule.explained_by is None}
        groups: dict[str, list[SummarizedRule]] = {}
        for rule in self.findings_ranked:
            cause = causes.get(rule.explained_by or rule.name, rule)
            effects = groups.setdefault(cause.name, [])
            if cause is not rule:
                effects.append(rule)
        by_name = {rule.name: rule for rule in self.findings_ranked}
        return tuple(Problem(by_name[name], tuple(effects)) for name, effects in groups.items())

    @property
    def sentences(self) -> tuple[str, ...]:
        """Headline, first sign, what to try, and the remarks, each with its period.

        Of a run with a problem the remarks are those that may be its cause.
        """
        return self._sentences(self.headline)

    @property
    def text(self) -> str:
        """The sentences in one line."""
        return " ".join(self.sentences)

    def _sentences(self, headline: str) -> tuple[str, ...]:
        texts = [f"Note: {self.note}"] if self.note else []
        texts += [f"Possible cause: {clause(cause)}" for cause in self.possible_causes]
        texts += [f"Remark: {cut}" for cut in map(clause, self.remarks) if cut not in headline]
        texts += [self.best_evaluation[:1].upper() + self.best_evaluation[1:]]
        parts = (headline, self.first_sign, f"Try: {self.advice}" if self.advice else "", *texts)
        return tuple(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts if part)

    def to_dict(self) -> OutcomeDocument:
        """Return the outcome as plain JSON values."""
        return {
            "text": self.text,
            "word": self.plain_word,
            "level": self.level,
            "headline": self.headline,
            "cause": self.cause or None,
            "first_sign": self.first_sign,
            "advice": self.advice,
            "note": self.note,
            "rules": {name: getattr(self.rules, name) for name in RuleCounts.__slots__},
            "findings_ranked": [problem.to_dict() for problem in self.problems],
            "remarks": list(self.remarks),
            "possible_causes": list(self.possible_causes),
            "best_evaluation": self.best_evaluation or None,
            "capture_ended": asdict(self.capture_ended) if self.capture_ended is not None else None,
        }


def run_outcome(status: RunStatus, summary: RuleSummary, workers: Iterable[WorkerDocument]) -> RunOutcome:
    """Return the outcome of a run.

    Performance advice is part of the headline only where no rule found a problem of the model.

    Args:
        status: The job's status; of a run whose agent is gone, with the status that follows from its workers.
    """
    workers = list(workers)
    outcome = _outcome(status, summary, workers)
    word, advice = _ENDED.get(status.status) or _WORDS[outcome.level], with_checkpoint_name(outcome.advice, workers)
    outcome = replace(outcome, word=word, advice=advice)
    ended = [worker.off for worker in workers if worker.off is not None]
    if ended:
        return _with_ended_capture(outcome, ended, len(workers))
    if status.status not in JOB_ENDED:
        return outcome
    has_problem = outcome.level in ("fatal", "warning")
    is_of_model = has_problem and any(
        rule.severity != "advice" and rule.rule not in verdict_scope.OF_THE_MACHINE for rule in outcome.findings_ranked
    )
    return replace(
        outcome,
        remarks=() if has_problem else summary.remarks,
        possible_causes=summary.possible_causes if is_of_model else (),
        best_evaluation=summary.best_evaluation,
    )


def _with_ended_capture(outcome: RunOutcome, ended: Sequence[DisabledCapture], workers: int) -> RunOutcome:
    """Return an outcome that says first that the capture ended before the training did."""
    first = min(ended, key=lambda capture: -1 if capture.step is None else capture.step)
    line = describe.ended_capture(first)
    where = f" (in {number(len(ended))} of {number(workers)} workers)" if workers > 1 else ""
    start = f"{line[0].upper()}{line[1:]}{where}, and the training went on unwatched"
    return replace(
        outcome,
        word=_BLIND,
        headline=f"{start}; {outcome.headline}",
        verdict=f"{start}; {outcome.verdict}" if outcome.verdict else start,
        advice=outcome.advice or _REPORT,
        level=outcome.level if outcome.level == "fatal" else "warning",
        capture_ended=first,
    )


def _outcome(status: RunStatus, summary: RuleSummary, workers: Sequence[WorkerDocument]) -> RunOutcome:
    stopped_by = describe.sender(status.stopped_by)
    fired, counts = ranked(summary.rules, stopped_by), count_rules(summary.rules)
    problems = [rule for rule in fired if rule.severity != "advice" or rule.name == stopped_by]
    head = how_it_ended(status, workers)
    error = error_of(status, workers) if status.status == "Failed" else ""
    if problems:
        outcome = _with_problems(head, problems, fired, counts, stopped_by)
        return replace(outcome, verdict=f"{error}; {outcome.verdict}") if error else outcome
    standing = [rule for rule in fired if not rule.has_passed]
    of_model = [
        rule for rule in standing if rule.rule not in verdict_scope.OF_THE_MACHINE and rule.explained_by is None
    ]
    remark = "" if of_model else _leading_remark(status, summary, workers)
    time = summary.time or TimeSummary()
    cause, slow, slow_advice = ("", "", "") if of_model or remark else _slowest(time.bound, standing)
    follows: Literal["", "advice", "problem"] = "problem" if of_model or remark else "advice" if slow else ""
    verdict = _verdict(status, summary, counts, workers, follows=follows, is_after_finding=bool(of_model or cause))
    if status.status == "Failed":
        advice, verdict = "" if error else _READ_OUTPUT, _verdict(status, summary, counts, workers)
        return RunOutcome(f"{head}{verdict}", "", advice, "", "fatal", counts, fired, verdict=error)
    note = (time.overload or {}).get("message", "")
    if of_model:
        first, message = of_model[0], _message(of_model[0])
        headline = f"{head}; {message}{verdict}"
        advice = _first_attempt(first.suggestion or "")
        return RunOutcome(
            headline, "", advice, first.name, "advice", counts, fired, note, verdict=f"{message}{verdict}"
        )
    if remark:
        slow, slow_advice = remark, _CHECK if _can_be_checked(summary, workers) else ""
    level: Level = "advice" if slow else "clear" if counts.clear else "unknown"
    headline = (f"; {slow}" if slow else "") + verdict
    return RunOutcome(
        f"{head}{headline}", "", slow_advice, cause, level, counts, fired, note, verdict=headline.lstrip(",; ")
    )


def _leading_remark(status: RunStatus, summary: RuleSummary, workers: Sequence[WorkerDocument]) -> str:
    """Return the remark that a training has learned nothing that its input says; empty: none, or it has not ended."""
    if status.status not in JOB_ENDED or status.status == "Failed" or any(worker.off is not None for worker in workers):
        return ""
    return next((clause(remark) for remark in summary.remarks if NO_BETTER in remark), "")


def _can_be_checked(summary: RuleSummary, workers: Sequence[WorkerDocument]) -> bool:
    is_done = any(rule.rule == _PROBE for rule in summary.rules)
    return not is_done and all((worker.framework or "torch").startswith(_CHECKED) for worker in workers)


def _with_problems(
    head: str,
    problems: Sequence[SummarizedRule],
    fired: tuple[SummarizedRule, ...],
    counts: RuleCounts,
    stopped_by: str,
) -> RunOutcome:
    """Return the outcome of a run with findings that concern the model, the worst first."""
    worst = problems[0]
    root = next((rule for rule in fired if rule.name == worst.explained_by), worst)
    chains, message = len({rule.explained_by or rule.name for rule in problems}), _message(worst)
    found = f"{counted(chains, 'problem')} found{', the worst' * (chains > 1)} by {worst.name}"
    start = head if worst.name == stopped_by else f"{head}; {found}"
    place = place_of(root)
    is_first = (root.step or 0) <= (worst.step or 0)  # else it took longer to be certain of what began before
    sign = "First sign at" if is_first else "Cause confirmed at"
    first_sign = f"{sign} {place or 'the start'}: {clause((root.message or '').removesuffix(f', at {place}'))}"
    return RunOutcome(
        headline=f"{start}: {message}",
        first_sign=first_sign if root is not worst else "",
        advice=_first_attempt(root.suggestion or ""),
        cause=root.name,
        level="fatal" if worst.severity == "fatal" else "warning",
        rules=counts,
        findings_ranked=fired,
        verdict=f"{counted(chains, 'problem') + '; ' if chains > 1 else ''}{worst.name}: {message}",
    )


def ranked(rules: Iterable[SummarizedRule], stopped_by: str = "") -> tuple[SummarizedRule, ...]:
    """Return the rules that fired, the worst first.

    Findings with the same root cause stay together. The group of the rule that stopped the run comes first, then the
    groups by their severest finding, then by step. Within a group: the rule that stopped the run, then the severest,
    then the earliest, so that of equally severe findings the cause comes before its effects.

    Args:
        stopped_by: The rule that stopped the run; empty: none.
    """
    fired = [rule for rule in rules if describe.rule_state(rule) == "fired"]
    groups: dict[str, list[SummarizedRule]] = {}
    for rule in fired:
        groups.setdefault(rule.explained_by or rule.name, []).append(rule)
    best = {root: min(_rank(rule, stopped_by) for rule in group) for root, group in groups.items()}

    def sort_key(rule: SummarizedRule) -> tuple[Any, ...]:
        root = rule.explained_by or rule.name
        return *best[root][:2], min(map(_step, groups[root])), root, *_rank(rule, stopped_by), rule.name != root

    return tuple(sorted(fired, key=sort_key))


def _rank(rule: SummarizedRule, stopped_by: str) -> tuple[bool, int, int]:
    return rule.name != stopped_by, SEVERITIES.index(rule.severity), _step(rule)


def _step(rule: SummarizedRule) -> int:
    return -1 if rule.step is None else rule.step


def _verdict(
    status: RunStatus,
    summary: RuleSummary,
    counts: RuleCounts,
    workers: Sequence[WorkerDocument],
    *,
    follows: Literal["", "advice", "problem"] = "",
    is_after_finding: bool = False,
) -> str:
    """``, no problem found in losses, 1 piece of advice (12 rules clear); too little was seen of validation``.

    Empty: a running run has no verdict yet.

    Args:
        follows: What it follows in the line: nothing, advice on the time, or a problem of the model.
        is_after_finding: Whether the finding of a rule stands before it, which is not counted then.
    """
    is_other, start = follows == "problem", ";" if follows else ","
    given = sum(rule.severity == "advice" and rule.explained_by is None for rule in ranked(summary.rules))
    more = given - is_after_finding
    advice = (
        f", {number(more)} {'more ' * is_after_finding}{'piece' if more == 1 else 'pieces'} of advice" if more else ""
    )
    until = "; no rule found a problem until then" if any(worker.off is not None for worker in workers) else ""
    if status.status not in JOB_ENDED:
        lag = describe.judge_lag(summary, workers)
        found = f"{start} no {'other ' * is_other}problem found so far"
        so_far = f"{until or found}{advice} ({counts.words()})" if counts.clear else ""
        return so_far + (f"; {lag}" if lag else "")
    if not counts.total:
        return "; no rules were evaluated"
    words = counts.words() + ("" if summary.complete else ", evaluation incomplete")
    if not counts.clear:
        return f"; no verdict ({words})"
    found = f"{start} no {'other ' * is_other}problem found"
    if status.status != "Completed":
        found = "; no rule found another problem" if is_other else "; no rule found a problem"
    seen, unseen = verdict_scope.words(summary.rules)
    return f"{until or found}{seen}{advice} ({words}){unseen}"


def _slowest(bound: Mapping[str, str] | None, fired: Sequence[SummarizedRule]) -> tuple[str, str, str]:
    """Return the rule (if one found it), what slows the training down, and what to try; empty: nothing known.

    The bottleneck of the whole run, which is known at its end, goes before findings on parts of it. Leadline's own
    overhead is not part of it: each surface shows it beside the outcome.
    """
    if bound and bound.get("kind") != "compute" and bound.get("phase") != OVERHEAD:
        same = _SAME.get(bound.get("kind", ""))
        name = next((rule.name for rule in fired if rule.rule == same), "")
        return name, f"{bound.get('kind')}-bound: {bound.get('message')}", bound.get("try", "")
    for rule in fired[:1]:
        start = "input-bound" if rule.rule == "input_bound" else rule.name
        return rule.name, f"{start}: {_message(rule)}", _first_attempt(rule.suggestion or "")
    return "", "", ""


def _message(rule: SummarizedRule) -> str:
    """Return the message of a finding with its steps, unless it names them.

    ``loss is NaN (found at step 600)`` of a finding that is open, ``(since step 540, found at step 600)`` where the
    rule knows when it began, ``loss is high (steps 300 to 390)`` of one that closed.
    """
    whole, place = (rule.message or "fired").rstrip("."), place_of(rule)
    message = clause(whole)
    has_steps = _NAMED_STEPS.search(whole) or f"step {rule.step}" in whole or f"step {_step(rule):,}" in whole
    if not place or has_steps:
        return message
    found = f"found at {place}"
    if rule.since_step is not None and 0 <= rule.since_step < _step(rule):
        found = f"since step {number(rule.since_step)}, {found}"
    when = found if rule.is_open else describe.steps_of(_step(rule), rule.last_step)
    return f"{message}, {when}" if message.endswith(")") else f"{message} ({when})"


def _first_attempt(suggestion: str) -> str:
    """Return the first part of a suggestion, without the usual cause behind it."""
    return clause(suggestion.partition("; usually")[0].removeprefix("try: "))
