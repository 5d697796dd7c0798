"""The summary at the end of a run, in at most thirty lines."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from leadline.agent.terminal import PREFIX
from leadline.records import describe
from leadline.records.documents import LoggedAction, RuleSummary, SummarizedRule, TimeSummary, WorkerDocument
from leadline.records.formatting import counted, duration, number, share, signal_name
from leadline.records.totals import sampled, step_share, steps_by_mode

MAX_LINES: Final = 30
_MAX_LINES_PER_FINDING: Final = 4
_MAX_ACTION_LINES: Final = 2
_MAX_FAILED_ACTIONS: Final = 3
_MIN_RULES_TO_GROUP: Final = 3
"""So many rules that are undecided for the same reason share one paragraph."""
_PHASE_LABELS: Final = {"watching": "Leadline"}
_SHOWN: Final = ("fired", "error", "undecided")
"""The states of rules that have a paragraph, in order."""
_STATUS_LABELS: Final = {"Completed": "finished", "Failed": "failed", "Interrupted": "interrupted"}


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Everything that the summary is made from."""

    status: str
    exit_status: int | None
    """The exit status of the command, -n for signal n; None: unknown."""
    final_status: int
    """The exit status of ``leadline run``."""
    stopped_by: str | None
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
    unwatched: str | None = None
    """Why Leadline could not be loaded into the job, where that was known before the start."""


def summary_lines(outcome: RunOutcome, *, width: int) -> list[str]:
    """Return the lines of the summary."""
    head = [f"{PREFIX}  {_headline(outcome)}"]
    if not outcome.workers:
        head += _wrap(f"{PREFIX}  ", _why_no_step(outcome), width)
    sampling = "; ".join(describe.sampling(sampled(outcome.workers)))
    if sampling:
        head += _wrap(f"{PREFIX}  ", f"sampled less often to stay within the overhead budget: {sampling}", width)[:2]
    for dropped in outcome.dropped:
        head += _wrap(f"{PREFIX}  ", f"incomplete data: {dropped}", width)
    summary = outcome.summary or RuleSummary()
    if outcome.has_rules:
        head += _wrap(f"{PREFIX}  ", _rule_counts(summary), width)
    head += _time_lines(summary.time, width)
    head += _action_lines(outcome.actions, width)
    tail = ["  report: leadline report          dashboard: leadline ui"]
    room = MAX_LINES - len(head) - len(tail)
    return head[: MAX_LINES - 1] + _rule_paragraphs(summary.rules, width, room) + tail


def _action_lines(actions: tuple[LoggedAction, ...], width: int) -> list[str]:
    """Return the counts of actions by name, and the first few failures."""
    done = Counter(action.action for action in actions if action.state == "done")
    unconfirmed = Counter(action.action for action in actions if action.state == "asked")
    failures = list(dict.fromkeys(_failure(action) for action in actions if action.has_failed))
    parts = [
        f"{label}: {', '.join(_with_count(name, count) for name, count in counts.items())}"
        for label, counts in (("actions done", done), ("actions not confirmed", unconfirmed))
        if counts
    ]
    lines = _wrap(f"{PREFIX}  ", "; ".join(parts), width)[:_MAX_ACTION_LINES] if parts else []
    for failure in failures[:_MAX_FAILED_ACTIONS]:
        lines += _wrap(f"{PREFIX}  ", failure, width)[:2]
    more = len(failures) - _MAX_FAILED_ACTIONS
    return lines + ([f"{PREFIX}  and {counted(more, 'more failed action')}"] if more > 0 else [])


def _failure(action: LoggedAction) -> str:
    return f"{action.rule}: {action.action} {action.outcome}"


def _with_count(name: str, count: int) -> str:
    return name if count == 1 else f"{name} ({number(count)} times)"


def _headline(outcome: RunOutcome) -> str:
    counts = steps_by_mode(outcome.workers)
    shown = {"train": counts["train"]} if counts.get("train") else counts  # evaluation only where nothing was trained
    overhead = describe.overhead(step_share(outcome.workers), written_bytes=outcome.run_bytes)
    steps = describe.steps(shown, nothing="")
    facts = [_format_exit(outcome), duration(outcome.seconds), *([steps] if steps else [])]
    return f"{_format_status(outcome)}: {', '.join(facts)}. Overhead: {overhead}."


def _format_status(outcome: RunOutcome) -> str:
    if outcome.status == "Stopped":
        return f"stopped by {describe.sender(outcome.stopped_by) or 'request'}"
    return _STATUS_LABELS.get(outcome.status, outcome.status)


