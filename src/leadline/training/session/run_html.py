"""HTML of the current verdict of a run, for notebook cells."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from leadline.records.names import JOB_ENDED
from leadline.records.overhead import format_share, format_throttling, step_share, throttled
from leadline.store import layout
from leadline.store.documents import read_document

_STYLE: Final = (
    "<style>"
    ".leadline{font:13px/1.5 system-ui,sans-serif;max-width:60em;border-left:3px solid #8886;padding:.2em 0 .2em .9em}"
    ".leadline table{border-collapse:collapse;margin:.4em 0 0;background:transparent}"
    ".leadline td{padding:.15em 1em .15em 0;vertical-align:top;text-align:left;background:transparent;border:0}"
    ".leadline .quiet{opacity:.65}"
    ".leadline .found{color:#d1242f}.leadline .clear{color:#1a7f37}.leadline .warning{color:#9a6700}"
    "@media(prefers-color-scheme:dark)"
    "{.leadline .found{color:#ff7b72}.leadline .clear{color:#56d364}.leadline .warning{color:#d29922}}"
    "[data-jp-theme-light=false] .leadline .found{color:#ff7b72}"
    "[data-jp-theme-light=false] .leadline .clear{color:#56d364}"
    "[data-jp-theme-light=false] .leadline .warning{color:#d29922}"
    "</style>"
)
"""Text has the color of the notebook; only marked text has a color of ours, readable on light and dark backgrounds."""
_ORDER: Final = {"found": 0, "warning": 1, "quiet": 2, "clear": 3}


def verdict_html(run: str) -> str:
    """Return status, steps, losses and the state of each rule as HTML; all data of the run is escaped."""
    manifest = _document(run, layout.MANIFEST)
    if not manifest:
        return _page(f"<b>{escape(os.path.basename(run))}</b> <span class=warning>its directory was removed</span>")
    status = _document(run, layout.STATUS)
    workers = _workers(run)
    rules = _document(run, layout.RULE_SUMMARY).get("rules") or []
    head, foot = _head(manifest, status, workers), _foot(run)
    return _page(head, *_warnings(workers), _rules(rules, manifest), _overhead(workers), foot)


def _document(run: str, name: str) -> dict[str, Any]:
    try:
        document = read_document(os.path.join(run, name))
    except OSError:
        return {}
    return document if isinstance(document, dict) else {}


def _workers(run: str) -> list[dict[str, Any]]:
    try:
        names = sorted(os.listdir(os.path.join(run, layout.WORKERS)))
    except OSError:
        return []
    documents = (_document(run, f"{layout.WORKERS}/{name}") for name in names if name.endswith(".json"))
    return [document for document in documents if document]


def _page(*parts: str) -> str:
    body = "".join(f"<div>{part}</div>" for part in parts if part)
    return f"{_STYLE}<div class=leadline>{body}</div>"


def _head(manifest: Mapping[str, Any], status: Mapping[str, Any], workers: Sequence[Mapping[str, Any]]) -> str:
    facts = [_steps(workers), *_losses(workers)]
    state = str(status.get("status", "Starting"))
    kind = "quiet" if state in ("Starting", "InProgress") else "clear" if state == "Completed" else "warning"
    by = str(status.get("stopped_by") or "").removeprefix("rule:")
    stopped = f" by {escape(by)}" if by and state in JOB_ENDED else ""
    name = escape(str(manifest.get("name", "")))
    return f"<b>{name}</b> <span class={kind}>{escape(state)}{stopped}</span> · " + " · ".join(filter(None, facts))


def _steps(workers: Sequence[Mapping[str, Any]]) -> str:
    counts: dict[str, int] = {}
    for worker in workers:
        for mode, count in (worker.get("steps") or {}).items():
            counts[mode] = max(counts.get(mode, 0), int(count))
    parts = [f"{count:,} {'' if mode == 'train' else escape(mode) + ' '}steps" for mode, count in counts.items()]
    return ", ".join(parts) or "no step yet"


def _losses(workers: Sequence[Mapping[str, Any]]) -> list[str]:
    losses = (workers[0].get("losses") or {}) if workers else {}
    return [f"{escape(str(name))} {_number(value)}" for name, value in losses.items()]


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else escape(str(value))


def _warnings(workers: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for worker in workers:
        name = escape(str(worker.get("worker", "")))
        off, lost = worker.get("off"), worker.get("lost")
        if off:
            lines.append(
                f"{name}: capture disabled at step {escape(str(off.get('step')))}: {escape(str(off['error']))}"
            )
        if lost:
            lines.append(
                f"{name}: captures dropped since step {escape(str(lost.get('since_step')))}: "
                f"{escape(str(lost.get('reason')))}"
            )
    return [f"<span class=warning>{line}</span>" for line in lines]


def _rules(rules: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> str:
    if not rules:
        count = len(manifest.get("rules") or ())
        rules_text = "1 rule" if count == 1 else f"{count} rules"
        return f"<span class=quiet>{rules_text}, not evaluated yet</span>" if count else ""
    rows = sorted(((_kind(rule), rule) for rule in rules), key=lambda row: _ORDER[row[0]])
    return "<table>" + "".join(_row(kind, rule) for kind, rule in rows) + "</table>"


def _kind(rule: Mapping[str, Any]) -> str:
    if rule.get("findings") or rule.get("status") == "IssuesFound":
        return "found"
    if rule.get("status") == "Error":
        return "warning"
    return "clear" if rule.get("verdict") == "clear" else "quiet"


def _row(kind: str, rule: Mapping[str, Any]) -> str:
    labels = {"found": _place(rule), "warning": "error", "clear": "clear", "quiet": "undecided"}
    message = escape(str((rule.get("message") if kind == "found" else rule.get("why")) or ""))
    if kind == "found" and rule.get("suggestion"):
        message += f"<br><span class=quiet>try: {escape(str(rule['suggestion']).removeprefix('try: '))}</span>"
    name = escape(str(rule.get("name", "")))
    return f"<tr><td>{name}</td><td class={kind}>{escape(labels[kind])}</td><td>{message}</td></tr>"


def _place(rule: Mapping[str, Any]) -> str:
    step = rule.get("step")
    return f"step {step:,}" if isinstance(step, int) and step >= 0 else "found"


def _overhead(workers: Sequence[Mapping[str, Any]]) -> str:
    share, throttling = step_share(workers), format_throttling(throttled(workers))
    if share is None:
        return ""
    parts = [f"overhead {format_share(share)} of the step time", *(f"throttled: {entry}" for entry in throttling)]
    return f"<span class=quiet>{escape('; '.join(parts))}</span>"


def _foot(run: str) -> str:
    name = escape(os.path.basename(run))
    return f"<span class=quiet>leadline show {name} · leadline stop {name}</span>"
