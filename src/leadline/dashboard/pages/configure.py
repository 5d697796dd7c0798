"""Configure page of a run: choices as a command line and leadline.toml, with their estimated cost."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.actions.registry import BUILT_IN, find_action
from leadline.config.budget import DEFAULT_BUDGET
from leadline.control.configurator import RunChoices, capture_option, check, command_line, default_rules, toml
from leadline.control.responses import format_interval
from leadline.dashboard.page import open_run, render, site
from leadline.dashboard.rule_forms import rule_choices, rule_option
from leadline.dashboard.size_estimate import describe, estimate_items
from leadline.errors import ConfigurationError
from leadline.reader.run import Run
from leadline.records.metric import INTERVALS_MS
from leadline.records.names import JOB_STATUSES, PRESETS, RULE_STATUSES

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
_ACTION_ROWS: Final = 3
_SECRETS_HINT: Final = "Give secrets and addresses as $VARIABLE."


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
        "default_budget": DEFAULT_BUDGET,
        "rules": rule_choices(),
        "defaults": {preset: list(default_rules(preset)) for preset in PRESETS},
        "actions": {name: _about(name) for name in BUILT_IN},
        "action_rows": range(_ACTION_ROWS),
        "secrets": _SECRETS_HINT,
        "statuses": list(dict.fromkeys([*RULE_STATUSES, *JOB_STATUSES])),
    }
    return render(request, "configure.html", context, page="configure")


def _about(action: str) -> str:
    return (find_action(action).__doc__ or "").strip().split("\n", 1)[0]


def _result(run: Run, form: Mapping[str, str], root: str) -> dict[str, Any]:
    """Return the configuration and estimate of a form, or its error."""
    try:
        choices = read_choices(form)
        plan = check(choices, root)
        items = estimate_items(plan, run)
        return {
            "error": None,
            "line": command_line(choices),
            "toml": toml(choices),
            "plan": items,
            "estimate": describe(plan, items, run),
        }
    except (ConfigurationError, LookupError) as error:
        return {"error": str(error), "line": "", "toml": "", "plan": [], "estimate": []}


def read_choices(form: Mapping[str, str]) -> RunChoices:
    """Parse a form.

    Raises:
        ConfigurationError: A value cannot be written as an option.
    """
    preset = form.get("preset") or "standard"
    interval = form.get("interval_ms") or "500"
    if not interval.isdecimal() or len(interval) > 9:
        raise ConfigurationError(f"the interval must be an integer, not {interval!r}")
    capture = tuple(
        capture_option(name, keys)
        for name in COLLECTIONS
        if (keys := {key: value for key in _KEYS if (value := form.get(f"c.{name}.{key}", "").strip())})
    )
    chosen, defaults = [], default_rules(preset)
    is_chosen = {
        rule.name: f"r.{rule.name}" in form or (not _has_rules(form) and rule.name in defaults)
        for rule in rule_choices()
    }
    for rule in rule_choices():
        prefix = f"p.{rule.name}."
        parameters = {
            key.removeprefix(prefix): value for key, value in form.items() if key.startswith(prefix) and value
        }
        if is_chosen[rule.name] and (parameters or rule.name not in defaults):
            chosen.append(rule_option(rule.name, parameters))
    excluded = tuple(name for name in defaults if not is_chosen.get(name, True))
    command = tuple(form.get("command", "").split()) or ("train.py",)
    return RunChoices(
        preset=preset,
        interval_ms=int(interval),
        budget=form.get("budget", "").strip() or DEFAULT_BUDGET,
        capture=capture,
        rules=tuple(chosen),
        without=excluded,
        on=_action_options(form),
        command=command,
    )


def _has_rules(form: Mapping[str, str]) -> bool:
    return "rules" in form or any(key.startswith("r.") for key in form)


def _action_options(form: Mapping[str, str]) -> tuple[str, ...]:
    options = []
    for index in range(_ACTION_ROWS):
        action, rule = form.get(f"a{index}.action", ""), form.get(f"a{index}.rule", "") or "*"
        if not action:
            continue
        if action not in BUILT_IN:
            raise ConfigurationError(f"there is no action named {action!r}")
        status, target = form.get(f"a{index}.status", ""), form.get(f"a{index}.words", "").strip()
        if not re.fullmatch(r"\*|[A-Za-z_][\w-]*", rule):
            raise ConfigurationError(f"{rule!r} is not a rule name")
        trigger = f"{rule}@{status}" if status else rule
        options.append(f"{trigger}={action}:{target}" if target else f"{trigger}={action}")
    return tuple(options)


def _form_of_run(run: Run) -> dict[str, str]:
    """Return the form that corresponds to the configuration of the run, as far as possible."""
    manifest = run.manifest
    form = {
        "preset": manifest.preset if manifest.preset in PRESETS else "standard",
        "interval_ms": str(manifest.interval_ms),
        "rules": "yes",
    }
    built_in = {rule.name for rule in rule_choices()}
    for spec in manifest.rules:
        if spec.rule in built_in:
            form[f"r.{spec.rule}"] = "yes"
            form |= {f"p.{spec.rule}.{key}": _format_parameter(value) for key, value in spec.parameters.items()}
    return form


def _format_parameter(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


ROUTES: Final = [Route("/runs/{run}/configure", configure)]
