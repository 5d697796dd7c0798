"""The verdict at the end of a run, in at most thirty lines."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from leadline.agent.terminal import PREFIX
from leadline.records.formatting import counted, duration, number, share, signal_name, size
from leadline.records.overhead import format_throttling, step_share, throttled
from leadline.store.actions import FAILURES

MOST_LINES: Final = 30
_LINES_OF_A_FINDING: Final = 4
_FEWEST_ALIKE: Final = 3
_LINES_OF_DEEDS: Final = 2
_MOST_FAILURES: Final = 3

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Everything that the verdict speaks of."""

    status: str
    exit_status: int | None
    """As the command ended, -n for signal n; None: not known."""
    final_status: int
    """As we end."""
    stopped_by: str | None
    seconds: float
    workers: tuple[Document, ...]
    run_bytes: int
    summary: Document | None
    """``rules/summary.json`` as it stands."""
    has_rules: bool
    lost: tuple[str, ...] = ()
    actions: tuple[Document, ...] = ()
    """What was done about what happened, the last that is known of each."""
    unwatched: str | None = None
    """Why no worker could come, where that was known before the start."""


def summary_lines(ending: RunOutcome, *, width: int) -> list[str]:
    """The verdict, line by line."""
    head = [f"{PREFIX}  {_how_it_ended(ending)}"]
    if not ending.workers:
        head += _wrap(f"{PREFIX}  ", _no_step(ending), width)
    if _thinned(ending):
        head += _wrap(f"{PREFIX}  ", f"thinned to the budget: {_thinned(ending)}", width)[:2]
    for lost in ending.lost:
        head += _wrap(f"{PREFIX}  ", f"lost: {lost}", width)
    rules = list((ending.summary or {}).get("rules") or [])
    if ending.has_rules:
        head += _wrap(f"{PREFIX}  ", _tally(ending, rules), width)
    head += _time((ending.summary or {}).get("time"), width)
    head += _deeds(ending.actions, width)
    tail = ["  report: leadline report          look: leadline ui"]
    room = MOST_LINES - len(head) - len(tail)
    return head[: MOST_LINES - 1] + _paragraphs(rules, width, room) + tail


def _deeds(actions: tuple[Document, ...], width: int) -> list[str]:
    """What was done, counted, and what came to nothing, the first few."""
    done = Counter(str(each["action"]) for each in actions if each["state"] == "done")
    failed = {_failure(each): None for each in actions if each["state"] in FAILURES}
    open_ = Counter(str(each["action"]) for each in actions if each["state"] == "asked")
    parts = [
        f"{verb}: {', '.join(_times(*each) for each in counts.items())}"
        for verb, counts in (("done", done), ("not known to be done", open_))
        if counts
    ]
    lines = _wrap(f"{PREFIX}  ", "; ".join(parts), width)[:_LINES_OF_DEEDS] if parts else []
    for each in list(failed)[:_MOST_FAILURES]:
        lines += _wrap(f"{PREFIX}  ", each, width)[:2]
    more = len(failed) - _MOST_FAILURES
    return lines + ([f"{PREFIX}  and {counted(more, 'more action')} that came to nothing"] if more > 0 else [])


def _failure(action: Document) -> str:
    return f"{action['rule']}: {action['action']} {action['outcome']}"


def _times(name: str, count: int) -> str:
    return name if count == 1 else f"{name} ({number(count)} times)"


def _how_it_ended(ending: RunOutcome) -> str:
    steps = _steps(ending.workers)
    facts = [_exit(ending), duration(ending.seconds), *([steps] if steps else [])]
    return f"{_word(ending)}: {', '.join(facts)}. {_price(ending)}"


def _word(ending: RunOutcome) -> str:
    if ending.status == "Stopped":
        by = ending.stopped_by or "request"
        return f"stopped by {by.removeprefix('rule:')}"
    words = {"Completed": "finished", "Failed": "failed", "Interrupted": "interrupted"}
    return words.get(ending.status, ending.status)


def _exit(ending: RunOutcome) -> str:
    code = ending.exit_status
    if code is None:
        return "exit status not known"
    if ending.status == "Stopped":
        return f"exit {ending.final_status}"
    return f"killed by {signal_name(-code)}" if code < 0 else f"exit {code}"


def _steps(workers: tuple[Document, ...]) -> str:
    most: dict[str, int] = {}
    for worker in workers:
        for mode, count in (worker.get("steps") or {}).items():
            most[mode] = max(most.get(mode, 0), int(count))
    if most.get("train"):
        return counted(most["train"], "step")
    return " and ".join(counted(count, f"{mode} step") for mode, count in most.items() if count)


def _price(ending: RunOutcome) -> str:
    found = step_share(ending.workers)
    time = f"{share(found)} and " if found is not None else ""
    return f"Watching cost {time}{size(ending.run_bytes)}."


