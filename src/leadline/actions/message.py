"""A notification as text for people: a title, a message, and one line for text messages."""

from __future__ import annotations

import math
import shlex
import textwrap
from datetime import UTC, datetime
from typing import Any, Final

from leadline.records.formatting import significant
from leadline.records.json_object import JsonObject
from leadline.records.notification import Notification, TensorSnapshot

MAX_TENSORS: Final = 5
_MAX_STATISTICS: Final = 6
_MAX_VALUES: Final = 8
_MAX_RULES: Final = 10
_MAX_EVIDENCE: Final = 8
_TITLE_CHARACTERS: Final = 160
_MESSAGE_CHARACTERS: Final = 600
_WIDTH: Final = 96
_LABEL: Final = 10
_NAME: Final = 22


def title(notification: Notification) -> str:
    """Return what happened and in which run, in one line."""
    return _cut(_event(notification), _TITLE_CHARACTERS)


def short(notification: Notification, max_characters: int) -> str:
    """Return everything in one line of limited length, for a text message."""
    head = f"leadline: {title(notification)}"
    details = _one_line(notification.message or notification.why)
    return _cut(f"{head}: {details}" if details else head, max_characters)


def text(notification: Notification) -> str:
    """Return the full message: the event, the run, what to try, and the first tensors with their statistics."""
    blocks = [
        [_cut(_one_line(notification.message or notification.why) or _event(notification), _MESSAGE_CHARACTERS)],
        _facts(notification),
    ]
    if notification.suggestion:
        blocks.append(textwrap.wrap(f"Try: {_one_line(notification.suggestion)}", _WIDTH))
    blocks += [_evidence(notification.evidence), _tensors(notification), _rules(notification), _commands(notification)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _event(notification: Notification) -> str:
    """Return what happened and in which run."""
    if notification.kind in ("finding", "closed"):
        at = "" if notification.step is None else f" at step {notification.step:,}"
        return (
            f"{notification.rule} {'fired' if notification.kind == 'finding' else 'resolved'}{at} in {notification.run}"
        )
    of = f"{notification.rule} in {notification.run}" if notification.rule else notification.run
    verdict = f" ({notification.verdict})" if notification.verdict else ""
    before = (
        f", before {notification.previous}"
        if notification.previous and notification.previous != notification.status
        else ""
    )
    return f"{of}: {notification.status}{verdict}{before}"


def _facts(notification: Notification) -> list[str]:
    since = f", started {_moment(notification.started_ns)}" if notification.started_ns else ""
    facts = {
        "run": f"{notification.run} ({notification.job_status}{since})",
        "rule": _named(notification),
        "step": "" if notification.step is None else f"{notification.step:,}",
        "cause": notification.explained_by or "",
        "worker": notification.worker or "",
        "time": _moment(notification.time_ns) if notification.time_ns else "",
        "folder": notification.uri,
    }
    return [f"{label:<{_LABEL}}{value}" for label, value in facts.items() if value]


def _named(notification: Notification) -> str:
    if notification.rule and notification.kind_of_rule and notification.kind_of_rule != notification.rule:
        return f"{notification.rule} ({notification.kind_of_rule})"
    return notification.rule or ""


def _evidence(evidence: JsonObject) -> list[str]:
    plain = {name: value for name, value in evidence.items() if isinstance(value, (int, float, str, bool))}
    shown = list(plain.items())[:_MAX_EVIDENCE]
    width = max([_NAME, *(len(name) for name, _ in shown)])
    lines = [f"  {name:<{width}}  {_format_value(value)}" for name, value in shown]
    return ["Numbers:", *lines] if lines else []


def _tensors(notification: Notification) -> list[str]:
    if not notification.tensors:
        return []
    count = max(notification.tensor_count, len(notification.tensors))
    shown = notification.tensors[:MAX_TENSORS]
    first = f", the first {len(shown)}" if count > len(shown) else ""
    lines = [line for tensor in shown for line in _tensor(tensor)]
    return [f"{count:,} tensor{'' if count == 1 else 's'}{first}:", *lines]


def _tensor(tensor: TensorSnapshot) -> list[str]:
    shape = "" if tensor.shape is None else "x".join(map(str, tensor.shape)) or "scalar"
    kind = ", ".join(part for part in (shape, tensor.dtype) if part)
    head = f"  {tensor.name}{f' ({kind})' if kind else ''}"
    statistics = [f"{name} {_format_value(value)}" for name, value in list(tensor.statistics.items())[:_MAX_STATISTICS]]
    lines = [head, *([f"    {', '.join(statistics)}"] if statistics else [])]
    if tensor.values:
        more = " …" if _has_more(tensor) else ""
        lines.append(f"    values {' '.join(map(_format_value, tensor.values[:_MAX_VALUES]))}{more}")
    return lines + ([f"    {tensor.uri}"] if tensor.uri else [])


def _has_more(tensor: TensorSnapshot) -> bool:
    count = len(tensor.values or ()) if tensor.shape is None else math.prod(tensor.shape)
    return count > min(len(tensor.values or ()), _MAX_VALUES)


def _rules(notification: Notification) -> list[str]:
    rules = [rule for rule in notification.rules if rule.verdict != "not_applicable"]
    fired = [rule for rule in rules if rule.verdict == "fired"]
    if not rules:
        return []
    names = [rule.name for rule in fired[:_MAX_RULES]] + (["…"] if len(fired) > _MAX_RULES else [])
    counted = f"{len(fired)} of {len(rules)} rules fired"
    return textwrap.wrap(f"{counted}: {', '.join(names)}" if names else counted, _WIDTH)


def _commands(notification: Notification) -> list[str]:
    if not notification.uri:
        return []
    path = shlex.quote(notification.uri)
    stop = [f"stop: leadline stop {path}"] if notification.job_status in ("Starting", "InProgress") else []
    return [f"details: leadline show {path}", *stop]


def _format_value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _cut(_one_line(str(value)), _TITLE_CHARACTERS)
    return f"{value:,}" if isinstance(value, int) else significant(value)


def _moment(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _one_line(value: str) -> str:
    return " ".join(value.split())


def _cut(value: str, max_characters: int) -> str:
    return value if len(value) <= max_characters else value[: max(0, max_characters - 3)].rstrip() + "..."
