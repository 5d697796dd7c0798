"""What the rules of a run say, as a block of text: findings first, those that are alike together."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.cli.console import status
from leadline.records.formatting import counted

_MOST_FINDINGS: Final = 3
_MOST_NAMES: Final = 8
_MOST_REASONS: Final = 6

Rule = dict[str, Any]


def verdicts(rules: list[Rule]) -> RenderableType:
    """Rules that found something in full; then failed ones; then those that are clear, and undecided ones by reason.

    Args:
        rules: As ``leadline show --json`` has them.
    """
    if not rules:
        return Text("no rule judged this run; judge it with: leadline judge", style="dim")
    table = Table.grid(padding=(0, 2))
    for rule in (each for each in rules if each["findings"] or each["status"] == "Error"):
        table.add_row(Text(rule["name"]), status(rule["status"]), _findings(rule))
    rest = [each for each in rules if not each["findings"] and each["status"] != "Error"]
    clear = [each["name"] for each in rest if each["verdict"] == "clear"]
    if clear:
        table.add_row(Text(counted(len(clear), "rule")), Text("clear", style="green"), Text(_named(clear), style="dim"))
    for word, reasons in _undecided(rest).items():
        for place, (why, names) in enumerate(reasons):
            said = Text.assemble((why, "dim"), (f": {_named(names)}" if why else _named(names), "dim"))
            shown = Text(counted(len(names), "rule")), Text(word, style="dim"), said
            table.add_row(*shown)
            if place == _MOST_REASONS - 1 and len(reasons) > _MOST_REASONS:
                left = sum(len(each) for _, each in reasons[_MOST_REASONS:])
                table.add_row(Text(counted(left, "rule")), Text(word, style="dim"), Text("for other reasons", "dim"))
                break
    return Group(_tally(rules), table)


def _undecided(rules: list[Rule]) -> dict[str, list[tuple[str, list[str]]]]:
    """Those that are not clear by their status and their reason, the reason of most of them first."""
    found: dict[str, dict[str, list[str]]] = {}
    for each in rules:
        if each["verdict"] != "clear":
            word = "undecided" if each["verdict"] == "undecided" else each["status"]
            found.setdefault(word, {}).setdefault(each["why"] or "", []).append(each["name"])
    return {word: sorted(reasons.items(), key=lambda one: -len(one[1])) for word, reasons in found.items()}


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def _tally(rules: list[Rule]) -> Text:
    found = sum(bool(each["findings"]) for each in rules)
    line = Text(f"{found:,} of {counted(len(rules), 'rule')} found something", style="bold")
    return line if found else Text(f"none of {counted(len(rules), 'rule')} found something", style="bold")


def _findings(rule: Rule) -> RenderableType:
    if not rule["findings"]:
        return Text(rule["why"] or "", style="dim")
    lines: list[RenderableType] = []
    for each in rule["findings"][:_MOST_FINDINGS]:
        until = f" to {each['last_step']:,}" if each["last_step"] > each["step"] else ""
        lines.append(Text(f"step {each['step']:,}{until}: {each['message']}"))
    if rule["explained_by"]:
        lines.append(Text(f"usually follows from what {rule['explained_by']} found", style="dim"))
    elif rule["findings"][0]["suggestion"]:
        lines.append(Text(f"try: {rule['findings'][0]['suggestion']}", style="dim"))
    more = len(rule["findings"]) - _MOST_FINDINGS
    if more > 0:
        lines.append(Text(f"and {counted(more, 'more finding')}", style="dim"))
    return Group(*lines)
