"""``leadline doctor``: check the environment, and report the capture coverage and overhead of a training."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final, cast

import typer

from leadline.agent.launch import find_interpreter
from leadline.cli import doctor_report
from leadline.cli.arguments import ModuleOption
from leadline.cli.console import console, echo_json
from leadline.cli.environment import EnvironmentCheck, check_all
from leadline.cli.run import resolve_command
from leadline.cli.short_run import exit_on_signal, run_shortly
from leadline.cli.training_diagnosis import TrainingDiagnosis
from leadline.config.capture import parse_capture
from leadline.config.run_config import RunConfig, runs_root
from leadline.config.secrets import scrub_command
from leadline.errors import ConfigurationError, LeadlineError
from leadline.judge.rule_plan import resolve_rule
from leadline.launch.resolve import resolve
from leadline.reader.run import open_run
from leadline.records.doctor_report import DoctorOrder, DoctorReport
from leadline.records.manifest import Manifest, RuleSpec
from leadline.records.names import COLLECTIONS, PRESETS
from leadline.records.plan import CaptureItem, CapturePlan
from leadline.records.version import __version__
from leadline.rules import registry
from leadline.store import layout
from leadline.store.documents import make_subfolder, read_document, write_document
from leadline.store.run_state import create_run

_STEPS: Final = 3
_MIN_STEPS: Final = 2
_MOST_STEPS: Final = 50
_SECONDS: Final = 2.0
_BASE_PRESET: Final = "standard"
_EVERY_STEP: Final = ("losses", "scalars", "metrics")
_FORWARD: Final = ("inputs", "outputs", "labels", "predictions", "layers")
_WITH_FORWARD: Final = (*_FORWARD, "feature_importance")


def doctor(
    command: Annotated[
        list[str] | None, typer.Argument(help="Training command to examine; it is stopped after some steps.")
    ] = None,
    is_module: ModuleOption = False,
    python: Annotated[
        str | None, typer.Option(help="Interpreter to check; default: that of the command, or this one.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Runs directory; default: $LEADLINE_ROOT or ./leadline-runs.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps to run; default: as many as take two seconds, from 3 to 50.")
    ] = None,
    limit: Annotated[float, typer.Option(help="Seconds after which the command is stopped anyway.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Check the environment, and optionally a training command.

    With a command, runs some steps of it and reports what is captured, what is not, and the overhead; the data of
    these steps is deleted. Exits with status 1 if a check fails or no training step was seen.
    """
    if steps is not None and steps < _MIN_STEPS:
        raise ConfigurationError(f"--steps must be at least {_MIN_STEPS}, not {steps}")
    if not limit > 0:
        raise ConfigurationError(f"--limit must be above 0, not {limit:g}")
    launched = resolve_command(command, is_module=is_module) if command else []
    interpreter = _interpreter(python, launched)
    checks = check_all(interpreter, launched, runs_root(out)) if interpreter else [_unknown(launched)]
    is_blocked = any(check.outcome == "bad" and check.name in ("python", "isolation", "leadline") for check in checks)
    training = None if not launched or is_blocked else _examine(launched, steps, limit)
    if as_json:
        echo_json({"checks": [asdict(check) for check in checks], "training": training})
    else:
        console().print(doctor_report.checks(checks))
        if training is not None:
            console().print(doctor_report.page(training))
    is_seen = training is None or bool(training["optimizers"] or training["steps"].get("train"))
    return 0 if is_seen and not any(check.outcome == "bad" for check in checks) else 1


def _interpreter(python: str | None, launched: Sequence[str]) -> str | None:
    if python is not None:
        path = shutil.which(python)
        if path is None:
            raise ConfigurationError(f"--python: no such interpreter: {python!r}")
        return path
    return find_interpreter(launched[0]) if launched else sys.executable


def _unknown(launched: Sequence[str]) -> EnvironmentCheck:
    return EnvironmentCheck(
        "python", "note", f"{launched[0]} is not a Python interpreter; give the one of the training with --python"
    )


# --- the training -------------------------------------------------------------------------------------------


def _examine(launched: list[str], steps: int | None, limit: float) -> TrainingDiagnosis:
    """Run some steps of a command in a temporary run, and collect the results."""
    folder = tempfile.mkdtemp(prefix="leadline-doctor-")
    signal.signal(signal.SIGTERM, exit_on_signal)
    try:
        run = _make_run(os.path.join(folder, "doctor"), launched, steps)
        is_late = run_shortly(run, launched, limit, by="doctor")
        budgets = {label: plan.budget for label, plan in candidate_plans(folder).items()}
        return doctor_report.gather(open_run(run), _reports(run), is_late=is_late, limit=limit, budgets=budgets)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_run(path: str, launched: Sequence[str], steps: int | None) -> str:
    plan = CapturePlan(items=_all_collections())
    create_run(
        path,
        Manifest("doctor", path, scrub_command(launched), time.time_ns(), __version__, folder=os.getcwd(), plan=plan),
    )
    make_subfolder(os.path.join(path, layout.DOCTOR_REPORTS))
    plans = {label: [asdict(item) for item in plan.items] for label, plan in candidate_plans(path).items()}
    order: DoctorOrder = {
        "steps": steps or _STEPS,
        "most_steps": steps or _MOST_STEPS,
        "seconds": _SECONDS,
        "plans": plans,
    }
    write_document(os.path.join(path, layout.DOCTOR), order)
    return path


def _all_collections() -> tuple[CaptureItem, ...]:
    """Items for every collection: scalars at all steps, the forward pass at every second one, the rest at the first.

    Steps thus differ in what is captured, and the differences of their durations give the cost of each part.
    """
    items: list[CaptureItem] = []
    for name in COLLECTIONS:
        if name in ("all", "default", "optimizer_variables"):  # these have no members at the first step
            continue
        when = "every=1" if name in _EVERY_STEP else "every=2" if name in _WITH_FORWARD else "steps=0"
        modes = ",modes=train,eval,predict" if name in (*_EVERY_STEP, *_FORWARD) else ""
        items.append(parse_capture(f"{name}:{when}{modes}"))
    return tuple(items)


def candidate_plans(root: str) -> dict[str, CapturePlan]:
    """The capture plan of each preset and rule set, by label.

    Args:
        root: The runs directory; it need not exist.
    """
    sets = {f"preset {name}": RunConfig(preset=name, default_rules=False) for name in PRESETS}
    acting = RunConfig.from_options(on=["*=stop_training"])
    sets[f"{_BASE_PRESET} + default rules"] = RunConfig()
    sets[f"{_BASE_PRESET} + default rules, acting"] = acting
    sets[f"{_BASE_PRESET} + all rules"] = RunConfig(rules=_all_rules(), default_rules=False)
    return {label: resolve(config, os.path.join(root, "doctor")).plan for label, config in sets.items()}


def _all_rules() -> tuple[RuleSpec, ...]:
    """Every rule without required parameters."""
    specs = []
    for name in sorted(registry.rule_names()):
        spec = RuleSpec(name, name)
        try:
            resolve_rule(spec)
        except LeadlineError:
            continue
        specs.append(spec)
    return tuple(specs)


def _reports(run: str) -> list[DoctorReport]:
    """The reports of the processes of the training, ordered by rank; of all processes where none trains."""
    folder = os.path.join(run, layout.DOCTOR_REPORTS)
    reports = [read_document(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
    documents = [cast(DoctorReport, report) for report in reports if isinstance(report, dict)]
    training = [report for report in documents if report["steps"] or report["backwards"]]
    return sorted(training or documents, key=lambda report: (report["rank"] or 0, report["pid"]))
