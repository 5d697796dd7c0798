"""Comparison of runs: settings, rules and losses side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.analysis.digest import Digest
from leadline.analysis.hyperparameters import all_hyperparameters, given_hyperparameters, largest_hyperparameters
from leadline.reader.run import Run
from leadline.reader.summary import reported_hyperparameters
from leadline.reader.window import natural_sort_key
from leadline.records import describe
from leadline.records.documents import RuleSummary, SummarizedRule
from leadline.records.formatting import duration, significant
from leadline.records.json_object import JsonObject
from leadline.records.names import JOB_ENDED
from leadline.records.totals import steps_by_mode
from leadline.store.run_state import read_rule_summary

ScalarName = tuple[str, str]
"""Name and mode."""
_LATE: Final = 10
"""One value in so many, the last ones, make the level of a loss or metric."""
_EXCLUDED: Final = frozenset({"name", "uri", "started_ns", "workers", "nodes", "plan", "settings", "format"})


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One property of several runs."""

    name: str
    values: tuple[str | None, ...]
    """One for each run, in their order; None: the run has no such property."""

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


@dataclass(frozen=True, slots=True)
class ScalarSummary:
    """A loss or metric of one run, of its first worker.

    Attributes:
        first: The first value: of equal data and weights it is equal. NaN if it is not finite, as ``last``.
        level: The mean of the last tenth of the values, which differs less by chance; NaN if the last one is.
        min: Of the finite values; NaN without any, as ``max``.
    """

    first: float
    last: float
    level: float
    min: float
    max: float

    def text(self, other: ScalarSummary | None = None) -> str:
        """Return ``2.31 → 0.129 (0.118 … 2.31)``: first value, level, minimum and maximum.

        Args:
            other: What the level is compared with: ``2.31 → 0.129, -8.5 % (0.118 … 2.31)``.
        """
        change = self.change(other)
        percent = f", {_percent(change)}" if change else ""
        course = f"{significant(self.first)} → {significant(self.level)}"
        return f"{course}{percent} ({significant(self.min)} … {significant(self.max)})"

    def change(self, other: ScalarSummary | None) -> float | None:
        """Return the difference of the levels, as a share of the other one; None if there is none."""
        if other is None or not other.level or not math.isfinite(self.level) or not math.isfinite(other.level):
            return None
        return (self.level - other.level) / abs(other.level)


@dataclass(frozen=True, slots=True)
class ComparedScalar:
    """A loss or metric of several runs."""

    name: str
    mode: str
    values: tuple[ScalarSummary | None, ...]
    """One for each run, in their order; None: it was not captured there."""

    @property
    def label(self) -> str:
        """The name, with the mode unless it is ``train``."""
        return self.name if self.mode == "train" else f"{self.name} ({self.mode})"

    @property
    def texts(self) -> tuple[str | None, ...]:
        """The values as text, those after the first with the change from the first."""
        first, *others = self.values
        texts = [None if value is None else value.text(first) for value in others]
        return (None if first is None else first.text(), *texts)

    @property
    def changes(self) -> tuple[float | None, ...]:
        """The change of each value from the first, as a share of that; None where it is not known."""
        first, *others = self.values
        return (None, *(None if value is None else value.change(first) for value in others))


def _percent(share: float) -> str:
    """Return a share with its sign and three significant digits: ``-8.5 %``, ``+1,120 %``."""
    rounded = float(f"{100 * share:.3g}")
    return f"{rounded:+,.0f} %" if abs(rounded) >= 1000 else f"{rounded:+.3g} %"


def facts(runs: Sequence[Run]) -> list[ComparedRow]:
    """Return status, duration, preset, steps and workers of runs."""
    return compared([_facts(run) for run in runs])


def settings(runs: Sequence[Run]) -> list[ComparedRow]:
    """Return the settings of runs by dotted name (``rules.vanishing_gradient.threshold``), different ones first."""
    rows = compared([dict(_flatten(_settings(run))) for run in runs])
    return sorted(rows, key=lambda row: not row.differs)


def rules(runs: Sequence[Run]) -> list[ComparedRow]:
    """Return the state of each rule, with the step at which it fired first, different ones first."""
    summaries = [read_rule_summary(run.path) or RuleSummary() for run in runs]
    states = [{rule.name: _rule_state(rule) for rule in summary.rules} for summary in summaries]
    return sorted(compared(states), key=lambda row: not row.differs)


def scalars(runs: Sequence[Mapping[ScalarName, ScalarSummary]]) -> list[ComparedScalar]:
    """Return losses and metrics of runs, those of the first run first.

    Args:
        runs: Those of each run, see ``scalar_summaries``.
    """
    found = dict.fromkeys(scalar for of_run in runs for scalar in of_run)
    return [ComparedScalar(name, mode, tuple(of_run.get((name, mode)) for of_run in runs)) for name, mode in found]


