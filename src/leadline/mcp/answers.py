"""What each tool answers: plain values that fit into an agent's context, with the next step by name."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leadline.analysis import comparison
from leadline.analysis.digest import Digest
from leadline.analysis.overview import outcome_of, overview
from leadline.errors import ConfigurationError, RunNotFoundError, UnknownNameError
from leadline.judge.judged_log import write_judged_run
from leadline.logs.find import read_log
from leadline.reader.find_runs import find_run, list_runs
from leadline.reader.run import Run, open_run
from leadline.records.documents import RuleSummary
from leadline.records.formatting import counted, iso
from leadline.records.outcome_document import RankedProblem
from leadline.store.documents import to_json
from leadline.store.run_state import read_rule_summary

MAX_POINTS: Final = 200
_POINTS: Final = 40
_MAX_RUNS: Final = 50
_MAX_FINDINGS: Final = 20
_MAX_NAMES: Final = 100
_MAX_ITEMS: Final = 20
_MAX_TEXT: Final = 1000
_DIGITS: Final = 5
Answer = dict[str, Any]


class Answers:
    """The answers about the runs of one folder; nothing outside of it is opened by name.

    Args:
        root: The runs directory.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    def run(self, name: str = "") -> Run:
        """Open a run by name; without one the latest.

        Raises:
            RunNotFoundError: There is none.
        """
        if os.sep in name or name in (os.curdir, os.pardir):
            raise RunNotFoundError(f"{name!r} is no name of a run; the tool runs lists them")
        return open_run(find_run(name or None, self.root))

    def runs(self, limit: int = 20) -> Answer:
        """Return the latest runs, each with its verdict."""
        known = list_runs(self.root)
        shown = known[: max(1, min(limit, _MAX_RUNS))]
        rows = [
            {
                "name": run.name,
                "verdict": run.outcome.plain_word,
                "outcome": run.outcome.brief,
                "status": run.status,
                "steps": run.train_steps,
                "loss": run.loss,
                "started": iso(run.started_ns),
            }
            for run in shown
        ]
        more = f"{len(known) - len(shown):,} more runs; raise limit" if len(known) > len(shown) else ""
        return short({"runs": rows, "next": more or "why(run) explains the verdict of a run"})

    def why(self, run: str = "") -> Answer:
        """Return the verdict of a run: cause, first sign, advice, and the finding of each rule that fired."""
        summary = overview(self.run(run))
        outcome = summary["outcome"]
        fired = [rule for rule in summary["rules"] if rule["findings"]]
        return short(
            {
                "run": summary["name"],
                "verdict": outcome["word"],
                "text": outcome["text"],
                "status": summary["status"],
                "steps": summary["steps"],
                "planned_steps": summary["planned_steps"],
                "checkpoint": summary["checkpoint"],
                "first_sign": outcome["first_sign"] or _first_sign(outcome["findings_ranked"]),
                "advice": outcome["advice"],
                "remarks": outcome["remarks"],
                "possible_causes": outcome["possible_causes"],
                "best_evaluation": outcome["best_evaluation"],
                "counts": outcome["rules"],
                "fired": [_fired(rule) for rule in fired[:_MAX_FINDINGS]],
                "undecided": _undecided(summary["rules"]),
                "damage": summary["damage"],
                "next": "series(run, name) shows a loss; findings(run, rule) has the evidence"
                if fired
                else "series(run, name) shows a loss; profile(run) where the time goes",
            }
        )

    def findings(self, run: str = "", rule: str = "") -> Answer:
        """Return the findings of a run, or of one rule, with their evidence.

        Raises:
            UnknownNameError: No rule of the run has that name.
        """
        summary = overview(self.run(run))
        rules = {entry["name"]: entry for entry in summary["rules"]}
        if rule and rule not in rules:
            raise UnknownNameError("rule", rule, tuple(rules), hint="rule")
        chosen = [rules[rule]] if rule else [entry for entry in rules.values() if entry["findings"]]
        found = [
            {"rule": entry["name"], "verdict": entry["verdict"], "why": entry["why"], "findings": entry["findings"][:5]}
            for entry in chosen[:_MAX_FINDINGS]
        ]
        return short({"run": summary["name"], "rules": found, "next": "leadline rules NAME documents a rule"})

    def series(self, run: str = "", name: str = "", statistic: str = "value", points: int = _POINTS) -> Answer:
        """Return a loss, a metric or a statistic of a tensor over steps; without a name, which scalars there are.

        Raises:
            UnknownNameError: Nothing of that name was captured.
        """
        digest = Digest(self.run(run))
        scalars = digest.scalar_names()
        if not name:
            names = [{"name": scalar, "mode": mode} for scalar, mode in scalars[:_MAX_NAMES]]
            return short({"run": digest.run.name, "scalars": names, "next": "series(run, name)"})
        if name not in digest.infos():
            raise UnknownNameError("tensor", name, tuple(digest.infos()), hint="name")
        rows = digest.statistic(name, statistic, points=max(2, min(points, MAX_POINTS))).to_pylist()
        if not rows:
            raise UnknownNameError("statistic", statistic, sorted(digest.captured().get(name, ())), hint="statistic")
        kept = [
            {key: row[key] for key in ("step", "mode", "worker", "value", "min", "max", "nonfinite")} for row in rows
        ]
        return short(
            {"run": digest.run.name, "name": name, "statistic": statistic, "points": kept[:MAX_POINTS]}, MAX_POINTS
        )

    def tensors(self, run: str = "", collection: str = "", pattern: str = "") -> Answer:
        """Return the names of captured tensors, and the statistics and modes of each."""
        opened = self.run(run)
        names = opened.tensor_names(regex=pattern or None, collection=collection or None)
        captured = Digest(opened).captured()
        rows = [
            {
                "name": name,
                "statistics": sorted(captured.get(name, ())),
                "modes": opened.tensor(name).modes(),
            }
            for name in names[:_MAX_NAMES]
        ]
        more = f"{len(names) - len(rows):,} more; give a pattern" if len(names) > len(rows) else ""
        return short(
            {
                "run": opened.name,
                "collections": {name: len(members) for name, members in opened.collections().items()},
                "tensors": rows,
                "next": more or "series(run, name, statistic)",
            },
            _MAX_NAMES,
        )

    def compare(self, run: str, other: str) -> Answer:
        """Return what differs between two runs: outcomes, losses and metrics, hyperparameters, rules, settings."""
        opened = [self.run(run), self.run(other)]
        digests = [Digest(compared) for compared in opened]
        scalars = comparison.scalars([comparison.scalar_summaries(digest) for digest in digests])
        hyperparameters = comparison.hyperparameters([comparison.hyperparameters_of(digest) for digest in digests])
        sections = {
            "facts": comparison.facts(opened),
            "hyperparameters": hyperparameters,
            "rules": comparison.rules(opened),
            "settings": comparison.settings(opened),
        }
        rows = {
            name: {row.name: list(row.values) for row in of if len(set(row.values)) > 1}
            for name, of in sections.items()
        }
        return short(
            {
                "runs": [compared.name for compared in opened],
                "outcomes": [outcome_of(compared).text for compared in opened],
                **rows,
                "scalars": [{"name": scalar.label, "texts": scalar.texts} for scalar in scalars[:_MAX_ITEMS]],
            },
            _MAX_NAMES,
        )

    def profile(self, run: str = "") -> Answer:
        """Return where the time of a run goes: phases, bottleneck, utilization, ranks, and Leadline's own overhead."""
        summary = overview(self.run(run))
        return short({"run": summary["name"], "time": summary["time"], "overhead": summary["cost"]})


