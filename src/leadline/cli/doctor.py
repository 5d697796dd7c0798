"""``leadline doctor``: what is watched of a training, what is not and why, and what it would cost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from leadline.agent.launch import find_interpreter
from leadline.cli import doctor_report
from leadline.cli.console import console
from leadline.cli.environment import EnvironmentCheck, check_all
from leadline.cli.run import resolve_command
from leadline.cli.run_setup import default_rules, masked, runs_root
from leadline.config.options import parse_capture
from leadline.config.presets import merge, preset_items
from leadline.errors import ConfigurationError, LeadlineError
from leadline.judge.rule_plan import plan, resolve_rules
from leadline.reader.run import open_run
from leadline.records.manifest import ActionSpec, Manifest, RuleSpec
from leadline.records.names import COLLECTIONS, PRESETS
from leadline.records.plan import CaptureItem, CapturePlan
from leadline.records.request import Request
from leadline.records.version import __version__
from leadline.rules import registry
from leadline.store import layout
from leadline.store.control import new_request_id, write_request
from leadline.store.creation import create_run
from leadline.store.documents import make_leaf, read_document, write_document

_STEPS: Final = 3
_FEWEST_STEPS: Final = 2
_GRACE_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 60.0
_BASE_PRESET: Final = "standard"
_EACH_STEP: Final = ("losses", "scalars", "metrics")
_FORWARD: Final = ("inputs", "outputs", "labels", "predictions", "layers")
_WITH_FORWARD: Final = (*_FORWARD, "feature_importance")


def doctor(
    command: Annotated[
        list[str] | None, typer.Argument(help="A training to look at: it runs for three steps, then is stopped.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(help="The interpreter to check; default: the command's, or this one.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="The folder below which runs would stand.")] = None,
    steps: Annotated[int, typer.Option(help="How many steps to run; more make the cost surer.")] = _STEPS,
    limit: Annotated[float, typer.Option(help="Seconds until a command that makes no such steps is stopped.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Check the environment; with a command, run three steps of it and say what is watched, what is not, and the cost.

    Nothing is kept of the three steps. Ends with status 1 where something stands in the way.
    """
    if steps < _FEWEST_STEPS:
        raise ConfigurationError(f"--steps must be at least {_FEWEST_STEPS}, not {steps}")
    if not limit > 0:
        raise ConfigurationError(f"--limit must be above 0, not {limit:g}")
    launched = resolve_command(command) if command else []
    interpreter = _interpreter(python, launched)
    checks = check_all(interpreter, launched, runs_root(out)) if interpreter else [_unknown(launched)]
    is_hopeless = any(each.outcome == "bad" and each.name in ("python", "isolation", "leadline") for each in checks)
    found = None if not launched or is_hopeless else _examine(launched, steps, limit)
    if as_json:
        typer.echo(json.dumps(_spoken(checks, found), indent=2, ensure_ascii=False))
    else:
        console().print(doctor_report.checks(checks))
        if found is not None:
            console().print(doctor_report.page(found))
    is_seen = found is None or bool(found["optimizers"] or found["steps"].get("train"))
    return 0 if is_seen and not any(each.outcome == "bad" for each in checks) else 1


def _interpreter(python: str | None, launched: Sequence[str]) -> str | None:
    if python is not None:
        path = shutil.which(python)
        if path is None:
            raise ConfigurationError(f"--python: there is no interpreter {python!r}")
        return path
    return find_interpreter(launched[0]) if launched else sys.executable


def _unknown(launched: Sequence[str]) -> EnvironmentCheck:
    return EnvironmentCheck(
        "python", "note", f"{launched[0]} is no Python itself; name the one that trains with --python"
    )


def _spoken(checks: Sequence[EnvironmentCheck], found: dict[str, Any] | None) -> dict[str, Any]:
    return {"checks": [asdict(each) for each in checks], "training": found}


# --- the training -------------------------------------------------------------------------------------------


def _examine(launched: list[str], steps: int, limit: float) -> dict[str, Any]:
    """Run some steps of a command and gather what was found out; nothing stays of it."""
    folder = tempfile.mkdtemp(prefix="leadline-doctor-")
    signal.signal(signal.SIGTERM, _leave)
    try:
        run = _make_run(os.path.join(folder, "doctor"), launched, steps)
        is_late = _run(run, launched, limit)
        return doctor_report.gather(open_run(run), _reports(run), is_late=is_late, limit=limit)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _leave(number: int, frame: object) -> None:
    """End as by an exception, so that the training is ended and the folder removed."""
    raise SystemExit(128 + number)


