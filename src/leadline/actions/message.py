"""A notice in words: a title and a text for people, and one line for a telephone."""

from __future__ import annotations

import math
import shlex
import textwrap
from datetime import UTC, datetime
from typing import Any, Final

from leadline.records.notification import Notification, TensorSnapshot

MOST_TENSORS: Final = 5
_MOST_STATISTICS: Final = 6
_MOST_VALUES: Final = 8
_MOST_RULES: Final = 10
_MOST_EVIDENCE: Final = 8
_TITLE_CHARACTERS: Final = 160
_MESSAGE_CHARACTERS: Final = 600
_WIDTH: Final = 96
_LABEL: Final = 10


def title(notice: Notification) -> str:
    """What happened, and in which run, in one line."""
    return _cut(_event(notice), _TITLE_CHARACTERS)


def short(notice: Notification, most_characters: int) -> str:
    """Everything in one line of limited length, in plain characters: for a text message."""
    said = f"leadline: {title(notice)}"
    told = _one_line(notice.message or notice.why)
    return _cut(f"{said}: {told}" if told else said, most_characters)


def text(notice: Notification) -> str:
    """The whole of it: what, where, which run, what to try, and the first tensors with numbers."""
    blocks = [[_cut(_one_line(notice.message or notice.why) or _event(notice), _MESSAGE_CHARACTERS)], _facts(notice)]
    if notice.suggestion:
        blocks.append(textwrap.wrap(f"Try: {_one_line(notice.suggestion)}", _WIDTH))
    blocks += [_evidence(notice.evidence), _tensors(notice), _rules(notice), _commands(notice)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _event(notice: Notification) -> str:
    """What happened, in which run."""
    if notice.kind in ("finding", "closed"):
        at = "" if notice.step is None else f" at step {notice.step:,}"
        return f"{notice.rule} {'fired' if notice.kind == 'finding' else 'is over'}{at} in {notice.run}"
    of = f"{notice.rule} in {notice.run}" if notice.rule else notice.run
    verdict = f" ({notice.verdict})" if notice.verdict else ""
    before = f", before {notice.previous}" if notice.previous and notice.previous != notice.status else ""
    return f"{of}: {notice.status}{verdict}{before}"


def _facts(notice: Notification) -> list[str]:
    since = f", started {_moment(notice.started_ns)}" if notice.started_ns else ""
    said = {
        "run": f"{notice.run} ({notice.job_status}{since})",
        "rule": _named(notice),
        "step": "" if notice.step is None else f"{notice.step:,}",
        "worker": notice.worker or "",
        "time": _moment(notice.time_ns) if notice.time_ns else "",
        "folder": notice.uri,
    }
    return [f"{label:<{_LABEL}}{value}" for label, value in said.items() if value]


def _named(notice: Notification) -> str:
    if notice.rule and notice.kind_of_rule and notice.kind_of_rule != notice.rule:
        return f"{notice.rule} ({notice.kind_of_rule})"
    return notice.rule or ""


def _evidence(evidence: dict[str, Any]) -> list[str]:
    plain = {name: value for name, value in evidence.items() if isinstance(value, (int, float, str, bool))}
    shown = [f"  {name:<24}{_spoken(value)}" for name, value in list(plain.items())[:_MOST_EVIDENCE]]
    return ["Numbers:", *shown] if shown else []


def _tensors(notice: Notification) -> list[str]:
    if not notice.tensors:
        return []
    count = max(notice.tensor_count, len(notice.tensors))
    shown = notice.tensors[:MOST_TENSORS]
    first = f", the first {len(shown)}" if count > len(shown) else ""
    return [f"{count:,} tensor{'' if count == 1 else 's'}{first}:", *(line for each in shown for line in _tensor(each))]


def _tensor(tensor: TensorSnapshot) -> list[str]:
    shape = "" if tensor.shape is None else "x".join(map(str, tensor.shape)) or "one number"
    kind = ", ".join(each for each in (shape, tensor.dtype) if each)
    head = f"  {tensor.name}{f' ({kind})' if kind else ''}"
    said = [f"{name} {_spoken(value)}" for name, value in list(tensor.statistics.items())[:_MOST_STATISTICS]]
    lines = [head, *([f"    {', '.join(said)}"] if said else [])]
    if tensor.values:
        more = " …" if _has_more(tensor) else ""
        lines.append(f"    values {' '.join(map(_spoken, tensor.values[:_MOST_VALUES]))}{more}")
    return lines + ([f"    {tensor.uri}"] if tensor.uri else [])


def _has_more(tensor: TensorSnapshot) -> bool:
    count = len(tensor.values or ()) if tensor.shape is None else math.prod(tensor.shape)
    return count > min(len(tensor.values or ()), _MOST_VALUES)


def _rules(notice: Notification) -> list[str]:
    fired = [each for each in notice.rules if each.verdict == "fired"]
    if not notice.rules:
        return []
    names = [each.name for each in fired[:_MOST_RULES]] + (["…"] if len(fired) > _MOST_RULES else [])
    counted = f"{len(fired)} of {len(notice.rules)} rules found something"
    return textwrap.wrap(f"{counted}: {', '.join(names)}" if names else counted, _WIDTH)


def _commands(notice: Notification) -> list[str]:
    place = shlex.quote(notice.uri)
    stop = [f"stop: leadline stop {place}"] if notice.job_status in ("Starting", "InProgress") else []
    return [f"look: leadline show {place}", *stop]


def _spoken(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _cut(_one_line(str(value)), _TITLE_CHARACTERS)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}".replace("nan", "NaN")


def _moment(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _one_line(said: str) -> str:
    return " ".join(said.split())


def _cut(said: str, most_characters: int) -> str:
    return said if len(said) <= most_characters else said[: max(0, most_characters - 3)].rstrip() + "..."
