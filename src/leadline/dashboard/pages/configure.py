"""The page Configure of a run: choices as a command line and as a file, with what they would cost."""

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
from leadline.control.configurator import RunChoices, capture_words, check, command_line, default_rules, toml
from leadline.control.responses import spoken_interval
from leadline.dashboard.charts import Chart
from leadline.dashboard.page import opened, render, site
from leadline.dashboard.rule_forms import parameter_words, rule_choices
from leadline.dashboard.size_estimate import lines, spoken
from leadline.errors import ConfigurationError
from leadline.reader.run import Run
from leadline.records.metric import INTERVALS_MS
from leadline.records.names import JOB_STATUSES, PRESETS, RULE_STATUSES

COLLECTIONS: Final = {
    "losses": "losses",
    "metrics": "metrics, accuracy",
    "scalars": "what the script logs",
    "gradients": "as the optimizer gets them",
    "gradient_norms": "of all gradients, before and after clipping",
    "weights": "as the forward pass used them",
    "biases": "",
    "optimizer_variables": "momenta and the like",
    "layers": "outputs of all modules",
    "inputs": "of the model",
    "outputs": "of the model",
    "labels": "",
    "predictions": "",
    "hyperparameters": "learning rates and the like",
}
_PRESETS: Final = {
    "light": "losses and metrics every step; basic statistics of gradients and weights every 100",
    "standard": "the same every 50, and of activations every 500",
    "full": "the same every 10; weights and gradients themselves every 500",
    "sagemaker": "as SageMaker Debugger: losses and metrics every 500; the machine every 500 ms; profiler_report",
}
_KEYS: Final = ("every", "statistics", "raw")
_ACTIONS: Final = 3
_SECRETS: Final = "What is secret, and every address, goes in as $VARIABLE."


def configure(request: Request) -> Response:
    """``/runs/{run}/configure``."""
    run = opened(request).run
    given = dict(request.query_params) or _of_run(run)
    said = {
        **_result(run, given, site(request).shelf.root),
        "given": defaultdict(str, given),
        "presets": _PRESETS,
        "intervals": {each: spoken_interval(each) for each in INTERVALS_MS},
        "collections": COLLECTIONS,
        "default_budget": DEFAULT_BUDGET,
        "rules": rule_choices(),
        "defaults": {preset: list(default_rules(preset)) for preset in PRESETS},
        "actions": {name: _about(name) for name in BUILT_IN},
        "action_rows": range(_ACTIONS),
        "secrets": _SECRETS,
        "statuses": list(dict.fromkeys([*RULE_STATUSES, *JOB_STATUSES])),
    }
    return render(request, "configure.html", said, page="configure")


def _about(action: str) -> str:
    return (find_action(action).__doc__ or "").strip().split("\n", 1)[0]


def _result(run: Run, given: Mapping[str, str], root: str) -> dict[str, Any]:
    """What the choices come to; or what is wrong with them."""
    try:
        wish = read_wish(given)
        plan = check(wish, root)
        found = lines(plan, run)
        return {
            "error": None,
            "line": command_line(wish),
            "toml": toml(wish),
            "plan": found,
            "estimate": spoken(plan, found, run),
        }
    except (ConfigurationError, LookupError) as error:
        return {"error": str(error), "line": "", "toml": "", "plan": [], "estimate": []}


def read_wish(given: Mapping[str, str]) -> RunChoices:
    """A form as a wish.

    Raises:
        ConfigurationError: Something in it cannot be written as an option.
    """
    preset = given.get("preset") or "standard"
    interval = given.get("interval_ms") or "500"
    if not interval.isdecimal() or len(interval) > 9:
        raise ConfigurationError(f"the interval must be a whole number, not {interval!r}")
    capture = tuple(
        capture_words(name, keys)
        for name in COLLECTIONS
        if (keys := {key: value for key in _KEYS if (value := given.get(f"c.{name}.{key}", "").strip())})
    )
    chosen, defaults = [], default_rules(preset)
    is_chosen = {
        each.name: f"r.{each.name}" in given or (not _has_rules(given) and each.name in defaults)
        for each in rule_choices()
    }
    for each in rule_choices():
        prefix = f"p.{each.name}."
        parameters = {
            key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix) and value
        }
        if is_chosen[each.name] and (parameters or each.name not in defaults):
            chosen.append(parameter_words(each.name, parameters))
    without = tuple(each for each in defaults if not is_chosen.get(each, True))
    command = tuple(given.get("command", "").split()) or ("train.py",)
    return RunChoices(
        preset=preset,
        interval_ms=int(interval),
        budget=given.get("budget", "").strip() or DEFAULT_BUDGET,
        capture=capture,
        rules=tuple(chosen),
        without=without,
        on=_followed(given),
        command=command,
    )


def _has_rules(given: Mapping[str, str]) -> bool:
    return "rules" in given or any(key.startswith("r.") for key in given)


def _followed(given: Mapping[str, str]) -> tuple[str, ...]:
    found = []
    for row in range(_ACTIONS):
        action, rule = given.get(f"a{row}.action", ""), given.get(f"a{row}.rule", "") or "*"
        if not action:
            continue
        if action not in BUILT_IN:
            raise ConfigurationError(f"there is no action named {action!r} here")
        status, words = given.get(f"a{row}.status", ""), given.get(f"a{row}.words", "").strip()
        if not re.fullmatch(r"\*|[A-Za-z_][\w-]*", rule):
            raise ConfigurationError(f"{rule!r} is no rule's name")
        occasion = f"{rule}@{status}" if status else rule
        found.append(f"{occasion}={action}:{words}" if words else f"{occasion}={action}")
    return tuple(found)


def _of_run(run: Run) -> dict[str, str]:
    """The form as the run itself was configured, as far as it can be said here."""
    manifest = run.manifest
    told = {
        "preset": manifest.preset if manifest.preset in PRESETS else "standard",
        "interval_ms": str(manifest.interval_ms),
        "rules": "yes",
    }
    known = {each.name for each in rule_choices()}
    for spec in manifest.rules:
        if spec.rule in known:
            told[f"r.{spec.rule}"] = "yes"
            told |= {f"p.{spec.rule}.{key}": _said(value) for key, value in spec.parameters.items()}
    return told


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


ROUTES: Final = [Route("/runs/{run}/configure", configure)]
CHARTS: Final[dict[str, Chart]] = {}
