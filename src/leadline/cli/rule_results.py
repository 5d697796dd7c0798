"""The rule results of a run as a block of text: findings first, then counts by reason."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.cli.console import status
from leadline.records.formatting import counted

_MAX_FINDINGS: Final = 3
_MAX_NAMES: Final = 8
_MAX_REASONS: Final = 6

Rule = dict[str, Any]


def rule_block(rules: list[Rule]) -> RenderableType:
    """Rules with findings in full, then failed rules, the clear rules, and the undecided ones by reason.

    Args:
        rules: As in ``leadline show --json``.
    """
    if not rules:
        return Text("no rules were evaluated for this run; evaluate them with: leadline judge", style="dim")
    table = Table.grid(padding=(0, 2))
    for rule in rules:
        if rule["findings"] or rule["status"] == "Error":
            table.add_row(Text(rule["name"]), status(rule["status"]), _findings(rule))
    rest = [rule for rule in rules if not rule["findings"] and rule["status"] != "Error"]
    clear = [rule["name"] for rule in rest if rule["verdict"] == "clear"]
    if clear:
        table.add_row(Text(counted(len(clear), "rule")), Text("clear", style="green"), Text(_names(clear), style="dim"))
    for label, reasons in _by_reason(rest).items():
        for why, names in reasons[:_MAX_REASONS]:
            text = f"{why}: {_names(names)}" if why else _names(names)
            table.add_row(Text(counted(len(names), "rule")), Text(label, style="dim"), Text(text, style="dim"))
        others = sum(len(names) for _, names in reasons[_MAX_REASONS:])
        if others:
            table.add_row(Text(counted(others, "rule")), Text(label, style="dim"), Text("for other reasons", "dim"))
    return Group(_count_line(rules), table)


def _by_reason(rules: list[Rule]) -> dict[str, list[tuple[str, list[str]]]]:
    """Rules that are not clear by status and reason, the most common reason first."""
    by_label: dict[str, dict[str, list[str]]] = {}
    for rule in rules:
        if rule["verdict"] != "clear":
            label = "undecided" if rule["verdict"] == "undecided" else rule["status"]
            by_label.setdefault(label, {}).setdefault(rule["why"] or "", []).append(rule["name"])
    return {label: sorted(reasons.items(), key=lambda reason: -len(reason[1])) for label, reasons in by_label.items()}


def _names(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def _count_line(rules: list[Rule]) -> Text:
    fired = sum(bool(rule["findings"]) for rule in rules)
    return Text(f"{f'{fired:,}' if fired else 'none'} of {counted(len(rules), 'rule')} fired", style="bold")


def _findings(rule: Rule) -> RenderableType:
    if not rule["findings"]:
        return Text(rule["why"] or "", style="dim")
    lines: list[RenderableType] = []
    for finding in rule["findings"][:_MAX_FINDINGS]:
        until = f" to {finding['last_step']:,}" if finding["last_step"] > finding["step"] else ""
        lines.append(Text(f"step {finding['step']:,}{until}: {finding['message']}"))
    if rule["explained_by"]:
        lines.append(Text(f"probably caused by the finding of {rule['explained_by']}", style="dim"))
    elif rule["findings"][0]["suggestion"]:
        lines.append(Text(f"try: {rule['findings'][0]['suggestion']}", style="dim"))
    more = len(rule["findings"]) - _MAX_FINDINGS
    if more > 0:
        lines.append(Text(f"and {counted(more, 'more finding')}", style="dim"))
    return Group(*lines)