def scalar_summaries(digest: Digest) -> dict[ScalarName, ScalarSummary]:
    """Return the losses and metrics of a run by name and mode."""
    names = [scalar for scalar in digest.scalar_names() if _is_compared(digest, scalar[0])]
    found = {(name, mode): _scalar(digest, name, mode) for name, mode in names}
    return {scalar: summary for scalar, summary in found.items() if summary is not None}


def hyperparameters(runs: Sequence[Mapping[str, str]]) -> list[ComparedRow]:
    """Return the hyperparameters of runs, different ones first.

    Args:
        runs: Those of each run, see ``hyperparameters_of``.
    """
    return sorted(compared(runs), key=lambda row: not row.differs)


def hyperparameters_of(digest: Digest) -> dict[str, str]:
    """Return the hyperparameters of a run as text: those of its command line, of a booster, and captured ones."""
    run = digest.run
    given = given_hyperparameters(run.manifest.command, reported_hyperparameters(run.worker_documents().values()))
    return all_hyperparameters(given, largest_hyperparameters(digest))


def _rule_state(rule: SummarizedRule) -> str:
    place = describe.rule_place(rule)
    return f"fired at {place}" if place.startswith("step") else place.replace("_", " ")


def compared(properties: Sequence[Mapping[str, str]]) -> list[ComparedRow]:
    """Return a row for each property of several runs.

    Args:
        properties: Those of each run, by name.
    """
    names = dict.fromkeys(name for of_run in properties for name in of_run)
    return [ComparedRow(name, tuple(of_run.get(name) for of_run in properties)) for name in names]


def _facts(run: Run) -> dict[str, str]:
    workers = run.worker_documents()
    started_ns, ended_ns = run.manifest.started_ns, run.status_document.ended_ns
    facts = {"status": run.status}
    if run.status in JOB_ENDED and ended_ns is not None:
        facts["duration"] = duration(max(0, ended_ns - started_ns) / 1e9)
    facts |= {"preset": run.manifest.preset, "steps": describe.steps(steps_by_mode(workers.values()))}
    return facts | {"workers": str(len(run.workers()))}


def _settings(run: Run) -> JsonObject:
    document = run.manifest.to_dict()
    chosen = {key: value for key, value in document.items() if key not in _EXCLUDED}
    chosen["command"] = " ".join(map(str, document["command"]))
    chosen["rules"] = {rule["alias"]: _rule_settings(rule) for rule in document["rules"]}
    chosen["actions"] = {str(number): str(action) for number, action in enumerate(run.manifest.actions, 1)}
    chosen["profile"] = {window.id or window.kind: window.describe() for window in run.manifest.profile}
    return {**(document.get("settings") or {}), **chosen}


def _rule_settings(rule: Mapping[str, Any]) -> JsonObject:
    """The parameters of a rule, and its name if it has another alias; ``rules`` says whether a run has a rule."""
    return {**({} if rule["rule"] == rule["alias"] else {"rule": rule["rule"]}), **rule["parameters"]}


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf with its path."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        yield name, ", ".join(map(_text, value)) or "none"
    elif value not in ({}, None, ""):
        yield name, _text(value)


def _text(value: Any) -> str:
    """Return a setting as ``leadline.toml`` has it: ``true``, and ``action=stop_training`` for a table."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_text(item)}" for key, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_compared(digest: Digest, name: str) -> bool:
    info = digest.infos().get(name)
    return info is not None and bool({"losses", "metrics"} & set(info.collections))


def _scalar(digest: Digest, name: str, mode: str) -> ScalarSummary | None:
    rows = digest.scalar(name, mode).to_pylist()
    if not rows:
        return None
    first = min((row["worker"] for row in rows), key=natural_sort_key)
    rows = [row for row in rows if row["worker"] == first]
    finite = [row for row in rows if row["nonfinite"] < row["samples"]]
    begun = digest.scalar(name, mode, first, end_step=rows[0]["step"] + 1).to_pylist()[
        0
    ]  # of a bucket the last is kept
    before, last = (
        math.nan if row["nonfinite"] == row["samples"] else float(row["value"]) for row in (begun, rows[-1])
    )
    late = [float(row["value"]) for row in finite[-max(1, len(finite) // _LATE) :]]
    level = last if math.isnan(last) else math.fsum(late) / len(late)
    low = min((float(row["min"]) for row in finite), default=math.nan)
    return ScalarSummary(before, last, level, low, max((float(row["max"]) for row in finite), default=math.nan))
