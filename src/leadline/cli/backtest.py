"""Summary of many judged runs: the findings of each run, and the number of runs for each rule and verdict."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.judge.engines.engine import Judged
from leadline.judge.results import RuleResult


@dataclass(slots=True)
class RuleTally:
    """The results of one rule in all runs."""

    name: str
    runs: int = 0
    steps: list[int] = field(default_factory=list)
    """The step of the first finding, for each run in which it fired."""
    clear: int = 0
    undecided: Counter[str] = field(default_factory=Counter)
    """Number of runs by the reason why it was undecided."""
    errors: Counter[str] = field(default_factory=Counter)
    """Number of runs by the error with which it failed."""

    def add(self, result: RuleResult) -> None:
        """Count a run; a run in which the rule fired before it failed counts as both."""
        self.runs += 1
        if result.findings:
            self.steps.append(result.findings[0].step)
        if result.status == "Error":
            self.errors[result.why] += 1
        elif result.verdict == "undecided":
            self.undecided[result.why] += 1
        elif not result.findings:
            self.clear += 1


def count_results(judged: Iterable[Judged]) -> list[RuleTally]:
    """Count the results by rule; the rules that fired most often come first."""
    tallies: dict[str, RuleTally] = {}
    for run in judged:
        for result in run.rules:
            tallies.setdefault(result.name, RuleTally(result.name)).add(result)
    return sorted(tallies.values(), key=lambda tally: -len(tally.steps))


def summary(judged: Sequence[Judged]) -> RenderableType:
    """The runs with findings, a table of the rules, the reasons for undecided and failed rules, and a last line."""
    tallies = count_results(judged)
    fired = [run for run in judged if any(rule.findings for rule in run.rules)]
    parts: list[RenderableType] = [_fired(fired), Text()] if fired else []
    parts.append(_rules(tallies))
    for title, reasons in (("undecided", _undecided(tallies)), ("Error", _errors(tallies))):
        if reasons.row_count:
            parts += [Text(), Text(title, style="dim" if title == "undecided" else "red"), reasons]
    last = f"{_runs(len(judged))}, {len(tallies):,} rules: findings in {_runs(len(fired))}"
    return Group(*parts, Text(), Text(last, style="bold"))


def _rules(tallies: Iterable[RuleTally]) -> Table:
    table = _grid("RULE", "FIRED", "CLEAR", "UNDECIDED", "ERROR", "FIRST STEP", right=("CLEAR", "UNDECIDED", "ERROR"))
    for tally in tallies:
        fired = Text(f"{len(tally.steps):,} of {tally.runs:,}", style="red" if tally.steps else "")
        undecided, errors = tally.undecided.total(), tally.errors.total()
        numbers = (f"{tally.clear:,}", f"{undecided:,}", Text(f"{errors:,}", style="red" if errors else ""))
        table.add_row(tally.name, fired, *numbers, _step_range(tally.steps))
    return table


def _step_range(steps: Sequence[int]) -> str:
    """The range of the first steps of all runs."""
    if not steps:
        return "–"
    low, high = min(steps), max(steps)
    return f"{low:,}" if low == high else f"{low:,} … {high:,}"


def _undecided(tallies: Iterable[RuleTally]) -> Table:
    return _reasons((tally.name, tally.undecided) for tally in tallies)


def _errors(tallies: Iterable[RuleTally]) -> Table:
    return _reasons((tally.name, tally.errors) for tally in tallies)


def _reasons(counts: Iterable[tuple[str, Counter[str]]]) -> Table:
    """The most common reason of each rule, and the number of runs with other reasons."""
    table = Table.grid(padding=(0, 2))
    for name, reasons in counts:
        if reasons:
            (why, count), *others = reasons.most_common()
            more = f"  (other reasons in {_runs(sum(other for _, other in others))})" if others else ""
            table.add_row(Text(f"  {name}"), Text(_runs(count)), Text(why + more))
    return table


def _fired(judged: Sequence[Judged]) -> Table:
    table = _grid("RUN", "FIRST FINDINGS")
    for run, name in zip(judged, run_names(judged), strict=True):
        firsts = sorted((rule.findings[0].step, rule.name) for rule in run.rules if rule.findings)
        table.add_row(Text(name, style="bold"), Text(", ".join(f"{rule} at {step:,}" for step, rule in firsts)))
    return table


def run_names(judged: Sequence[Judged]) -> list[str]:
    """The display names of runs: the name, or the path where two runs share a name."""
    counts = Counter(os.path.basename(run.run) for run in judged)
    return [_name(run.run, is_unique=counts[os.path.basename(run.run)] == 1) for run in judged]


def _name(run: str, *, is_unique: bool) -> str:
    return os.path.basename(run) if is_unique else os.path.relpath(run)


def _grid(*names: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in ("RULE", *right))
    return table


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"
