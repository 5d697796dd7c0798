"""``leadline judge``: judge runs again, with their own rules or others; one, or all that are stored."""

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
from leadline.cli.progress import Counting
from leadline.cli.run_setup import default_rules, rule_specs
from leadline.errors import ConfigurationError, DamagedRunError, RunNotFoundError
from leadline.judge.added_rules import rules_of
from leadline.judge.engines.engine import Engine, Judged, Task, make_engine
from leadline.judge.judge import RuleResult, judge_run
from leadline.judge.rule_plan import resolve_rules
from leadline.reader import liveness
from leadline.reader.find_runs import find_run, find_runs, read_manifest
from leadline.records.manifest import RuleSpec

_MOST_LINES: Final = 10
"""Runs of which a line says that they could not be judged, or still run; the rest are counted."""


def judge(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs by name or path, patterns, folders of runs; default: the latest run."),
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option(help="[AS=]NAME[:key=value,…]; default: the rules of the run.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Go on until the run is over; of one run.")] = False,
    engine: Annotated[str, typer.Option(help="Where to judge: local (on all cores) or ray.")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; default: $RAY_ADDRESS, else one on this machine.")
    ] = None,
    fail_on_issues: Annotated[
        bool, typer.Option(help="End with status 1 if a rule found something or failed, or a run cannot be judged.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Judge stored or running runs; nothing is written into them and no action is done."""
    if ray_address and engine != "ray":
        raise ConfigurationError("--ray-address is for --engine ray; add it")
    judging = make_engine(engine, ray_address=ray_address)
    found, others = _find(runs)
    given = [spec for spec, _ in resolve_rules(rule_specs(rule or (), os.getcwd()))]
    if follow and (engine != "local" or len(found) != 1):
        raise ConfigurationError("--follow goes with one run and --engine local; name one run")
    tasks, damaged = _tasks(found, given)
    judged = _follow(tasks) if follow else _judge(judging, tasks)
    answers = [*judged, *damaged, *others]
    _tell(answers)
    if as_json:
        typer.echo(json.dumps([_spoken(each) for each in answers], indent=2, ensure_ascii=False))
    else:
        _show([each for each in judged if not each.problem], is_many=len(answers) > 1)
    return _status(answers, fail_on_issues=fail_on_issues)


def _find(places: Sequence[str] | None) -> tuple[list[str], list[Judged]]:
    """The runs that are meant; and places that are there, but no runs, as a shell's pattern may name them."""
    found: dict[str, None] = {}
    refused = []
    for place in places or (None,):
        try:
            found |= dict.fromkeys([find_run()] if place is None else find_runs(place))
        except RunNotFoundError:
            if place is None or not os.path.exists(place) or len(places or ()) == 1:
                raise
            refused.append(Judged(os.path.abspath(place), problem=f"{place} is no run, and holds none"))
    return list(found), refused


def _tasks(runs: Sequence[str], given: Sequence[RuleSpec]) -> tuple[list[Task], list[Judged]]:
    """What is to be judged; and runs that cannot be, since what they were to be judged by cannot be read."""
    tasks, refused = [], []
    for run in runs:
        try:
            tasks.append(Task(run, tuple(given) or rules_of(run, read_manifest(run)) or tuple(default_rules())))
        except DamagedRunError as error:
            refused.append(Judged(run, problem=str(error)))
    return tasks, refused


def _judge(engine: Engine, tasks: Sequence[Task]) -> list[Judged]:
    """Judge all, in the order of the tasks, telling on standard error how far it is."""
    found: dict[str, Judged] = {}
    with Counting(len(tasks)) as counting, closing(engine.judge(tasks)) as answers:
        for each in answers:
            found[each.run] = each
            counting.count(has_fired=any(rule.findings for rule in each.rules))
    return [found[task.run] for task in tasks]


def _follow(tasks: Sequence[Task]) -> list[Judged]:
    results = [(task, judge_run(task.run, task.rules, follow=True)) for task in tasks]
    return [Judged(task.run, each.rules, each.damage) for task, each in results]


def _tell(answers: Sequence[Judged]) -> None:
    """Say on standard error which runs could not be judged, or are not over."""
    problems = [each.problem for each in answers if each.problem]
    running = [os.path.basename(each.run) for each in answers if not each.problem and not liveness.is_over(each.run)]
    notes = [f"{name} is still running: judged as it stands; --follow goes on until it ends" for name in running]
    for lines, kind in ((problems, "could not be judged"), (notes, "are still running")):
        for line in lines[:_MOST_LINES]:
            complain(line)
        if len(lines) > _MOST_LINES:
            complain(f"{len(lines) - _MOST_LINES:,} runs more {kind}; --json lists all")


def _show(judged: Sequence[Judged], *, is_many: bool) -> None:
    if is_many and judged:
        console().print(summary(judged))
        return
    for each in judged:
        console().print(_table(each))


def _table(judged: Judged) -> Table:
    table = Table.grid(padding=(0, 2))
    for index, each in enumerate(judged.rules):
        name = Text(os.path.basename(judged.run), style="bold") if index == 0 else Text()
        shown = "undecided" if each.verdict == "undecided" else each.status
        said = f"step {each.findings[0].step:,}: {each.findings[0].message}" if each.findings else each.why
        table.add_row(name, Text(each.name), status(shown), Text(said))
    return table


def _status(answers: Sequence[Judged], *, fail_on_issues: bool) -> int:
    """2: nothing could be judged; 1: something is wrong, and the caller wants to know."""
    if all(each.problem for each in answers):
        return 2
    results = [rule for each in answers for rule in each.rules]
    has_issues = any(each.findings or each.status == "Error" for each in results)
    return 1 if fail_on_issues and (has_issues or any(each.problem for each in answers)) else 0


def _spoken(judged: Judged) -> dict[str, Any]:
    return {
        "name": os.path.basename(judged.run),
        "uri": judged.run,
        "problem": judged.problem or None,
        "is_running": not judged.problem and not liveness.is_over(judged.run),
        "damage": list(judged.damage),
        "rules": [_spoken_rule(each) for each in judged.rules],
    }


def _spoken_rule(result: RuleResult) -> dict[str, Any]:
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
