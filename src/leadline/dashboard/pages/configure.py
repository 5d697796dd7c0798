"""Configure page of a run: choices as a command line and leadline.toml, with their estimated cost."""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from leadline.actions.registry import BUILT_IN, find_action
from leadline.config.capture import capture_item
from leadline.config.options import ActionEntry, format_value, parse_action
from leadline.config.presets import FIRST_STEPS
from leadline.config.run_config import DEFAULT_BUDGET, LIGHT_BUDGET, RunConfig
from leadline.config.toml_file import to_toml
from leadline.dashboard.page import open_run, render, site
from leadline.dashboard.rule_forms import RuleChoice, rule_choices
from leadline.errors import ConfigurationError, LeadlineError, located
from leadline.judge.action_resolution import default_statuses
from leadline.judge.rule_plan import default_rules
from leadline.launch.resolve import resolve
from leadline.reader.run import Run
from leadline.records.describe import interval as format_interval
from leadline.records.documents import WorkerDocument
from leadline.records.formatting import listed, number, share, size
from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.records.metric import INTERVALS_MS
from leadline.records.names import EVERY_RULE, JOB_STATUSES, PRESETS, RULE_STATUSES
from leadline.records.plan import CaptureItem, CapturePlan
from leadline.records.totals import step_share, steps_by_mode
from leadline.rules.registry import grouped_rules

COLLECTIONS: Final = {
    "losses": "losses",
    "metrics": "metrics, accuracy",
    "scalars": "logged by the script",
    "gradients": "as passed to the optimizer",
    "gradient_norms": "norm of all gradients, before and after clipping",
    "weights": "as used in the forward pass",
    "biases": "",
    "optimizer_variables": "momentum and other optimizer state",
    "layers": "outputs of all modules",
    "inputs": "of the model",
    "outputs": "of the model",
    "labels": "",
    "predictions": "",
    "hyperparameters": "learning rates and others",
}
_PRESETS: Final = {
    "light": "losses and metrics every step; basic statistics of gradients and weights every 100",
    "standard": "the same every 50, and activations every 500",
    "full": "the same every 10; raw weights and gradients every 500",
    "sagemaker": "like SageMaker Debugger: losses and metrics every 500; system metrics every 500 ms; profiler_report",
}
_KEYS: Final = ("every", "statistics", "raw")
_MIN_ACTION_ROWS: Final = 3
_MAX_ACTION_ROWS: Final = 20
_SECRETS_HINT: Final = "Give secrets and addresses as $VARIABLE."
_VALUE_BYTES: Final = 8
_ELEMENT_BYTES: Final = 4
"""Assumed for raw tensors; the element type is not recorded for all of them."""
_ROW_BYTES: Final = 64
"""Size of a row without its values."""
_SECONDS_PER_HOUR: Final = 3600.0


def configure(request: Request) -> Response:
    """Serve ``/runs/{run}/configure``."""
    run = open_run(request).run
    form = dict(request.query_params) or _form_of_run(run)
    context = {
        **_result(run, form, site(request).run_cache.root),
        "form": defaultdict(str, form),
        "presets": _PRESETS,
        "intervals": {interval: format_interval(interval) for interval in INTERVALS_MS},
        "collections": COLLECTIONS,
        "default_budget": f"{DEFAULT_BUDGET} (light: {LIGHT_BUDGET})",
        "rules": rule_choices(),
        "groups": _rule_groups(),
        "defaults": {preset: _default_rules(preset) for preset in PRESETS},
        "actions": {name: _about(name) for name in BUILT_IN},
        "action_rows": _action_rows(form),
        "secrets": _SECRETS_HINT,
        "statuses": list(dict.fromkeys([*RULE_STATUSES, *JOB_STATUSES])),
    }
    return render(request, "configure.html", context, page="configure")


def _rule_groups() -> dict[str, list[RuleChoice]]:
    choices = {choice.name: choice for choice in rule_choices()}
    return {title: [choices[name] for name in names if name in choices] for title, names in grouped_rules().items()}


def _about(action: str) -> str:
    return (find_action(action).__doc__ or "").strip().split("\n", 1)[0]


def _action_rows(form: Mapping[str, str]) -> range:
    """Return the indices of the rows for actions: those in use, and an empty one."""
    used = [row for row in range(_MAX_ACTION_ROWS) if form.get(f"a{row}.action")]
    return range(min(max(_MIN_ACTION_ROWS, max(used, default=-1) + 2), _MAX_ACTION_ROWS))