def diagnose(path: str) -> Answer:
    """Return the verdict on the log of a training that ran without Leadline.

    Raises:
        ConfigurationError: There is no log at the path.
    """
    if path == "-":
        raise ConfigurationError("give the path of a file or a folder")
    try:
        log = read_log(os.path.expanduser(path))
    except OSError as error:
        raise ConfigurationError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    with tempfile.TemporaryDirectory(prefix="leadline-diagnose-") as folder:
        name = os.path.basename(os.path.realpath(path)) or "log"
        left_out = write_judged_run(log, os.path.join(folder, name), source=path)
        answer = Answers(folder).why(name)
        judged = read_rule_summary(os.path.join(folder, name)) or RuleSummary()
    others = len(left_out) + sum(rule.verdict == "not_applicable" for rule in judged.rules)
    missing = f"{counted(others, 'default rule')} need a run of leadline run train.py"
    return short(answer | {"log": log.kind, "rows": len(log.rows), "notes": log.damage, "next": missing})


def _first_sign(ranked: Sequence[RankedProblem]) -> str:
    """Return the finding of the worst problem where nothing came before it; empty: there is none."""
    if not ranked:
        return ""
    worst = ranked[0]
    step, message = worst["step"] if worst["since_step"] is None else worst["since_step"], worst["message"] or ""
    is_named = step is None or step < 0 or f"step {step:,}" in message
    return message if is_named else f"step {step:,}: {message}"


def _fired(rule: Mapping[str, Any]) -> Answer:
    first = rule["findings"][0]
    return {
        "rule": rule["name"],
        "severity": rule["severity"],
        "step": first["step"],
        "message": first["message"],
        "suggestion": first["suggestion"],
        "explained_by": rule["explained_by"],
        "findings": len(rule["findings"]),
    }


def _undecided(rules: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the rules that could not be decided, by the reason."""
    found: dict[str, list[str]] = {}
    for rule in rules:
        if rule["verdict"] == "undecided":
            found.setdefault(rule["why"], []).append(rule["name"])
    return found


def short(answer: Answer, items: int = _MAX_ITEMS) -> Answer:
    """Return an answer with bounded values."""
    return {key: bounded(value, items) for key, value in answer.items()}


def bounded(value: Any, items: int = _MAX_ITEMS) -> Any:
    """Return JSON values that are short: numbers of five digits, texts and lists with an end.

    Args:
        items: The number of entries of a list or an object; a last one says how many are left out.
    """
    value = to_json(value) if not isinstance(value, (dict, list, tuple)) else value
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else to_json(value)
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else f"{value[:_MAX_TEXT]}… ({len(value):,} characters)"
    if isinstance(value, dict):
        kept = list(value.items())[: max(items, _MAX_ITEMS)]
        rest = {str(key): bounded(item, items) for key, item in kept}
        return rest | ({"…": f"{len(value) - len(kept):,} more"} if len(value) > len(kept) else {})
    if isinstance(value, (list, tuple)):
        kept_items = [bounded(item, items) for item in value[:items]]
        return kept_items + ([f"… {len(value) - items:,} more"] if len(value) > items else [])
    return value