def _make_run(path: str, launched: Sequence[str], steps: int) -> str:
    plan = CapturePlan(items=_everything(steps))
    create_run(
        path, Manifest("doctor", path, masked(launched), time.time_ns(), __version__, folder=os.getcwd(), plan=plan)
    )
    make_leaf(os.path.join(path, layout.DOCTOR_REPORTS))
    plans = {label: [asdict(each) for each in items] for label, items in plans_to_price(path).items()}
    write_document(os.path.join(path, layout.DOCTOR), {"steps": steps, "plans": plans})
    return path


def _everything(steps: int) -> tuple[CaptureItem, ...]:
    """Every collection: losses and accuracy always, the forward pass in all steps but the last, the rest in the first.

    So steps differ by what is captured, and from how long they take follows what it costs.
    """
    wishes = []
    for name in COLLECTIONS:
        when = "every=1" if name in _EACH_STEP else f"every=1,end={steps - 1}" if name in _WITH_FORWARD else "steps=0"
        modes = ",modes=train,eval,predict" if name in (*_EACH_STEP, *_FORWARD) else ""
        if name not in ("all", "default", "optimizer_variables"):  # which are not there in the first step
            wishes.append(f"{name}:{when}{modes}")
    return tuple(item for wish in wishes for item in _wish(wish))


def _wish(text: str) -> tuple[CaptureItem, ...]:
    try:
        return (parse_capture(text),)
    except ConfigurationError:  # a collection that this version knows and does not capture
        return ()


def plans_to_price(root: str) -> dict[str, tuple[CaptureItem, ...]]:
    """What each preset and each set of rules would capture, by what it is called.

    Args:
        root: A folder that exists, or would.
    """
    presets = {f"preset {name}": merge(preset_items(name), (), (), root=root).items for name in PRESETS}
    default, every = default_rules(), _all_rules()
    acting = [ActionSpec("*", "stop_training")]
    sets = {
        "default rules": _with_rules(default, (), root),
        "default rules, acting": _with_rules(default, acting, root),
        "all rules": _with_rules(every, (), root),
    }
    return presets | {f"{_BASE_PRESET} + {label}": items for label, items in sets.items()}


def _all_rules() -> list[RuleSpec]:
    """Every rule that needs no parameter."""
    found = []
    for name in sorted(registry.rule_names()):
        spec = RuleSpec(name, name)
        try:
            resolve_rules([spec])
        except LeadlineError:
            continue
        found.append(spec)
    return found


def _with_rules(rules: Sequence[RuleSpec], actions: Sequence[ActionSpec], root: str) -> tuple[CaptureItem, ...]:
    needs = plan(resolve_rules(rules), actions)
    return merge(preset_items(_BASE_PRESET), (), needs, root=root).items


def _run(run: str, launched: list[str], limit: float) -> bool:
    """See the command through; whether it had to be stopped because the time was over.

    What it prints goes to standard error: standard output is the report's.
    """
    agent = subprocess.Popen(
        [sys.executable, "-m", "leadline.agent", run, "--quiet", "--", *launched], stdout=sys.stderr
    )
    try:
        return _await(agent, run, limit)
    except BaseException:
        agent.terminate()  # which passes it on to the training
        agent.wait(_PATIENCE_SECONDS)
        raise


def _await(agent: subprocess.Popen[bytes], run: str, limit: float) -> bool:
    is_late = False
    while True:
        try:
            agent.wait(_PATIENCE_SECONDS + _GRACE_SECONDS if is_late else limit)
        except subprocess.TimeoutExpired:
            if is_late:
                agent.terminate()
            is_late = True
            request = Request(
                new_request_id(),
                "stop",
                reason="the doctor's time is over",
                by="doctor",
                time_ns=time.time_ns(),
                grace_seconds=_GRACE_SECONDS,
            )
            write_request(run, request)
        except KeyboardInterrupt:
            continue  # the training has had it too
        else:
            return is_late


def _reports(run: str) -> list[dict[str, Any]]:
    """What each process of the training found, the first rank first."""
    folder = os.path.join(run, layout.DOCTOR_REPORTS)
    found = [read_document(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
    return sorted((each for each in found if isinstance(each, dict)), key=lambda each: (each["rank"] or 0, each["pid"]))