def _result(run: Run, form: Mapping[str, str], root: str) -> dict[str, object]:
    """Return the configuration and estimate of a form, or its error."""
    try:
        config = from_form(form)
        plan = resolve(config, os.path.join(root, "next")).plan
        items = estimate_items(plan, run)
        command = shlex.split(form.get("command", "")) or ["train.py"]
        return {
            "error": None,
            "line": shlex.join(["leadline", "run", *config.to_options(), *command]),
            "toml": to_toml(config),
            "plan": items,
            "estimate": describe_estimate(plan, items, run),
        }
    except (LeadlineError, LookupError, ValueError) as error:
        return {"error": str(error), "line": "", "toml": "", "plan": [], "estimate": []}


def from_form(form: Mapping[str, str]) -> RunConfig:
    """Create a configuration from the fields of the form; blank fields are defaults.

    Raises:
        ConfigurationError: A value is invalid.
    """
    preset = form.get("preset") or "standard"
    interval = form.get("interval_ms") or "500"
    if not interval.isdecimal() or len(interval) > 9:
        raise ConfigurationError(f"the interval must be an integer, not {interval!r}")
    capture = []
    for name in COLLECTIONS:
        keys = {key: value for key in _KEYS if (value := form.get(f"c.{name}.{key}", "").strip())}
        with located(f"capture {name}"):
            capture += [capture_item(name, keys)] if keys else []
    defaults = _default_rules(preset)
    chosen = [rule.name for rule in rule_choices() if f"r.{rule.name}" in form] if _has_rules(form) else defaults
    specs = [RuleSpec("", name, _parameters(form, f"p.{name}."), source="option") for name in chosen]
    excluded = tuple(name for name in defaults if name not in chosen)
    has_defaults = len(excluded) < len(defaults)
    return RunConfig(
        preset=preset,
        interval_ms=int(interval),
        budget=form.get("budget", "").strip() or None,
        default_rules=None if has_defaults else False,
        no_rules=excluded if has_defaults else (),
        capture=tuple(capture),
        rules=tuple(spec for spec in specs if spec.parameters or spec.rule not in defaults),
        on=tuple(_actions(form)),
    )


def _default_rules(preset: str) -> list[str]:
    return [spec.rule for spec in default_rules(preset)]


def _parameters(form: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in form.items() if key.startswith(prefix) and value}


def _has_rules(form: Mapping[str, str]) -> bool:
    return "rules" in form or any(key.startswith("r.") for key in form)


def _actions(form: Mapping[str, str]) -> Iterator[ActionEntry]:
    for index in range(_MAX_ACTION_ROWS):
        action, rule = form.get(f"a{index}.action", ""), form.get(f"a{index}.rule", "") or "*"
        if not action:
            continue
        if action not in BUILT_IN:
            raise ConfigurationError(f"there is no action named {action!r}")
        status, arguments = form.get(f"a{index}.status", ""), form.get(f"a{index}.arguments", "").strip()
        if not re.fullmatch(r"\*|[A-Za-z_][\w-]*", rule):
            raise ConfigurationError(f"{rule!r} is not a rule name")
        trigger = f"{rule}@{status}" if status else rule
        yield parse_action(f"{trigger}={action}:{arguments}" if arguments else f"{trigger}={action}")


def _form_of_run(run: Run) -> dict[str, str]:
    """Return the form that corresponds to the configuration of the run, as far as possible."""
    manifest = run.manifest
    form = {
        "preset": manifest.preset if manifest.preset in PRESETS else "standard",
        "interval_ms": str(manifest.interval_ms),
        "rules": "yes",
        "command": _command_of(manifest.command),
    }
    built_in = {rule.name for rule in rule_choices()}
    for spec in manifest.rules:
        if spec.rule in built_in:
            form[f"r.{spec.rule}"] = "yes"
            form |= {f"p.{spec.rule}.{key}": format_value(value) for key, value in spec.parameters.items()}
    actions = [action for action in manifest.actions if action.action in BUILT_IN]
    for row, action in enumerate(actions[:_MAX_ACTION_ROWS]):
        form |= {f"a{row}.{key}": value for key, value in _form_of_action(action).items()}
    return form


def _command_of(command: Sequence[str]) -> str:
    """Return a run's command as one writes it after ``leadline run``: a Python file without its interpreter."""
    program, *arguments = command or ("train.py",)
    name = os.path.basename(program)
    is_file = name.startswith("python") and bool(arguments) and arguments[0].endswith(".py")
    return shlex.join(arguments if is_file else [name, *arguments])


def _form_of_action(action: ActionSpec) -> dict[str, str]:
    """Return the fields of an action."""
    defaults = default_statuses(find_action(action.action), action.rule)
    return {
        "rule": "" if action.rule == EVERY_RULE else action.rule,
        "status": "" if action.statuses == defaults else action.statuses[0],
        "action": action.action,
        "arguments": str(action).partition(":")[2],
    }


@dataclass(frozen=True, slots=True)
class SizeLine:
    """Estimate of one capture item."""

    collection: str
    target: str
    """The collection, with the pattern that selects some of its tensors."""
    statistics: str
    interval: str
    modes: str
    source: str
    tensors: int | None
    """Number of tensors in the run; None: unknown, the run captured none."""
    bytes_per_step: float | None


