"""The summary at the end of a run, in at most thirty lines."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from leadline.agent.terminal import PREFIX
from leadline.records.formatting import counted, duration, number, share, signal_name, size
from leadline.records.overhead import format_throttling, step_share, throttled
from leadline.store.actions import FAILED_STATES

MAX_LINES: Final = 30
_MAX_LINES_PER_FINDING: Final = 4
_MAX_ACTION_LINES: Final = 2
_MAX_FAILED_ACTIONS: Final = 3
_MIN_RULES_TO_GROUP: Final = 3
"""So many rules that are undecided for the same reason share one paragraph."""
_PHASE_LABELS: Final = {"watching": "Leadline"}
_STATUS_LABELS: Final = {"Completed": "finished", "Failed": "failed", "Interrupted": "interrupted"}

Document = dict[str, Any]


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
    workers: tuple[Document, ...]
    run_bytes: int
    summary: Document | None
    """The latest ``rules/summary.json``."""
    has_rules: bool
    dropped: tuple[str, ...] = ()
    """What was not written, one sentence for each worker."""
    actions: tuple[Document, ...] = ()
    """The last known state of each action that was triggered."""
    unwatched: str | None = None
    """Why Leadline could not be loaded into the job, where that was known before the start."""


def summary_lines(outcome: RunOutcome, *, width: int) -> list[str]:
    """Return the lines of the summary."""
    head = [f"{PREFIX}  {_headline(outcome)}"]
    if not outcome.workers:
        head += _wrap(f"{PREFIX}  ", _why_no_step(outcome), width)
    throttling = "; ".join(format_throttling(throttled(outcome.workers)))
    if throttling:
        head += _wrap(f"{PREFIX}  ", f"throttled to stay within the overhead budget: {throttling}", width)[:2]
    for dropped in outcome.dropped:
        head += _wrap(f"{PREFIX}  ", f"incomplete data: {dropped}", width)
    rules = list((outcome.summary or {}).get("rules") or [])
    if outcome.has_rules:
        head += _wrap(f"{PREFIX}  ", _rule_counts(outcome, rules), width)
    head += _time_lines((outcome.summary or {}).get("time"), width)
    head += _action_lines(outcome.actions, width)
    tail = ["  report: leadline report          dashboard: leadline ui"]
    room = MAX_LINES - len(head) - len(tail)
    return head[: MAX_LINES - 1] + _rule_paragraphs(rules, width, room) + tail


def _action_lines(actions: tuple[Document, ...], width: int) -> list[str]:
    """Return the counts of actions by name, and the first few failures."""
    done = Counter(str(action["action"]) for action in actions if action["state"] == "done")
    unconfirmed = Counter(str(action["action"]) for action in actions if action["state"] == "asked")
    failures = list(dict.fromkeys(_failure(action) for action in actions if action["state"] in FAILED_STATES))
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


def _failure(action: Document) -> str:
    return f"{action['rule']}: {action['action']} {action['outcome']}"


def _with_count(name: str, count: int) -> str:
    return name if count == 1 else f"{name} ({number(count)} times)"


def _headline(outcome: RunOutcome) -> str:
    steps = _format_steps(outcome.workers)
    facts = [_format_exit(outcome), duration(outcome.seconds), *([steps] if steps else [])]
    return f"{_format_status(outcome)}: {', '.join(facts)}. {_format_overhead(outcome)}"


def _format_status(outcome: RunOutcome) -> str:
    if outcome.status == "Stopped":
        return f"stopped by {(outcome.stopped_by or 'request').removeprefix('rule:')}"
    return _STATUS_LABELS.get(outcome.status, outcome.status)


def _format_exit(outcome: RunOutcome) -> str:
    code = outcome.exit_status
    if code is None:
        return "exit status unknown"
    if outcome.status == "Stopped":
        return f"exit {outcome.final_status}"
    return f"killed by {signal_name(-code)}" if code < 0 else f"exit {code}"


def _format_steps(workers: tuple[Document, ...]) -> str:
    """Return the steps of the worker that is furthest; evaluation steps only where nothing was trained."""
    steps: dict[str, int] = {}
    for worker in workers:
        for mode, count in (worker.get("steps") or {}).items():
            steps[mode] = max(steps.get(mode, 0), int(count))
    if steps.get("train"):
        return counted(steps["train"], "step")
    return " and ".join(counted(count, f"{mode} step") for mode, count in steps.items() if count)


def _format_overhead(outcome: RunOutcome) -> str:
    ratio = step_share(outcome.workers)
    time = f"{share(ratio)} of step time, " if ratio is not None else ""
    return f"Overhead: {time}{size(outcome.run_bytes)} written."


def _why_no_step(outcome: RunOutcome) -> str:
    if outcome.unwatched is not None:
        return f"system metrics only: {outcome.unwatched}"
    return (
        "no training step was seen, only system metrics were recorded: the command may not train with PyTorch, "
        "may have ended before its first step, or starts Python with -I, -E, -S or an environment of its own"
    )


def _rule_counts(outcome: RunOutcome, rules: list[Document]) -> str:
    if not rules:
        return "the rules were not evaluated; evaluate them now with: leadline judge"
    fired = sum(_has_fired(rule) for rule in rules)
    failed = sum(rule.get("status") == "Error" and not _has_fired(rule) for rule in rules)
    clear = sum(rule.get("verdict") == "clear" and rule.get("status") != "Error" for rule in rules)
    undecided = len(rules) - fired - failed - clear
    parts = [f"{number(fired)} of {counted(len(rules), 'rule')} fired"]
    parts += [f"{number(count)} {label}" for count, label in ((clear, "clear"), (undecided, "undecided")) if count]
    parts += [f"{number(failed)} failed"] if failed else []
    is_complete = (outcome.summary or {}).get("complete")
    return ", ".join(parts) + ("" if is_complete else "; evaluation incomplete, complete it with: leadline judge")


def _time_lines(time: Document | None, width: int) -> list[str]:
    """Return the time breakdown, the bottleneck and what to try first; nothing where no step was timed."""
    if not time:
        return []
    start = f"{PREFIX}  time: "
    parts = ", ".join(
        f"{_PHASE_LABELS.get(entry['phase'], entry['phase'])} {share(entry['share'])}" for entry in time["phases"]
    )
    bottleneck = time.get("bound")
    if not bottleneck:
        return _wrap(start, parts, width)[:2]
    advice = _wrap(" " * len(start), f"try: {bottleneck['try']}", width)[:2]
    text = f"{parts}; bottleneck: {bottleneck['kind']}, {bottleneck['message']}"
    return [*_wrap(start, text, width)[:3], *advice]


def _has_fired(rule: Document) -> bool:
    return bool(rule.get("findings")) or rule.get("status") == "IssuesFound"


def _severity(rule: Document) -> int:
    """Return 0 for a rule that fired, 1 for one that failed, 2 for undecided and 3 for clear."""
    if _has_fired(rule):
        return 0
    if rule.get("status") == "Error":
        return 1
    return 3 if rule.get("verdict") == "clear" else 2


def _rule_paragraphs(rules: list[Document], width: int, room: int) -> list[str]:
    shown = _group_undecided(sorted((rule for rule in rules if _severity(rule) < 3), key=_severity))
    name_width = max((len(str(rule["name"])) for rule in shown), default=0)
    step_width = max((len(_step_or_status(rule)) for rule in shown), default=0)
    lines: list[str] = []
    for position, rule in enumerate(shown):
        paragraph = _rule_paragraph(rule, name_width, step_width, width)
        left = len(shown) - position
        if len(lines) + len(paragraph) + (left > 1) > room:
            return [*lines, f"  and {counted(left, 'more rule')}"][:room]
        lines += paragraph
    return lines


def _group_undecided(rules: list[Document]) -> list[Document]:
    """Merge rules that are undecided for the same reason into one entry, where there are several."""
    groups: dict[str, list[Document]] = {}
    for rule in rules:
        if _severity(rule) == 2 and rule.get("why"):
            groups.setdefault(str(rule["why"]), []).append(rule)
    merged = []
    for rule in rules:
        group = groups.get(str(rule.get("why")), [rule]) if _severity(rule) == 2 else [rule]
        if len(group) < _MIN_RULES_TO_GROUP:
            merged.append(rule)
        elif rule is group[0]:
            names = ", ".join(str(member["name"]) for member in group)
            merged.append({**rule, "name": f"{len(group)} rules", "why": f"{rule['why']}: {names}"})
    return merged


def _rule_paragraph(rule: Document, name_width: int, step_width: int, width: int) -> list[str]:
    start = f"  {rule['name']!s:<{name_width}}  {_step_or_status(rule):<{step_width}}   "
    message = rule.get("message") if _has_fired(rule) else rule.get("why")
    lines = _wrap(start, str(message or "no reason given"), width)
    if len(lines) > _MAX_LINES_PER_FINDING - 1:
        lines = lines[: _MAX_LINES_PER_FINDING - 1]
        lines[-1] = lines[-1][: max(len(start) + 1, width - 2)] + " …"
    if _has_fired(rule) and rule.get("suggestion"):
        advice = rule["suggestion"] if "try:" in rule["suggestion"] else f"try: {rule['suggestion']}"
        lines += _wrap(" " * len(start), advice, width)[:3]
    return lines


def _step_or_status(rule: Document) -> str:
    if _has_fired(rule):
        step = rule.get("step")
        return f"step {step}" if isinstance(step, int) and step >= 0 else "fired"
    return "error" if rule.get("status") == "Error" else "undecided"


def _wrap(start: str, text: str, width: int) -> list[str]:
    """Wrap a text behind its start, with further lines indented below the text; a word is never broken."""
    room = max(20, width - len(start))
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return [start + lines[0], *(" " * len(start) + line for line in lines[1:])]
