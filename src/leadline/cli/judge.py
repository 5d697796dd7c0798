"""``leadline judge``: judge runs again, with their own rules or others."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import leadline
from leadline.cli.overview import spoken_finding
from leadline.cli.prepare import default_rules, rule_specs
from leadline.cli.render import console, status
from leadline.judge.judge import RuleResult, judge_run
from leadline.judge.plan import resolve_rules
from leadline.reader.run import Run
from leadline.records.manifest import RuleSpec


def judge(
    runs: Annotated[list[str] | None, typer.Argument(help="Runs by name or path; default: the latest.")] = None,
    rule: Annotated[
        list[str] | None, typer.Option(help="[AS=]NAME[:key=value,…]; default: the rules of the run.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Go on until the run is over.")] = False,
    fail_on_issues: Annotated[bool, typer.Option(help="End with status 1 if a rule found something.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Judge stored or running runs; nothing is written into them and no action is done."""
    found = [leadline.open_run(each) for each in runs] if runs else [leadline.open_run()]
    given = rule_specs(rule or (), os.getcwd())
    resolve_rules(given)
    judged = [(run, _judge(run, given, follow=follow)) for run in found]
    if as_json:
        typer.echo(json.dumps([_spoken(*each) for each in judged], indent=2, ensure_ascii=False))
    else:
        console().print(_table(judged))
    has_issues = any(each.findings or each.status == "Error" for _, results in judged for each in results)
    return 1 if fail_on_issues and has_issues else 0


def _judge(run: Run, given: list[RuleSpec], *, follow: bool) -> tuple[RuleResult, ...]:
    specs = given or list(run.manifest.rules) or default_rules()
    return judge_run(run.uri, specs, follow=follow).rules


def _table(judged: list[tuple[Run, tuple[RuleResult, ...]]]) -> Table:
    table = Table.grid(padding=(0, 2))
    for run, results in judged:
        for index, each in enumerate(results):
            name = Text(run.name, style="bold") if index == 0 else Text()
            shown = "undecided" if each.verdict == "undecided" else each.status
            said = f"step {each.findings[0].step:,}: {each.findings[0].message}" if each.findings else each.why
            table.add_row(name, Text(each.name), status(shown), Text(said))
    return table


def _spoken(run: Run, results: tuple[RuleResult, ...]) -> dict[str, Any]:
    return {
        "name": run.name,
        "uri": run.uri,
        "rules": [
            {
                "name": each.name,
                "rule": each.rule,
                "parameters": dict(each.parameters),
                "status": each.status,
                "verdict": each.verdict,
                "why": each.why,
                "judged_steps": each.judged_steps,
                "findings": [spoken_finding(finding) for finding in each.findings],
            }
            for each in results
        ],
    }