def _format_exit(outcome: RunOutcome) -> str:
    code = outcome.exit_status
    if code is None:
        return "exit status unknown"
    if outcome.status == "Stopped":
        return f"exit {outcome.final_status}"
    return f"killed by {signal_name(-code)}" if code < 0 else f"exit {code}"


def _why_no_step(outcome: RunOutcome) -> str:
    if outcome.unwatched is not None:
        return f"system metrics only: {outcome.unwatched}"
    return (
        "no training step was seen, only system metrics were recorded: the command may not train with PyTorch, "
        "may have ended before its first step, or starts Python with -I, -E, -S or an environment of its own"
    )


def _rule_counts(summary: RuleSummary) -> str:
    if not summary.rules:
        return "the rules were not evaluated; evaluate them now with: leadline judge"
    counts = Counter(map(describe.rule_state, summary.rules))
    parts = [f"{number(counts['fired'])} of {counted(len(summary.rules), 'rule')} fired"]
    labels = {"clear": counts["clear"], "undecided": counts["undecided"], "failed": counts["error"]}
    parts += [f"{number(count)} {label}" for label, count in labels.items() if count]
    return ", ".join(parts) + ("" if summary.complete else "; evaluation incomplete, complete it with: leadline judge")


def _time_lines(time: TimeSummary | None, width: int) -> list[str]:
    """Return the time breakdown, the bottleneck and what to try first; nothing where no step was timed."""
    if not time:
        return []
    start = f"{PREFIX}  time: "
    parts = ", ".join(f"{_PHASE_LABELS.get(entry.phase, entry.phase)} {share(entry.share)}" for entry in time.phases)
    bottleneck = time.bound
    if not bottleneck:
        return _wrap(start, parts, width)[:2]
    advice = _wrap(" " * len(start), f"try: {bottleneck['try']}", width)[:2]
    text = f"{parts}; bottleneck: {bottleneck['kind']}, {bottleneck['message']}"
    return [*_wrap(start, text, width)[:3], *advice]


def _rule_paragraphs(rules: tuple[SummarizedRule, ...], width: int, room: int) -> list[str]:
    shown = _group_undecided([rule for state in _SHOWN for rule in rules if describe.rule_state(rule) == state])
    name_width = max((len(rule.name) for rule in shown), default=0)
    step_width = max((len(describe.rule_place(rule)) for rule in shown), default=0)
    lines: list[str] = []
    for position, rule in enumerate(shown):
        paragraph = _rule_paragraph(rule, name_width, step_width, width)
        left = len(shown) - position
        if len(lines) + len(paragraph) + (left > 1) > room:
            return [*lines, f"  and {counted(left, 'more rule')}"][:room]
        lines += paragraph
    return lines


def _group_undecided(rules: list[SummarizedRule]) -> list[SummarizedRule]:
    """Merge rules that are undecided for the same reason into one entry, where there are several."""
    groups: dict[str, list[SummarizedRule]] = {}
    for rule in rules:
        is_undecided = describe.rule_state(rule) == "undecided" and rule.why
        groups.setdefault(rule.why if is_undecided else f"\0{rule.name}", []).append(rule)
    merged = []
    for group in groups.values():
        names = ", ".join(rule.name for rule in group)
        entry = replace(group[0], name=f"{len(group)} rules", why=f"{group[0].why}: {names}")
        merged += [entry] if len(group) >= _MIN_RULES_TO_GROUP else group
    return merged


def _rule_paragraph(rule: SummarizedRule, name_width: int, step_width: int, width: int) -> list[str]:
    has_fired = describe.rule_state(rule) == "fired"
    start = f"  {rule.name:<{name_width}}  {describe.rule_place(rule):<{step_width}}   "
    lines = _wrap(start, (rule.message if has_fired else rule.why) or "no reason given", width)
    if len(lines) > _MAX_LINES_PER_FINDING - 1:
        lines = lines[: _MAX_LINES_PER_FINDING - 1]
        lines[-1] = lines[-1][: max(len(start) + 1, width - 2)] + " …"
    if has_fired and rule.suggestion:
        lines += _wrap(" " * len(start), describe.advice(rule.suggestion), width)[:3]
    return lines


def _wrap(start: str, text: str, width: int) -> list[str]:
    """Wrap a text behind its start, with further lines indented below the text; a word is never broken."""
    room = max(20, width - len(start))
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return [start + lines[0], *(" " * len(start) + line for line in lines[1:])]
