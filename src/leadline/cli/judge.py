"""``leadline judge``: evaluate rules on stored or running runs."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Annotated, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from leadline.cli.arguments import complete_rule, complete_run
from leadline.cli.console import complain, console, echo_json, error_console, status
from leadline.cli.judge_tasks import find_judged, tasks_of
from leadline.cli.judged_document import judged_document, root_causes
from leadline.config.options import parse_rule
from leadline.errors import ConfigurationError
from leadline.judge.engines.engine import Engine, Judged, Task
from leadline.judge.engines.selection import make_engine
from leadline.judge.judge import judge_run
from leadline.judge.rule_entry import RuleResult
from leadline.judge.rule_plan import resolve_rules
from leadline.judge.run_trust import RunTrust
from leadline.judge.stored_results import store_results
from leadline.reader import liveness
from leadline.records import describe
from leadline.records.finding import Finding
from leadline.records.formatting import counted
from leadline.records.opposite_advice import StandingAdvice
from leadline.records.outcome import ranked
from leadline.remote.root_mirror import kept_fresh

_MAX_LINES: Final = 10
"""The maximum number of runs that are named as not judged or as still running; the rest are counted."""
_MAX_NAMES: Final = 10
"""The maximum number of tensors of a finding that are named."""
_REPORT_SECONDS: Final = 10.0
"""The interval between two lines without a terminal."""


def judge(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs by name or path, patterns, folders of runs; default: the latest run.",
            autocompletion=complete_run,
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="[ALIAS=]NAME[:key=value,…]; default: the rules of the run.", autocompletion=complete_rule),
    ] = None,
    follow: Annotated[
        bool, typer.Option(help="Continue until the run has ended; needs a single run.", show_default=False)
    ] = False,
    engine: Annotated[str, typer.Option(help="Where to evaluate: local (on all cores) or ray.")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster; default: $RAY_ADDRESS, else a local cluster.")
    ] = None,
    trust_run: Annotated[
        bool, typer.Option("--trust-run", help="Also evaluate rules whose code the run names, which imports that code.")
    ] = False,
    fail_on_issues: Annotated[
        bool,
        typer.Option(
            help="Exit with status 1 if a rule fired, failed or was left out, or a run cannot be judged.",
            show_default=False,
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Evaluate rules on stored or running runs.

    The results of a run's own rules are written into it once it has ended, those of other rules never. Runs no actions.
    Custom rules that only the run names are left out: give them with --rule, or --trust-run.
    """
    if ray_address and engine != "ray":
        raise ConfigurationError("--ray-address needs --engine ray")
    selected = make_engine(engine, ray_address=ray_address)
    paths, others = find_judged(runs)
    given = [spec for spec, _ in resolve_rules(parse_rule(text, os.getcwd()) for text in rule or ())]
    if follow and (engine != "local" or len(paths) != 1):
        raise ConfigurationError("--follow needs a single run and --engine local")
    tasks, left_out, damaged = tasks_of(paths, given, RunTrust(is_whole=trust_run))
    judged = [
        replace(result, rules=(*result.rules, *left_out.get(result.run, ()))) if not result.problem else result
        for result in (_follow(tasks) if follow else _judge(selected, tasks))
    ]
    for run, rules in left_out.items():
        names = ", ".join(rule.name for rule in rules)
        complain(
            f"{os.path.basename(run)}: left out, as only the run names their code: {names}; to take it: --trust-run"
        )
    results = [*judged, *damaged, *others]
    _report_problems(results)
    if not given and not follow:
        _store(tasks, judged)
    if as_json:
        echo_json([judged_document(result) for result in results])
    else:
        _show([result for result in judged if not result.problem], is_many=len(results) > 1)
    return max(_exit_status(results, fail_on_issues=fail_on_issues), int(fail_on_issues and bool(left_out)))


def _judge(engine: Engine, tasks: Sequence[Task]) -> list[Judged]:
    """Judge all runs and return the results in the order of the tasks; progress goes to standard error."""
    judged: dict[str, Judged] = {}
    with ProgressCounter(len(tasks)) as progress, closing(engine.judge(tasks)) as results:
        for result in results:
            judged[result.run] = result
            progress.count(has_fired=any(rule.findings for rule in result.rules))
    return [judged[task.run] for task in tasks]


def _follow(tasks: Sequence[Task]) -> list[Judged]:
    with kept_fresh(task.run for task in tasks):
        results = [(task, judge_run(task.run, task.rules, follow=True)) for task in tasks]
    return [Judged(task.run, result.rules, result.damage) for task, result in results]


