"""``leadline check``: test a training on a copy of its first steps."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final, TypedDict, cast

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.cli.arguments import ModuleOption
from leadline.cli.console import console, echo_json
from leadline.cli.run import resolve_command
from leadline.cli.short_run import exit_on_signal, run_shortly
from leadline.config.capture import parse_capture
from leadline.config.run_config import RunConfig
from leadline.config.secrets import scrub_command
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.launch.prepare import prepare
from leadline.records.check_result import PROBES, CheckOrder, CheckResult, Outcome
from leadline.records.json_object import JsonObject
from leadline.records.manifest import Manifest
from leadline.records.plan import CapturePlan
from leadline.records.version import __version__
from leadline.store import layout
from leadline.store.documents import read_document, write_document
from leadline.store.run_state import create_run

DEFAULT_STEP: Final = 2
DEFAULT_SECONDS: Final = 20.0
_EAGER: Final = {"TORCHDYNAMO_DISABLE": "1"}
_MARKS: Final = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "not applicable": ("–", "dim")}


def check(
    command: Annotated[
        list[str] | None, typer.Argument(help="Training command or .py file; everything after it belongs to it.")
    ] = None,
    is_module: ModuleOption = False,
    step: Annotated[int, typer.Option(help="The train step whose batch is tested, counted from 0.")] = DEFAULT_STEP,
    seconds: Annotated[float, typer.Option(help="Processor time of the tests, in seconds.")] = DEFAULT_SECONDS,
    limit: Annotated[float, typer.Option(help="Seconds after which the command is stopped anyway.")] = 300.0,
    only: Annotated[list[str] | None, typer.Option(help="Make this test only; may be given several times.")] = None,
    goes_on: Annotated[bool, typer.Option("--continue", help="Let the training go on to its end afterwards.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the run, for the dashboard and reports.")] = False,
    out: Annotated[str | None, typer.Option(help="Runs directory of a run that is kept.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Test the training itself: its model with a real batch.

    Runs the command to its third train step, tests a copy of it (whether samples are independent, padding has no
    influence, one batch can be learned …), and stops it. The training itself is not touched. Exits with status 1 if a
    test fails, or none could be made.
    """
    if not command:
        raise ConfigurationError("no command given; for example: leadline check train.py")
    if step < 0:
        raise ConfigurationError(f"--step must be at least 0, not {step}")
    if not seconds > 0 or not limit > 0:
        raise ConfigurationError("--seconds and --limit must be above 0")
    for name in only or ():
        if name not in PROBES:
            raise UnknownNameError("test", name, PROBES, hint="--only")
    launched = resolve_command(command, is_module=is_module)
    order: CheckOrder = {
        "step": step,
        "seconds": seconds,
        "ends": not goes_on,
        "probes": [probe for probe in PROBES if not only or probe in only],
    }
    report = _checked(launched, order, limit, out=out, keeps=keep)
    if as_json:
        echo_json(report)
    else:
        _print(report)
    outcomes = [entry["outcome"] for entry in report["checks"]]
    return 0 if "passed" in outcomes and "failed" not in outcomes else 1


class CheckEntry(TypedDict):
    """A ``CheckResult`` with the title of its probe."""

    probe: str
    title: str
    outcome: Outcome
    message: str
    step: int
    advice: str
    evidence: JsonObject
    seconds: float
    time_ns: int


class CheckReport(TypedDict):
    """What ``leadline check --json`` prints."""

    step: int
    seconds: float
    run: str | None
    """The run that is kept."""
    checks: list[CheckEntry]


def _checked(launched: list[str], order: CheckOrder, limit: float, *, out: str | None, keeps: bool) -> CheckReport:
    """Run the command until the step is tested; return the results as plain values."""
    folder = tempfile.mkdtemp(prefix="leadline-check-")
    signal.signal(signal.SIGTERM, exit_on_signal)
    try:
        if keeps:
            run = prepare(RunConfig.from_options(out=out, rules=order["probes"], default_rules=False), launched)
        else:
            run = os.path.join(folder, "check")
            create_run(run, _manifest(run, launched))
        write_document(os.path.join(run, layout.CHECK), order)
        begun = time.monotonic()
        is_late = run_shortly(run, launched, limit, by="check", environment=_EAGER)
        return _report(run, order, is_late=is_late, limit=limit, took=time.monotonic() - begun, keeps=keeps)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _manifest(path: str, launched: Sequence[str]) -> Manifest:
    plan = CapturePlan(items=(parse_capture("losses:every=1"),))
    return Manifest("check", path, scrub_command(launched), time.time_ns(), __version__, folder=os.getcwd(), plan=plan)


def _report(run: str, order: CheckOrder, *, is_late: bool, limit: float, took: float, keeps: bool) -> CheckReport:
    folder = os.path.join(run, layout.CHECKS)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    documents = [read_document(os.path.join(folder, name)) for name in names]
    found = [CheckResult.from_dict(entry) for document in documents if document for entry in document["checks"]]
    results = {result.probe: result for result in reversed(found)}
    why = "no train step was seen"
    if is_late:
        why = f"the command did not reach the step within {limit:.0f} s"
    missing = [
        CheckResult(probe, "not applicable", why, order["step"]) for probe in order["probes"] if probe not in results
    ]
    results |= {result.probe: result for result in missing}
    return {
        "step": order["step"],
        "seconds": round(took, 1),
        "run": run if keeps else None,
        "checks": [_entry(results[probe]) for probe in order["probes"]],
    }


def _entry(result: CheckResult) -> CheckEntry:
    return cast(CheckEntry, asdict(result) | {"title": PROBES[result.probe]})


def _print(report: CheckReport) -> None:
    terminal = console()
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    reasons: dict[str, list[str]] = {}
    for entry in report["checks"]:
        mark, style = _MARKS[entry["outcome"]]
        if entry["outcome"] == "not applicable":
            reasons.setdefault(entry["message"], []).append(entry["probe"])
            continue
        text = Text(entry["message"])
        if entry["advice"]:
            text.append(f"\ntry: {entry['advice']}", style="cyan")
        table.add_row(Text(mark, style), Text(entry["probe"], style), text)
    outcomes = [entry["outcome"] for entry in report["checks"]]
    failures = outcomes.count("failed")
    made = failures + outcomes.count("passed")
    if failures:
        headline = Text(f"{failures} of {made} tests failed", "bold red")
    elif made:
        headline = Text(f"all {made} tests that apply passed", "bold green")
    else:
        headline = Text("nothing could be tested", "bold yellow")
    where = f"on a copy of train step {report['step']}, " if made else ""
    headline.append(f"  {where}in {report['seconds']:.0f} s", "default")
    terminal.print(headline)
    terminal.print(Padding(table, (0, 0, 0, 2)))
    others = Table.grid(padding=(0, 1))
    for why, names in reasons.items():
        others.add_row(Text("–", "dim"), Text(f"not applicable: {', '.join(names)}: {why}", "dim"))
    terminal.print(Padding(others, (0, 0, 0, 2)))
    if report["run"]:
        terminal.print(f"  kept as {report['run']}; leadline show {os.path.basename(report['run'])}")
