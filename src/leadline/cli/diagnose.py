"""``leadline diagnose``: what the log of a training that ran without Leadline shows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, TypedDict

import typer
from rich.console import Group
from rich.text import Text

import leadline
from leadline.analysis.digest import Digest
from leadline.analysis.overview import overview
from leadline.cli.console import complain, console, echo_json
from leadline.cli.measurements import sparkline_lines
from leadline.cli.run_page import apart, headline, rule_block
from leadline.config.options import parse_rule
from leadline.config.run_config import runs_root
from leadline.errors import ConfigurationError
from leadline.judge.judged_log import write_judged_run
from leadline.logs.find import read_log
from leadline.logs.training_log import TrainingLog
from leadline.records.formatting import counted

_MAX_LINES: Final = 10


def diagnose(
    path: Annotated[
        str,
        typer.Argument(help="File or folder of a log, or - for standard input.", show_default=False),
    ],
    rule: Annotated[
        list[str] | None, typer.Option(help="[ALIAS=]NAME[:key=value,…], beside the default rules.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="Keep it as a run: a name in the runs directory, or a path.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    fail_on_issues: Annotated[
        bool, typer.Option(help="Exit with status 1 if a rule fired.", show_default=False)
    ] = False,
) -> int:
    """Diagnose a training that ran without Leadline, by its log.

    Reads trainer_state.json of Transformers, event files of TensorBoard, tables such as Lightning's metrics.csv, runs
    of W&B (.wandb) and MLflow, Keras's history as JSON, and printed text. Evaluates the default rules that need no
    more than losses and metrics.
    """
    try:
        log = read_log(path)
    except OSError as error:
        raise ConfigurationError(f"{error.filename or path}: {(error.strerror or str(error)).lower()}") from error
    rules = [parse_rule(text, os.getcwd()) for text in rule or ()]
    with _run_path(keep, path) as run:
        left_out = write_judged_run(log, run, source=path, rules=rules)
        opened = leadline.open_run(run)
        result = overview(opened)
        for line in log.damage[:_MAX_LINES]:
            complain(line)
        if as_json:
            echo_json({"log": _facts(log), "not_applicable": left_out, **result})
        else:
            _show(log, Digest(opened), left_out, is_kept=keep is not None)
    return int(fail_on_issues and any(rule_result["findings"] for rule_result in result["rules"]))


def _show(log: TrainingLog, digest: Digest, left_out: list[str], *, is_kept: bool) -> None:
    terminal, summary = console(), overview(digest.run)
    outcome = summary["outcome"]
    # whether the training completed, a log does not say
    outcome |= {"text": outcome["text"].removeprefix("Completed: ")}
    rules = [rule for rule in summary["rules"] if rule["verdict"] != "not_applicable"]
    others = len(left_out) + len(summary["rules"]) - len(rules)
    blocks = [
        Group(Text(_summary(log), style="dim"), headline(summary)),
        sparkline_lines(digest, terminal.width),
        rule_block(rules, outcome["rules"], has_ended=True),
        Text(
            f"{counted(others, 'more default rule')} need what this log does not hold: gradients, weights, inputs, "
            "times of steps. To have them, run the training under it: leadline run train.py"
        ),
        Text("dashboard: leadline ui" if is_kept else "to keep it as a run: --keep NAME", style="dim"),
    ]
    terminal.print(apart(block for block in blocks if block is not None))


@contextmanager
def _run_path(keep: str | None, source: str) -> Iterator[str]:
    """Yield the path of the run; one that is not kept is removed at the end."""
    if keep is not None:
        yield os.path.abspath(keep if os.path.dirname(keep) else os.path.join(runs_root(None), keep))
        return
    name = "standard-input" if source == "-" else os.path.basename(os.path.realpath(source)) or "log"
    with tempfile.TemporaryDirectory(prefix="leadline-diagnose-") as folder:
        yield os.path.join(folder, name)


def _summary(log: TrainingLog) -> str:
    rows, names = log.rows, sorted(log.names)
    first, last = rows[0].step or 0, rows[-1].step or 0
    steps = "" if log.unit == "step" else f"; a step is one {log.unit} here"
    extent = f"{log.unit} {first:,} to {last:,}"
    return f"{log.kind}: {counted(len(names), 'name')} in {counted(len(rows), 'row')}, {extent}{steps}"


class LogFacts(TypedDict):
    """What ``leadline diagnose --json`` prints of the log itself."""

    kind: str
    unit: str
    rows: int
    names: list[str]
    notes: list[str]


def _facts(log: TrainingLog) -> LogFacts:
    return {"kind": log.kind, "unit": log.unit, "rows": len(log.rows), "names": sorted(log.names), "notes": log.damage}