def estimate_items(plan: CapturePlan, run: Run) -> list[SizeLine]:
    """Return the items of a plan, with the average bytes per training step of each."""
    counts: dict[str, tuple[int, int]] = {}
    return [_line(item, run, counts) for item in plan.items]


def _line(item: CaptureItem, run: Run, counts: dict[str, tuple[int, int]]) -> SizeLine:
    collection = item.collection or "any"
    target = f"{collection} like {item.regex!r}" if item.regex else collection
    tensor_count, value_count = _count_tensors(item, run, counts)
    bytes_per_capture = (
        tensor_count * len(item.statistics) * _VALUE_BYTES
        + (value_count * _ELEMENT_BYTES if item.raw else 0)
        + _ROW_BYTES
    )
    interval = item.schedule.every
    is_estimated = tensor_count > 0 and interval is not None and "train" in item.modes
    return SizeLine(
        collection,
        target,
        ", ".join(item.statistics) or "raw values",
        _interval(item),
        ", ".join(item.modes),
        item.source,
        tensor_count or None,
        bytes_per_capture / interval if is_estimated and interval else None,
    )


def _count_tensors(item: CaptureItem, run: Run, counts: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the number of the run's tensors that an item selects, and of their elements."""
    key = f"{item.collection}|{item.regex}"
    if key not in counts:
        infos: Mapping[str, object] = run.archive.infos()
        names = run.tensor_names(item.collection, item.regex)
        shapes = [getattr(infos.get(name), "shape", None) or (1,) for name in names]
        counts[key] = len(names), int(sum(np.prod(shape, dtype=np.int64) for shape in shapes))
    return counts[key]


def _interval(item: CaptureItem) -> str:
    schedule = item.schedule
    parts = [f"every {number(schedule.every)} steps" if schedule.every != 1 else "every step"] if schedule.every else []
    parts += [f"every {schedule.every_seconds:g} s"] if schedule.every_seconds else []
    if schedule.steps == FIRST_STEPS:
        parts.append(f"more often in the first {max(FIRST_STEPS)}")
    elif schedule.steps:
        parts.append(f"at {len(schedule.steps)} steps")
    parts += [f"from {number(schedule.start)} on"] if schedule.start else []
    parts += [f"before {number(schedule.end)}"] if schedule.end else []
    return ", ".join(parts) or "never"


def _bytes_per_step(plan: CapturePlan, run: Run) -> float:
    """Return the average bytes per training step of a plan; data selected by several items counts once."""
    rates: dict[tuple[str | None, str | None, str], float] = {}
    for item in plan.items:
        interval = item.schedule.every
        if interval is not None and "train" in item.modes:
            for statistic in (*item.statistics, *(("",) if item.raw else ())):
                key = item.collection, item.regex, statistic
                rates[key] = max(rates.get(key, 0.0), 1 / interval)
    counts: dict[str, tuple[int, int]] = {}
    total = _ROW_BYTES * max(rates.values(), default=0.0)
    for (collection, regex, statistic), rate in rates.items():
        tensor_count, value_count = _count_tensors(CaptureItem(collection, regex), run, counts)
        total += rate * (tensor_count * _VALUE_BYTES if statistic else value_count * _ELEMENT_BYTES)
    return total


def describe_estimate(plan: CapturePlan, items: list[SizeLine], run: Run) -> list[str]:
    """Describe the estimate and what was measured."""
    workers = list(run.worker_documents().values())
    sentences = []
    bytes_per_step = _bytes_per_step(plan, run)
    steps_per_second = _steps_per_second(workers)
    if bytes_per_step and steps_per_second:
        sentences.append(
            f"Estimate: about {size(round(bytes_per_step * steps_per_second * _SECONDS_PER_HOUR))} per hour and "
            f"worker, based on this run's tensors and its {steps_per_second:.3g} steps/s."
        )
    planned = {line.collection for line in items}
    if named := [name for name in COLLECTIONS if name in planned and not run.tensor_names(name)]:
        sentences.append(f"Not included, because this run captured none: {listed(named)}.")
    ratio = step_share(workers)
    if ratio is not None:
        preset = run.manifest.preset
        sentences.append(f"Measured: this run (preset {preset}) had an overhead of {share(ratio)} of step time.")
    sentences.append("``leadline doctor -- COMMAND`` measures the overhead of each preset for a script.")
    return sentences


def _steps_per_second(workers: Sequence[WorkerDocument]) -> float | None:
    steps = steps_by_mode(workers).get("train", 0)
    seconds = max((worker.loop_ns for worker in workers), default=0) / 1e9
    return steps / seconds if steps and seconds else None