def _store(tasks: Sequence[Task], judged: Sequence[Judged]) -> None:
    """Write the results of the runs' own rules into the runs, and report on standard error where that is not possible.

    A run that is still running has been reported, and its own judge writes.
    """
    lines = []
    for task, result in zip(tasks, judged, strict=True):
        if result.problem or not task.is_own or not liveness.is_over(task.run):
            continue
        names = {spec.alias for spec in task.rules}  # without those that are left out
        if why := store_results(task.run, task.rules, [rule for rule in result.rules if rule.name in names]):
            lines.append(f"{os.path.basename(task.run)}: the results are not written into the run: {why}")
    for line in lines[:_MAX_LINES]:
        complain(line)
    if len(lines) > _MAX_LINES:
        complain(f"{len(lines) - _MAX_LINES:,} more runs were not written")


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
    table, explained, standing = Table.grid(padding=(0, 2)), root_causes(judged), _standing(judged)
    for index, rule in enumerate(judged.rules):
        name = Text(os.path.basename(judged.run), style="bold") if index == 0 else Text()
        cause = explained.get(rule.name)
        state = describe.rule_state(rule.summarized(cause)).replace("_", " ")
        found = _of_finding(rule.findings[0], cause, standing) if rule.findings else Text(rule.why)
        table.add_row(name, Text(rule.name), status(state), found)
    return table


def _standing(judged: Judged) -> StandingAdvice:
    """Return what the findings of all rules ask for."""
    causes_of, fired = root_causes(judged), [rule for rule in judged.rules if rule.findings]
    return StandingAdvice.of(ranked(rule.summarized(causes_of.get(rule.name)) for rule in fired))


def _of_finding(finding: Finding, cause: str | None, standing: StandingAdvice) -> Group:
    """A finding with the names of its tensors, which its message counts, and what to try.

    Args:
        cause: The rule from whose findings it follows.
        standing: What the findings of all rules ask for.
    """
    lines = [Text(f"{describe.steps_of(finding.step, finding.last_step)}: {finding.message}")]
    if finding.tensor_count > 1:
        more = finding.tensor_count - len(finding.tensors[:_MAX_NAMES])
        names = ", ".join(finding.tensors[:_MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")
        lines.append(Text(f"all {finding.tensor_count:,}: {names}", style="dim"))
    suggestion = standing.agreeing(finding.suggestion) if cause is None else describe.advice_of_cause(cause)
    if suggestion:
        lines.append(Text(describe.advice(suggestion), style="dim"))
    return Group(*lines)


def _exit_status(results: Sequence[Judged], *, fail_on_issues: bool) -> int:
    """2 if no run could be judged; 1 if there are issues and the caller wants them reported; else 0."""
    if all(result.problem for result in results):
        return 2
    rules = [rule for result in results for rule in result.rules]
    has_issues = any(rule.findings or rule.status == "Error" for rule in rules)
    return 1 if fail_on_issues and (has_issues or any(result.problem for result in results)) else 0


class ProgressCounter:
    """A progress bar on a terminal, a line at intervals elsewhere; nothing for a single run.

    Args:
        total: The number of runs.
    """

    def __init__(self, total: int) -> None:
        self._total, self._done, self._fired = total, 0, 0
        self._reported_at = time.monotonic()
        terminal = error_console()
        self._bar = _bar(terminal) if terminal.is_terminal and total > 1 else None

    def __enter__(self) -> ProgressCounter:
        if self._bar is not None:
            self._bar.start()
            self._bar.add_task("judging", total=self._total, fired=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def count(self, *, has_fired: bool) -> None:
        """Count one judged run."""
        self._done += 1
        self._fired += has_fired
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done, fired=self._fired)
        elif self._done < self._total and time.monotonic() - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = time.monotonic()
            complain(f"judged {self._done} of {self._total} runs, {self._fired} with findings")


def _bar(console: Console) -> Progress:
    fired = TextColumn("runs, {task.fields[fired]} with findings")
    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), fired, TimeElapsedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True)


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
        """Count a run; one in which the rule fired before it failed counts as both, one without what it judges not."""
        if result.verdict == "not_applicable":
            return
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
    undecided = _reasons((tally.name, tally.undecided) for tally in tallies)
    errors = _reasons((tally.name, tally.errors) for tally in tallies)
    for title, reasons in (("undecided", undecided), ("Error", errors)):
        if reasons.row_count:
            parts += [Text(), Text(title, style="dim" if title == "undecided" else "red"), reasons]
    last = f"{counted(len(judged), 'run')}, {len(tallies):,} rules: findings in {counted(len(fired), 'run')}"
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


def _reasons(counts: Iterable[tuple[str, Counter[str]]]) -> Table:
    """The most common reason of each rule, and the number of runs with other reasons."""
    table = Table.grid(padding=(0, 2))
    for name, reasons in counts:
        if reasons:
            (why, count), *others = reasons.most_common()
            more = f"  (other reasons in {counted(sum(other for _, other in others), 'run')})" if others else ""
            table.add_row(Text(f"  {name}"), Text(counted(count, "run")), Text(why + more))
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
    return [name if counts[name := os.path.basename(run.run)] == 1 else os.path.relpath(run.run) for run in judged]


def _grid(*names: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in ("RULE", *right))
    return table
