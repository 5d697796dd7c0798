"""What each capture of a run cost, and what leaves it out: the table of ``leadline show --cost``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.text import Text

from leadline.cli.table import table, table_width
from leadline.records.documents import CaptureCost, NodeDocument, RuleSummary, WorkerDocument
from leadline.records.formatting import duration, listed, share
from leadline.records.totals import CostTable, beside_seconds, compile_seconds, cost_table

_COLUMNS: Final = ("capture", "times", "each", "in all", "of the time", "left out by")
_MOST_NAMES: Final = 3
_LEAST_SHARE: Final = 0.001
"""What takes a smaller share of the time is summed up."""
_COUNTS: Final = frozenset({"nan_count", "nonfinite_count", "value"})
_RULE: Final = "rule:"


def cost_lines(workers: Sequence[WorkerDocument], nodes: Iterable[NodeDocument], summary: RuleSummary) -> Text:
    """Return the table of the worker where Leadline took most, and what it leaves out."""
    found = cost_table(workers)
    if found is None:
        return Text("no costs by capture: no step was recorded, or the run has no overhead budget")
    lines = table(_COLUMNS, _rows(found), right=_COLUMNS[1:-1], width=table_width())
    compiled = compile_seconds(workers)
    if compiled:
        lines.append(f"\nbeside that, {duration(compiled)} to compile capture programs")
    beside = beside_seconds(nodes, summary)
    if beside is not None:
        rules = summary.processor_seconds
        of_rules = f", {duration(rules)} of it for the rules" if rules else ""
        lines.append(f"\nbeside the training {duration(beside)} of processor time{of_rules}")
    lines.append("\nprocessor time of the training thread; of several workers, that where it was most", style="dim")
    return lines


def _rows(found: CostTable) -> list[tuple[str, ...]]:
    large = [cost for cost in found.captures if cost.own_ns >= _LEAST_SHARE * found.loop_ns]
    small = found.captures[len(large) :]
    captures = [(_named(cost), cost.captures, cost.own_ns, _left_out_by(cost)) for cost in large]
    if small:
        captures.append((f"{len(small)} more", 0, sum(cost.own_ns for cost in small), ""))
    rest = ("steps without captures, and the start", found.steps, found.steps_ns, "")
    rows = sorted((*captures, rest), key=lambda row: -row[2])
    total = sum(row[2] for row in rows)
    return [
        *(
            (
                name,
                f"{times:,}" if times else "",
                duration(own_ns / 1e9 / times) if times else "",
                duration(own_ns / 1e9),
                share(own_ns / found.loop_ns),
                option,
            )
            for name, times, own_ns, option in rows
        ),
        ("in all", "", "", duration(total / 1e9), share(total / found.loop_ns), ""),
    ]


def _named(cost: CaptureCost) -> str:
    what = _listed(cost.collections) or "tensors selected by name"
    if "nonfinite_count" in cost.statistics and _COUNTS.issuperset(cost.statistics):
        what = f"NaN counts of {what}"
    return what if cost.mode == "train" else f"{what} ({cost.mode})"


def _left_out_by(cost: CaptureCost) -> str:
    """Return the options without which nobody asks for the capture."""
    if "option" in cost.sources:
        return "leaving out --capture"
    rules = [source.removeprefix(_RULE) for source in cost.sources if source.startswith(_RULE)]
    if "preset" in cost.sources:
        return " ".join(["--preset light", *(f"--no-rule {name}" for name in rules)])
    return " ".join(f"--no-rule {name}" for name in rules)


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:_MOST_NAMES])
    return listed([*shown, f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else shown)
