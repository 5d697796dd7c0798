"""Two runs beside each other: what they were told to do, and what their rules came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leadline.analysis.overview import steps_of
from leadline.dashboard.rule_view import RuleView, rule_views
from leadline.reader.run import Run
from leadline.records.formatting import duration, iso
from leadline.records.names import JOB_ENDED

_LEFT_OUT = frozenset({"name", "uri", "started_ns", "workers", "nodes", "plan", "settings", "format"})
_MOST_ROWS = 500


@dataclass(frozen=True, slots=True)
class FactComparison:
    """One thing in both runs."""

    name: str
    one: str
    other: str

    @property
    def differs(self) -> bool:
        return self.one != self.other


def facts(one: Run, other: Run) -> list[FactComparison]:
    """How both stand."""
    told = [_facts(each) for each in (one, other)]
    return [FactComparison(name, told[0][name], told[1][name]) for name in told[0]]


def _facts(run: Run) -> dict[str, str]:
    started, ended = run.manifest.started_ns, run.status_document.get("ended_ns")
    steps = steps_of(list(run.worker_documents().values()))
    has_ended = run.status in JOB_ENDED and isinstance(ended, int)
    return {
        "status": run.status,
        "started": iso(started) or "–",
        "duration": duration((ended - started) / 1e9) if has_ended and isinstance(ended, int) else "running",
        "workers": str(len(run.workers())),
        "steps": ", ".join(f"{count:,} {mode}" for mode, count in steps.items()) or "none",
    }


def configuration(one: Run, other: Run) -> list[FactComparison]:
    """What the two were told, that which differs first."""
    told = [dict(_flat(_settings(each))) for each in (one, other)]
    rows = [
        FactComparison(name, told[0].get(name, "–"), told[1].get(name, "–"))
        for name in dict.fromkeys([*told[0], *told[1]])
    ]
    return sorted(rows, key=lambda each: not each.differs)[:_MOST_ROWS]


def _settings(run: Run) -> Mapping[str, Any]:
    document = run.manifest.to_dict()
    kept = {key: each for key, each in document.items() if key not in _LEFT_OUT}
    kept["command"] = " ".join(map(str, document["command"]))
    kept["rules"] = {each["alias"]: {"rule": each["rule"], **each["parameters"]} for each in document["rules"]}
    kept["actions"] = {str(place): str(each) for place, each in enumerate(run.manifest.actions, 1)}
    kept["profile"] = {each.id or each.kind: each.spoken() for each in run.manifest.profile}
    return {**kept, **(document.get("settings") or {})}


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every leaf by its path: ``rules.vanishing_gradient.threshold``."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _flat(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        yield name, ", ".join(map(str, value)) or "none"
    elif value not in ({}, None, ""):
        yield name, str(value)


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """A rule in both runs; None: it is not judged there."""

    name: str
    one: RuleView | None
    other: RuleView | None

    @property
    def differs(self) -> bool:
        return (self.one and self.one.verdict) != (self.other and self.other.verdict)


def rules(one: Run, other: Run) -> list[RuleComparison]:
    """What the rules of both came to, that which differs first."""
    told = [{each.alias: each for each in rule_views(run)} for run in (one, other)]
    rows = [RuleComparison(name, told[0].get(name), told[1].get(name)) for name in dict.fromkeys([*told[0], *told[1]])]
    return sorted(rows, key=lambda each: not each.differs)
