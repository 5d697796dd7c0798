"""Configure page of a run: choices as a command line and leadline.toml, with their estimated cost."""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.actions.registry import BUILT_IN, find_action
from leadline.config.capture import capture_item
from leadline.config.options import ActionEntry, format_value, parse_action
from leadline.config.resolve import resolve
from leadline.config.run_config import DEFAULT_BUDGET, RunConfig
from leadline.config.toml_file import to_toml
from leadline.dashboard.page import open_run, render, site
from leadline.dashboard.rule_forms import rule_choices
from leadline.dashboard.size_estimate import describe, estimate_items
from leadline.errors import ConfigurationError, LeadlineError, located
from leadline.judge.rule_plan import default_rules
from leadline.reader.run import Run
from leadline.records.describe import interval as format_interval
from leadline.records.manifest import RuleSpec
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
        "defaults": {preset: _default_rules(preset) for preset in PRESETS},
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
        config = from_form(form)
        plan = resolve(config, os.path.join(root, "next")).plan
        items = estimate_items(plan, run)
        command = form.get("command", "").split() or ["train.py"]
        return {
            "error": None,
            "line": shlex.join(["leadline", "run", *config.to_options(), *command]),
            "toml": to_toml(config),
            "plan": items,
            "estimate": describe(plan, items, run),
        }
    except (LeadlineError, LookupError) as error:
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
        budget=form.get("budget", "").strip() or DEFAULT_BUDGET,
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
    for index in range(_ACTION_ROWS):
        action, rule = form.get(f"a{index}.action", ""), form.get(f"a{index}.rule", "") or "*"
        if not action:
            continue
        if action not in BUILT_IN:
            raise ConfigurationError(f"there is no action named {action!r}")
        status, arguments = form.get(f"a{index}.status", ""), form.get(f"a{index}.words", "").strip()
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
    }
    built_in = {rule.name for rule in rule_choices()}
    for spec in manifest.rules:
        if spec.rule in built_in:
            form[f"r.{spec.rule}"] = "yes"
            form |= {f"p.{spec.rule}.{key}": format_value(value) for key, value in spec.parameters.items()}
    return form


ROUTES: Final = [Route("/runs/{run}/configure", configure)]
