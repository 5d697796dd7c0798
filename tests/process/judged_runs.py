"""What each rule says of a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leadline.judge.episodes import Event
from leadline.judge.evaluator import Evaluator
from leadline.judge.rule_plan import resolve_rules
from leadline.reader.find_runs import read_manifest


@dataclass(frozen=True)
class Told:
    """The result of a rule on a run."""

    verdict: str
    findings: tuple[str, ...]
    """The steps and messages of all findings."""
    why: str
    step: int | None = None
    """The train step of the first finding."""
    remarks: tuple[str, ...] = ()
    """What the rule remarks without a finding."""


def judge(run: Path) -> dict[str, Told]:
    """Judge a finished run by the rules of its manifest; return the results by rule."""
    manifest = read_manifest(str(run))
    rules = [(spec.alias, rule) for spec, rule in resolve_rules(manifest.rules)]
    progress = Evaluator(str(run), rules, started_ns=manifest.started_ns).advance(is_over=True)
    opened: dict[str, list[Event]] = {}
    for alias, event in progress.events:
        if event["event"] == "opened":
            opened.setdefault(alias, []).append(event)
    return {
        alias: Told(
            state["verdict"] if state["error"] is None else "error",
            tuple(f"step {event['step']}: {event['message']}" for event in opened.get(alias, ())),
            state["error"] or state["why"],
            next((event["step"] for event in opened.get(alias, ())), None),
            tuple(state["product"].get("remarks", ())),
        )
        for alias, state in progress.rules.items()
    }