def _thinned(ending: RunOutcome) -> str:
    return "; ".join(format_throttling(throttled(ending.workers)))


def _no_step(ending: RunOutcome) -> str:
    if ending.unwatched is not None:
        return f"only the machine was watched: {ending.unwatched}"
    return (
        "no training step was seen, only the machine was watched: the command may not train with PyTorch, "
        "may have ended before its first step, or starts Python with -I, -E, -S or an environment of its own"
    )


def _tally(ending: RunOutcome, rules: list[Document]) -> str:
    if not rules:
        return "the rules were not judged; judge them now with: leadline judge"
    found = sum(_has_found(rule) for rule in rules)
    broken = sum(rule.get("status") == "Error" and not _has_found(rule) for rule in rules)
    clear = sum(rule.get("verdict") == "clear" and rule.get("status") != "Error" for rule in rules)
    undecided = len(rules) - found - broken - clear
    parts = [f"{number(found)} of {counted(len(rules), 'rule')} found something"]
    parts += [f"{number(clear)} clear"] if clear else []
    parts += [f"{number(undecided)} undecided"] if undecided else []
    parts += [f"{number(broken)} broken"] if broken else []
    is_whole = (ending.summary or {}).get("complete")
    return ", ".join(parts) + ("" if is_whole else "; the judging did not come to its end: leadline judge")


def _time(time: Document | None, width: int) -> list[str]:
    """Where the time went, and what to try first; nothing where no step was timed."""
    if not time:
        return []
    start = f"{PREFIX}  time: "
    parts = ", ".join(f"{each['phase']} {share(each['share'])}" for each in time["phases"])
    bound = time.get("bound")
    if not bound:
        return _wrap(start, parts, width)[:2]
    advice = _wrap(" " * len(start), f"try: {bound['try']}", width)[:2]
    return [*_wrap(start, f"{parts}; bound by {bound['kind']}: {bound['message']}", width)[:3], *advice]


def _has_found(rule: Document) -> bool:
    return bool(rule.get("findings")) or rule.get("status") == "IssuesFound"


def _rank(rule: Document) -> int:
    if _has_found(rule):
        return 0
    if rule.get("status") == "Error":
        return 1
    return 3 if rule.get("verdict") == "clear" else 2


def _paragraphs(rules: list[Document], width: int, room: int) -> list[str]:
    told = _folded(sorted((rule for rule in rules if _rank(rule) < 3), key=_rank))
    names = max((len(str(rule["name"])) for rule in told), default=0)
    places = max((len(_place(rule)) for rule in told), default=0)
    lines: list[str] = []
    for position, rule in enumerate(told):
        paragraph = _paragraph(rule, names, places, width)
        left = len(told) - position
        if len(lines) + len(paragraph) + (left > 1) > room:
            return [*lines, f"  and {counted(left, 'more rule')}"][:room]
        lines += paragraph
    return lines


def _folded(rules: list[Document]) -> list[Document]:
    """Rules that are undecided for one and the same reason as one paragraph, where they are several."""
    alike: dict[str, list[Document]] = {}
    for rule in rules:
        if _rank(rule) == 2 and rule.get("why"):
            alike.setdefault(str(rule["why"]), []).append(rule)
    told = []
    for rule in rules:
        group = alike.get(str(rule.get("why")), [rule]) if _rank(rule) == 2 else [rule]
        if len(group) < _FEWEST_ALIKE:
            told.append(rule)
        elif rule is group[0]:
            names = ", ".join(str(each["name"]) for each in group)
            told.append({**rule, "name": f"{len(group)} rules", "why": f"{rule['why']}: {names}"})
    return told


def _paragraph(rule: Document, names: int, places: int, width: int) -> list[str]:
    start = f"  {rule['name']!s:<{names}}  {_place(rule):<{places}}   "
    message = rule.get("message") if _has_found(rule) else rule.get("why")
    lines = _wrap(start, str(message or "not said why"), width)
    if len(lines) > _LINES_OF_A_FINDING - 1:
        lines = lines[: _LINES_OF_A_FINDING - 1]
        lines[-1] = lines[-1][: max(len(start) + 1, width - 2)] + " …"
    if _has_found(rule) and rule.get("suggestion"):
        advice = rule["suggestion"] if "try:" in rule["suggestion"] else f"try: {rule['suggestion']}"
        lines += _wrap(" " * len(start), advice, width)[:3]
    return lines


def _place(rule: Document) -> str:
    if _has_found(rule):
        step = rule.get("step")
        return f"step {step}" if isinstance(step, int) and step >= 0 else "found"
    return "error" if rule.get("status") == "Error" else "undecided"


def _wrap(start: str, text: str, width: int) -> list[str]:
    """The text behind its start, further lines below the text; a word is never broken."""
    room = max(20, width - len(start))
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return [start + lines[0], *(" " * len(start) + line for line in lines[1:])]
