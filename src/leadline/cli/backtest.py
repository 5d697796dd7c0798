"""What came of many runs, as a person reads it: what fired in which run, and per rule in how many."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.judge.engines.engine import Judged
from leadline.judge.judge import RuleResult


@dataclass(slots=True)
class RuleTally:
    """What came of one rule in all runs."""

    name: str
    runs: int = 0
    steps: list[int] = field(default_factory=list)
    """Of the runs in which it fired, the step of the first finding."""
    clear: int = 0
    undecided: Counter[str] = field(default_factory=Counter)
    """Runs by why it could not decide."""
    errors: Counter[str] = field(default_factory=Counter)
    """Runs by how it failed."""

    def add(self, result: RuleResult) -> None:
        """Count a run; one in which it fired before it failed is both."""
        self.runs += 1
        if result.findings:
            self.steps.append(result.findings[0].step)
        if result.status == "Error":
            self.errors[result.why] += 1
        elif result.verdict == "undecided":
            self.undecided[result.why] += 1
        elif not result.findings:
            self.clear += 1


def tallies(judged: Iterable[Judged]) -> list[RuleTally]:
    """One for each rule, those that fired most often first."""
    found: dict[str, RuleTally] = {}
    for run in judged:
        for each in run.rules:
            found.setdefault(each.name, RuleTally(each.name)).add(each)
    return sorted(found.values(), key=lambda each: -len(each.steps))


def summary(judged: Sequence[Judged]) -> RenderableType:
    """The runs in which something fired, a table of the rules, why some could not decide or failed, and a last line."""
    found = tallies(judged)
    fired = [run for run in judged if any(rule.findings for rule in run.rules)]
    parts: list[RenderableType] = [_fired(fired), Text()] if fired else []
    parts.append(_rules(found))
    for title, reasons in (("undecided", _undecided(found)), ("Error", _errors(found))):
        if reasons.row_count:
            parts += [Text(), Text(title, style="dim" if title == "undecided" else "red"), reasons]
    last = f"{_runs(len(judged))}, {len(found):,} rules: findings in {_runs(len(fired))}"
    return Group(*parts, Text(), Text(last, style="bold"))


def _rules(found: Iterable[RuleTally]) -> Table:
    table = _grid("RULE", "FIRED", "CLEAR", "UNDECIDED", "ERROR", "FIRST STEP", right=("CLEAR", "UNDECIDED", "ERROR"))
    for each in found:
        fired = Text(f"{len(each.steps):,} of {each.runs:,}", style="red" if each.steps else "")
        undecided, errors = each.undecided.total(), each.errors.total()
        numbers = (f"{each.clear:,}", f"{undecided:,}", Text(f"{errors:,}", style="red" if errors else ""))
        table.add_row(each.name, fired, *numbers, _span(each.steps))
    return table


def _span(steps: Sequence[int]) -> str:
    """The first steps of all runs, from the earliest to the latest."""
    if not steps:
        return "–"
    low, high = min(steps), max(steps)
    return f"{low:,}" if low == high else f"{low:,} … {high:,}"


def _undecided(found: Iterable[RuleTally]) -> Table:
    return _reasons((each.name, each.undecided) for each in found)


def _errors(found: Iterable[RuleTally]) -> Table:
    return _reasons((each.name, each.errors) for each in found)


def _reasons(found: Iterable[tuple[str, Counter[str]]]) -> Table:
    """Of each rule the reason that most runs have, and how many others there are."""
    table = Table.grid(padding=(0, 2))
    for name, reasons in found:
        if reasons:
            (why, count), *others = reasons.most_common()
            more = f"  (and otherwise in {_runs(sum(each for _, each in others))})" if others else ""
            table.add_row(Text(f"  {name}"), Text(_runs(count)), Text(why + more))
    return table


def _fired(judged: Sequence[Judged]) -> Table:
    table = _grid("RUN", "WHAT FIRED, AND WHEN FIRST")
    for run, name in zip(judged, run_names(judged), strict=True):
        found = sorted((each.findings[0].step, each.name) for each in run.rules if each.findings)
        table.add_row(Text(name, style="bold"), Text(", ".join(f"{rule} at {step:,}" for step, rule in found)))
    return table


def run_names(judged: Sequence[Judged]) -> list[str]:
    """How runs are called here: by name, or by path where two have one name."""
    counts = Counter(os.path.basename(each.run) for each in judged)
    return [_name(each.run, is_alone=counts[os.path.basename(each.run)] == 1) for each in judged]


def _name(run: str, *, is_alone: bool) -> str:
    return os.path.basename(run) if is_alone else os.path.relpath(run)


def _grid(*names: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in ("RULE", *right))
    return table


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"
