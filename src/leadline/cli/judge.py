"""``leadline judge``: evaluate rules on stored or running runs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from leadline.analysis.overview import format_finding
from leadline.cli.backtest import summary
from leadline.cli.console import complain, console, status
from leadline.cli.progress import ProgressCounter
from leadline.config.options import parse_rule
from leadline.errors import ConfigurationError, DamagedRunError, RunNotFoundError
from leadline.judge.added_rules import rules_of
from leadline.judge.engines.engine import Engine, Judged, Task, make_engine
from leadline.judge.judge import judge_run
from leadline.judge.results import RuleResult
from leadline.judge.rule_plan import default_rules, resolve_rules
from leadline.reader import liveness
from leadline.reader.find_runs import find_run, find_runs, read_manifest
from leadline.records.manifest import RuleSpec

_MAX_LINES: Final = 10
"""The maximum number of runs that are named as not judged or as still running; the rest are counted."""


def judge(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs by name or path, patterns, folders of runs; default: the latest run."),
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option(help="[ALIAS=]NAME[:key=value,…]; default: the rules of the run.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Continue until the run has ended; needs a single run.")] = False,
    engine: Annotated[str, typer.Option(help="Where to evaluate: local (on all cores) or ray.")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster; default: $RAY_ADDRESS, else a local cluster.")
    ] = None,
    fail_on_issues: Annotated[
        bool, typer.Option(help="Exit with status 1 if a rule fired or failed, or a run cannot be judged.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Evaluate rules on stored or running runs.

    Does not write to the runs and runs no actions.
    """
    if ray_address and engine != "ray":
        raise ConfigurationError("--ray-address needs --engine ray")
    selected = make_engine(engine, ray_address=ray_address)
    paths, others = _find(runs)
    given = [spec for spec, _ in resolve_rules(parse_rule(text, os.getcwd()) for text in rule or ())]
    if follow and (engine != "local" or len(paths) != 1):
        raise ConfigurationError("--follow needs a single run and --engine local")
    tasks, damaged = _tasks(paths, given)
    judged = _follow(tasks) if follow else _judge(selected, tasks)
    results = [*judged, *damaged, *others]
    _report_problems(results)
    if as_json:
        typer.echo(json.dumps([_to_dict(result) for result in results], indent=2, ensure_ascii=False))
    else:
        _show([result for result in judged if not result.problem], is_many=len(results) > 1)
    return _exit_status(results, fail_on_issues=fail_on_issues)


def _find(arguments: Sequence[str] | None) -> tuple[list[str], list[Judged]]:
    """The runs of the arguments; and existing paths that are no runs, as a shell pattern may yield them."""
    paths: dict[str, None] = {}
    refused = []
    for argument in arguments or (None,):
        try:
            paths |= dict.fromkeys([find_run()] if argument is None else find_runs(argument))
        except RunNotFoundError:
            if argument is None or not os.path.exists(argument) or len(arguments or ()) == 1:
                raise
            refused.append(Judged(os.path.abspath(argument), problem=f"{argument} is not a run and contains none"))
    return list(paths), refused


def _tasks(runs: Sequence[str], given: Sequence[RuleSpec]) -> tuple[list[Task], list[Judged]]:
    """The runs to judge with their rules; and the runs whose rules cannot be read."""
    tasks, refused = [], []
    for run in runs:
        try:
            tasks.append(Task(run, tuple(given) or rules_of(run, read_manifest(run)) or tuple(default_rules())))
        except DamagedRunError as error:
            refused.append(Judged(run, problem=str(error)))
    return tasks, refused


def _judge(engine: Engine, tasks: Sequence[Task]) -> list[Judged]:
    """Judge all runs and return the results in the order of the tasks; progress goes to standard error."""
    judged: dict[str, Judged] = {}
    with ProgressCounter(len(tasks)) as progress, closing(engine.judge(tasks)) as results:
        for result in results:
            judged[result.run] = result
            progress.count(has_fired=any(rule.findings for rule in result.rules))
    return [judged[task.run] for task in tasks]


def _follow(tasks: Sequence[Task]) -> list[Judged]:
    results = [(task, judge_run(task.run, task.rules, follow=True)) for task in tasks]
    return [Judged(task.run, result.rules, result.damage) for task, result in results]


def _report_problems(results: Sequence[Judged]) -> None:
    """Report runs that could not be judged, or that are still running, on standard error."""
    problems = [result.problem for result in results if result.problem]
    ongoing = [result.run for result in results if not result.problem and not liveness.is_over(result.run)]
    notes = [f"{os.path.basename(run)} is still running: judged up to now; use --follow to continue" for run in ongoing]
    for lines, kind in ((problems, "could not be judged"), (notes, "are still running")):
        for line in lines[:_MAX_LINES]:
            complain(line)
        if len(lines) > _MAX_LINES:
            complain(f"{len(lines) - _MAX_LINES:,} more runs {kind}; --json lists all")


def _show(judged: Sequence[Judged], *, is_many: bool) -> None:
    if is_many and judged:
        console().print(summary(judged))
        return
    for result in judged:
        console().print(_table(result))


def _table(judged: Judged) -> Table:
    table = Table.grid(padding=(0, 2))
    for index, rule in enumerate(judged.rules):
        name = Text(os.path.basename(judged.run), style="bold") if index == 0 else Text()
        shown = "undecided" if rule.verdict == "undecided" else rule.status
        message = f"step {rule.findings[0].step:,}: {rule.findings[0].message}" if rule.findings else rule.why
        table.add_row(name, Text(rule.name), status(shown), Text(message))
    return table


def _exit_status(results: Sequence[Judged], *, fail_on_issues: bool) -> int:
    """2 if no run could be judged; 1 if there are issues and the caller wants them reported; else 0."""
    if all(result.problem for result in results):
        return 2
    rules = [rule for result in results for rule in result.rules]
    has_issues = any(rule.findings or rule.status == "Error" for rule in rules)
    return 1 if fail_on_issues and (has_issues or any(result.problem for result in results)) else 0


def _to_dict(judged: Judged) -> dict[str, Any]:
    return {
        "name": os.path.basename(judged.run),
        "uri": judged.run,
        "problem": judged.problem or None,
        "is_running": not judged.problem and not liveness.is_over(judged.run),
        "damage": list(judged.damage),
        "rules": [_rule_to_dict(rule) for rule in judged.rules],
    }


def _rule_to_dict(result: RuleResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "rule": result.rule,
        "parameters": dict(result.parameters),
        "status": result.status,
        "verdict": result.verdict,
        "why": result.why,
        "judged_steps": result.judged_steps,
        "findings": [format_finding(finding) for finding in result.findings],
    }
