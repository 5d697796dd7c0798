"""HTML of the current verdict of a run, for notebook cells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from typing import Final

from leadline.records import describe
from leadline.records.documents import ManifestDocument, RuleSummary, SummarizedRule, WorkerDocument
from leadline.records.formatting import counted, significant
from leadline.records.names import JOB_ENDED
from leadline.records.outcome import RunOutcome, run_outcome
from leadline.records.problems import Problem
from leadline.records.totals import compile_seconds, own_seconds, sampled, start_and_rest, step_share, steps_by_mode
from leadline.store.run_state import read_manifest_document, read_rule_summary, read_status, read_workers

_STYLE: Final = (
    "<style>"
    ".leadline{font:13px/1.5 system-ui,sans-serif;max-width:60em;border-left:3px solid #8886;padding:.2em 0 .2em .9em}"
    ".leadline table{border-collapse:collapse;margin:.4em 0 0;background:transparent}"
    ".leadline td{padding:.15em 1em .15em 0;vertical-align:top;text-align:left;background:transparent;border:0}"
    ".leadline table{font-size:inherit}.leadline .nowrap{white-space:nowrap}.leadline .quiet{opacity:.65}"
    ".leadline .found{color:#d1242f}.leadline .clear{color:#1a7f37}.leadline .warning{color:#9a6700}"
    "@media(prefers-color-scheme:dark)"
    "{.leadline .found{color:#ff7b72}.leadline .clear{color:#56d364}.leadline .warning{color:#d29922}}"
    "[data-jp-theme-light=false] .leadline .found{color:#ff7b72}"
    "[data-jp-theme-light=false] .leadline .clear{color:#56d364}"
    "[data-jp-theme-light=false] .leadline .warning{color:#d29922}"
    "</style>"
)
"""Text has the color of the notebook; only marked text has a color of ours, readable on light and dark backgrounds."""
_OPEN: Final = {"error": "warning", "undecided": "quiet"}
"""The style of the states of rules that get a row each, after those that fired; the clear ones share a row."""
_LEVELS: Final = {"fatal": "found", "warning": "warning", "advice": "warning", "clear": "clear", "unknown": "quiet"}
"""The style of the outcome by its level."""


def verdict_html(run: str) -> str:
    """Return outcome, steps, losses and the state of each rule as HTML; all data of the run is escaped."""
    name = os.path.basename(run)
    try:
        manifest, status = read_manifest_document(run), read_status(run)
        workers, summary = list(read_workers(run).values()), read_rule_summary(run) or RuleSummary()
    except OSError as error:
        return _page(f"<b>{escape(name)}</b> <span class=warning>{escape(str(error))}</span>")
    if manifest is None:
        return _page(f"<b>{escape(name)}</b> <span class=warning>its directory was removed</span>")
    outcome = run_outcome(status, summary, workers)
    foot = _quiet(f"leadline show {name}" + ("" if status.status in JOB_ENDED else f" · leadline stop {name}"))
    return _page(
        _head(manifest, outcome),
        _facts(workers),
        *_warnings(workers),
        _rules(outcome, summary.rules, len(manifest.rules)),
        _overhead(workers),
        foot,
    )


def _page(*parts: str) -> str:
    body = "".join(f"<div>{part}</div>" for part in parts if part)
    return f"{_STYLE}<div class=leadline>{body}</div>"


def _quiet(text: str) -> str:
    return f"<span class=quiet>{escape(text)}</span>"


def _head(manifest: ManifestDocument, outcome: RunOutcome) -> str:
    return f"<b>{escape(manifest.name)}</b> <span class={_LEVELS[outcome.level]}>{escape(outcome.text)}</span>"


def _facts(workers: Sequence[WorkerDocument]) -> str:
    losses = workers[0].losses if workers else {}
    facts = [describe.steps(steps_by_mode(workers), nothing="no step yet")]
    return escape(" · ".join([*facts, *(f"{name} {_number(value)}" for name, value in losses.items())]))


def _number(value: float | str | None) -> str:
    return significant(value) if isinstance(value, (int, float)) else str(value)


def _warnings(workers: Sequence[WorkerDocument]) -> list[str]:
    lines = [f"{worker.worker}: {line}" for worker in workers for line in describe.problems(worker).values()]
    return [f"<span class=warning>{escape(line)}</span>" for line in lines]


def _rules(outcome: RunOutcome, rules: Sequence[SummarizedRule], planned: int) -> str:
    if not rules:
        return _quiet(f"{counted(planned, 'rule')}, not evaluated yet") if planned else ""
    others = [Problem(rule) for state in _OPEN for rule in rules if describe.rule_state(rule) == state]
    clear = [rule.name for rule in rules if describe.rule_state(rule) == "clear"]
    rows = [*map(_row, [*outcome.problems, *others]), *([_clear_row(clear)] if clear else [])]
    return f"<table>{''.join(rows)}</table>"


def _clear_row(names: Sequence[str]) -> str:
    what, listed = (counted(len(names), "rule"), ", ".join(names)) if len(names) > 1 else (names[0], "")
    return f"<tr><td>{escape(what)}</td><td class=clear>clear</td><td>{_quiet(listed) if listed else ''}</td></tr>"


def _row(problem: Problem) -> str:
    rule = problem.cause
    has_fired = describe.rule_state(rule) == "fired"
    style = _LEVELS[rule.severity] if has_fired else _OPEN[describe.rule_state(rule)]
    message = escape((rule.message if has_fired else rule.why) or "")
    if has_fired and rule.suggestion:
        message += f"<br>{_quiet(describe.advice(rule.suggestion))}"
    if problem.effects:
        message += f"<br>{_quiet(problem.explains)}"
    place = escape(describe.rule_place(rule))
    return f"<tr><td>{escape(rule.name)}</td><td class='{style} nowrap'>{place}</td><td>{message}</td></tr>"


def _overhead(workers: Sequence[WorkerDocument]) -> str:
    overhead = describe.overhead(
        own_seconds(workers),
        step_share(workers),
        start=start_and_rest(workers),
        compile_seconds=compile_seconds(workers),
    )
    sampling = [f"sampled: {line}" for line in describe.sampling(sampled(workers))]
    return _quiet("; ".join([f"overhead {overhead}", *sampling])) if overhead else ""
