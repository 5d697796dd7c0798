"""The summary at the end of a run, in at most thirty lines."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leadline.agent.terminal import PREFIX
from leadline.records import describe
from leadline.records.documents import LoggedAction, RuleSummary, SummarizedRule, TimeSummary, WorkerDocument
from leadline.records.formatting import (
    counted,
    duration,
    first_words,
    number,
    phase_label,
    share,
    short_path,
    signal_name,
)
from leadline.records.outcome import RunOutcome
from leadline.records.problems import Problem
from leadline.records.totals import (
    compile_seconds,
    own_seconds,
    sampled,
    start_and_rest,
    step_share,
    steps_behind,
    steps_by_mode,
)
from leadline.records.trainer_facts import checkpoint_to_keep, planned_steps

MAX_LINES: Final = 30
_MAX_LINES_PER_FINDING: Final = 4
_MAX_ACTION_LINES: Final = 2
_MAX_FAILED_ACTIONS: Final = 3
_MIN_WIDTH: Final = 20


@dataclass(frozen=True, slots=True)
class JobEnd:
    """Everything that the summary is made from."""

    outcome: RunOutcome
    status: str
    exit_status: int | None
    """The exit status of the command, -n for signal n; None: unknown."""
    final_status: int
    """The exit status of ``leadline run``."""
    seconds: float
    workers: tuple[WorkerDocument, ...]
    run_bytes: int
    summary: RuleSummary | None
    """The latest ``rules/summary.json``."""
    has_rules: bool
    dropped: tuple[str, ...] = ()
    """What was not written, one sentence for each worker."""
    actions: tuple[LoggedAction, ...] = ()
    """The last known state of each action that was triggered."""
    report: str | None = None
    """Where the report of the run will be; None: nobody renders one."""
    why_not_monitored: str | None = None
    """Why Leadline could not be loaded into the job, where that was known before the start."""
    beside_seconds: float | None = None
    """The processor time of the agents and the judge."""


def summary_lines(end: JobEnd, *, width: int) -> list[str]:
    """Return the lines of the summary; the first ones are the outcome of the run."""
    summary = end.summary or RuleSummary()
    start = f"{PREFIX}  "
    lines = [line for sentence in end.outcome.sentences for line in _wrap(" " * len(start), sentence, width)]
    head = [start + lines[0].lstrip(), *lines[1:]]
    head += _wrap(f"{PREFIX}  ", _facts(end), width)
    checkpoint = checkpoint_to_keep(end.workers, end.outcome.findings_ranked)
    if checkpoint is not None and checkpoint.problem_step is not None:
        head += _wrap(f"{PREFIX}  ", f"checkpoint: {checkpoint.describe()}", width)
    if not end.workers and (end.status != "Failed" or end.why_not_monitored is not None):
        head += _wrap(f"{PREFIX}  ", _why_no_step(end), width)
    sampling = describe.sampling(sampled(end.workers))
    head += _fitting_lines("sampled less often to stay within the overhead budget", sampling, width, lines=2)
    for dropped in end.dropped:
        head += _wrap(f"{PREFIX}  ", f"incomplete data: {dropped}", width)
    if end.has_rules:
        head += [
            line
            for text in _rule_facts(summary, end.outcome, end.workers)
            for line in _wrap(f"{PREFIX}  ", text, width)
        ]
        head += _undecided_line(summary.rules, width) if steps_by_mode(end.workers) else []
    head += _time_lines(summary.time, end.outcome, width)
    head += _action_lines(end.actions, width)
    tail = ["  report: leadline report          dashboard: leadline ui"]
    if end.report is not None:
        place = short_path(end.report, os.getcwd())
        tail = [f"  report: {place} (in a few seconds)", "  dashboard: leadline ui"]
    room = MAX_LINES - len(head) - len(tail)
    failed = [Problem(rule) for rule in summary.rules if describe.rule_state(rule) == "error"]
    return head[: MAX_LINES - 1] + _rule_paragraphs([*end.outcome.problems, *failed], width, room) + tail


def _action_lines(actions: tuple[LoggedAction, ...], width: int) -> list[str]:
    """Return the counts of actions by name, and the first few failures."""
    counts = Counter((action.state, action.action) for action in actions)
    named = [
        (label, _with_count(name, count))
        for state, label in (("done", "actions done"), ("asked", "actions not confirmed"))
        for (its_state, name), count in counts.items()
        if its_state == state
    ]
    failures = list(dict.fromkeys(_failure(action) for action in actions if action.has_failed))
    lines = _fitting_names(named, width) if named else []
    for failure in failures[:_MAX_FAILED_ACTIONS]:
        lines += _first_lines(f"{PREFIX}  ", failure, width, 2)
    more = len(failures) - _MAX_FAILED_ACTIONS
    return lines + ([f"{PREFIX}  and {counted(more, 'more failed action')}"] if more > 0 else [])


def _fitting_names(named: list[tuple[str, str]], width: int) -> list[str]:
    """Return the names behind their labels that fit into two lines, and how many more there are."""
    lines: list[str] = []
    for shown in range(len(named), -1, -1):
        groups: dict[str, list[str]] = {}
        for label, name in named[:shown]:
            groups.setdefault(label, []).append(name)
        more = [f"{counted(len(named) - shown, 'more action')} in leadline show"] if shown < len(named) else []
        parts = [f"{label}: {', '.join(names)}" for label, names in groups.items()]
        lines = _wrap(f"{PREFIX}  ", "; ".join([*parts, *more]), width)
        if len(lines) <= _MAX_ACTION_LINES:
            break
    return lines


def _failure(action: LoggedAction) -> str:
    return f"{action.rule}: {action.action} {action.outcome}"


def _with_count(name: str, count: int) -> str:
    return name if count == 1 else f"{name} ({number(count)} times)"


def _facts(end: JobEnd) -> str:
    """``exit 10, 3 m 12 s, 603 steps. Overhead: 2.34 s (0.7 % of step time), 41 MB written.``"""
    counts = steps_by_mode(end.workers)
    steps = describe.steps(counts, planned_steps(end.workers), nothing="")
    facts = [_format_exit(end), duration(end.seconds), *([steps] if steps else [])]
    overhead = describe.overhead(
        own_seconds(end.workers),
        step_share(end.workers),
        start=start_and_rest(end.workers),
        compile_seconds=compile_seconds(end.workers),
        beside_seconds=end.beside_seconds,
        written_bytes=end.run_bytes,
    )
    return f"{', '.join(facts)}. Overhead: {overhead}."


def _format_exit(end: JobEnd) -> str:
    code = end.exit_status
    if code is None:
        return "exit status unknown"
    if end.status == "Stopped":
        return f"exit {end.final_status}"
    return f"killed by {signal_name(-code)}" if code < 0 else f"exit {code}"


def _why_no_step(end: JobEnd) -> str:
    if end.why_not_monitored is not None:
        return f"system metrics only: {end.why_not_monitored}"
    return (
        "no training step was seen, only system metrics were recorded: the command may not train with a supported "
        "framework, may have ended before its first step, or starts Python with -I, -E, -S or an environment of its "
        "own; leadline doctor checks this"
    )


def _rule_facts(summary: RuleSummary, outcome: RunOutcome, workers: Iterable[WorkerDocument]) -> list[str]:
    """Return the counts of rules where the outcome has none, and how to complete the evaluation."""
    if not summary.rules:
        return ["the rules were not evaluated; evaluate them now with: leadline judge"]
    counts = [outcome.rules.words(with_fired=True)] if outcome.findings_ranked else []
    behind = steps_behind(summary, workers) if summary.judged_step >= 0 else 0
    how = f": the judge was {counted(behind, 'step')} behind" if behind else ""
    return counts + ([] if summary.complete else [f"evaluation incomplete{how}, complete it with: leadline judge"])


def _undecided_line(rules: tuple[SummarizedRule, ...], width: int) -> list[str]:
    """Return one line with the reasons why rules are undecided, the most common one first."""
    reasons: dict[str, list[str]] = {}
    for rule in rules:
        if describe.rule_state(rule) == "undecided":
            why = rule.why.partition(": ")[0].partition(", and ")[0]  # leadline show has the whole reason
            reasons.setdefault(why or "no reason given", []).append(rule.name)
    ordered = sorted(reasons.items(), key=lambda reason: -len(reason[1]))
    parts = [f"{why} ({names[0] if len(names) == 1 else counted(len(names), 'rule')})" for why, names in ordered]
    return _fitting_lines("undecided", parts, width, lines=1)


def _fitting_lines(title: str, parts: list[str], width: int, *, lines: int) -> list[str]:
    """Return the parts that fit into some lines, and how many more there are."""
    for shown in range(len(parts), -1, -1):
        more = [f"{len(parts) - shown} {'more ' if shown else ''}in leadline show"] if shown < len(parts) else []
        wrapped = _wrap(f"{PREFIX}  ", f"{title}: {'; '.join([*parts[:shown], *more])}", width)
        if len(wrapped) <= lines:
            return wrapped if parts else []
    return []


def _time_lines(time: TimeSummary | None, outcome: RunOutcome, width: int) -> list[str]:
    """Return the time breakdown; nothing where no step was timed.

    What bounds the run is shown where nothing is wrong with the model, unless the outcome says it already. An
    overloaded machine, which makes the times unreliable, is noted below them where the outcome does not note it.
    """
    if not time:
        return []
    own, of_whole = describe.own_phases((entry.phase, entry.share) for entry in time.phases)
    start = f"{PREFIX}  time{of_whole}: "
    parts = ", ".join(f"{phase_label(phase)} {share(ratio)}" for phase, ratio in own)
    bottleneck = time.bound
    if not bottleneck or outcome.level not in ("clear", "unknown"):
        return [*_first_lines(start, parts, width, 2), *_overload_line(time, outcome, width)]
    advice = _first_lines(" " * len(start), f"try: {bottleneck['try']}", width, 2)
    text = f"{parts}; bottleneck: {bottleneck['kind']}, {bottleneck['message']}"
    return [*_first_lines(start, text, width, 3), *advice, *_overload_line(time, outcome, width)]


def _overload_line(time: TimeSummary, outcome: RunOutcome, width: int) -> list[str]:
    message = (time.overload or {}).get("message", "")
    return _first_lines(f"{PREFIX}  note: ", message, width, 2) if message and not outcome.note else []


def _rule_paragraphs(shown: list[Problem], width: int, room: int) -> list[str]:
    name_width = max((len(problem.cause.name) for problem in shown), default=0)
    step_width = max((len(describe.rule_place(problem.cause)) for problem in shown), default=0)
    lines: list[str] = []
    for position, problem in enumerate(shown):
        paragraph = _rule_paragraph(problem, name_width, step_width, width)
        left = len(shown) - position
        if len(lines) + len(paragraph) + (left > 1) > room:
            return [*lines, f"  and {counted(left, 'more rule')}"][:room]
        lines += paragraph
    return lines


def _rule_paragraph(problem: Problem, name_width: int, step_width: int, width: int) -> list[str]:
    rule = problem.cause
    has_fired = describe.rule_state(rule) == "fired"
    start = f"  {rule.name:<{name_width}}  {describe.rule_place(rule):<{step_width}}   "
    why = (rule.message if has_fired else rule.why) or "no reason given"
    lines = _first_lines(start, why, width, _MAX_LINES_PER_FINDING - 1)
    if has_fired and rule.suggestion:
        lines += _first_lines(" " * len(start), describe.advice(rule.suggestion), width, 3)
    return lines + (_first_lines(" " * len(start), problem.explains, width, 2) if problem.effects else [])


def _first_lines(start: str, text: str, width: int, most: int) -> list[str]:
    """Wrap a text, and end it with ``…`` where it takes more lines than there may be."""
    lines = _wrap(start, text, width)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], first_words(lines[most - 1], max(len(start) + 1, width - 2)) + " …"]


def _wrap(start: str, text: str, width: int) -> list[str]:
    """Wrap a text behind its start, with further lines indented below the text; a word is never broken."""
    room = max(_MIN_WIDTH, width - len(start))
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return [start + lines[0], *(" " * len(start) + line for line in lines[1:])]
