"""Control requests made from command-line options and form fields, with the captures that a new rule needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from leadline.config.options import parse_rule
from leadline.config.presets import merge, preset_items
from leadline.config.profile_windows import make_window, with_unique_ids
from leadline.config.run_config import check_interval
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.judge.rule_plan import check_runs, plan, resolve_rules
from leadline.reader.run import Run
from leadline.records.documents import RuleSummary
from leadline.records.manifest import RuleSpec
from leadline.records.names import JOB_ENDED, PRESETS
from leadline.records.plan import CaptureItem
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import AddRules, ControlRequest, Profile, SetInterval, Stop
from leadline.store.control import new_request_id, write_request
from leadline.store.run_state import read_rule_summary

SETTINGS: Final = ("interval-ms", "rule")
"""The keys of ``leadline set``."""
PYTHON: Final = ("cprofile", "pyinstrument")
GRACE_SECONDS: Final = 30.0
MAX_GRACE_SECONDS: Final = 86_400.0


def ask(run: Run, request: ControlRequest) -> ControlRequest:
    """Write a request to the run directory, where the job reads it.

    Raises:
        ConfigurationError: The job is not running.
        OSError: It cannot be written.
    """
    if run.status in JOB_ENDED:
        raise ConfigurationError(f"{run.name} is not running: it is {run.status}")
    write_request(run.uri, request)
    return request


def interval_request(text: str, *, reason: str, key: str = "interval-ms") -> SetInterval:
    """Request another sampling interval of the system metrics.

    Args:
        text: Milliseconds.
        reason: Source of the request in a few words; also used in error messages.
    Raises:
        ConfigurationError: The monitor does not support that interval.
    """
    if not text.isdecimal():
        raise ConfigurationError(f"{key} must be an integer, not {text!r}")
    check_interval(int(text), reason)
    return SetInterval(**_by_user(reason), interval_ms=int(text))


def settings_requests(settings: Sequence[str], find: Callable[[], Run], *, reason: str) -> list[ControlRequest]:
    """Parse ``KEY=VALUE…`` of ``leadline set`` into requests.

    Args:
        find: Returns the run, if a setting needs it.
    Raises:
        ConfigurationError: A setting is malformed, or a value is invalid.
        UnknownNameError: No setting, rule or parameter has that name.
    """
    if not settings:
        raise ConfigurationError("nothing to set; for example: leadline set interval-ms=100")
    return [_setting(setting, find, reason) for setting in settings]


def _setting(setting: str, find: Callable[[], Run], reason: str) -> ControlRequest:
    key, equals, value = setting.partition("=")
    if not equals:
        raise ConfigurationError(f"{setting!r} is not KEY=VALUE; for example: interval-ms=100")
    if key == "rule":
        return rule_request(parse_rule(value, os.getcwd()), find(), reason=reason)
    if key.replace("_", "-") not in SETTINGS:
        raise UnknownNameError("setting", key, SETTINGS, hint=reason)
    return interval_request(value, reason=reason, key=key)


def rule_request(rule: RuleSpec, run: Run, *, reason: str) -> AddRules:
    """Request the evaluation of one more rule, and the captures that it still needs.

    Raises:
        ConfigurationError: A parameter is invalid, or the run has a rule of that name.
        UnknownNameError: No rule or parameter has that name.
    """
    ((spec, resolved),) = resolve_rules([rule])
    if spec.alias in active_rules(run):
        raise ConfigurationError(f"{run.name} already has a rule named {spec.alias!r}; use an alias: OTHER={spec.rule}")
    check_runs([(spec, resolved)], os.path.dirname(run.uri))
    needs = plan([(spec, resolved)], ())
    return AddRules(**_by_user(reason), rules=(spec,), items=_missing(needs, run))


def profile_request(
    *,
    at: str | None = None,
    length: str | None = None,
    is_detailed: bool = False,
    python: str | None = None,
    has_loader: bool = False,
    reason: str,
) -> Profile:
    """Request profile windows.

    Args:
        at: A step (``120``), a time after the start (``90s``) or an ISO time; None: the next step.
        length: Steps (``2``) or time (``10s``); None: one step.
        is_detailed: Record every operator call; this is the default if nothing else is requested.
        python: ``cprofile[:total|cpu|off_cpu]`` or ``pyinstrument``.
        has_loader: Record the activity of the data loader's workers.
    Raises:
        ConfigurationError: A time or length is invalid or too long.
        UnknownNameError: No profiler or timer has that name.
    """
    kinds: list[ProfileWindow] = []
    if is_detailed or not (python or has_loader):
        kinds.append(make_window("detailed", at=at, length=length))
    if python is not None:
        kinds.append(_python(python, at, length))
    if has_loader:
        kinds.append(make_window("dataloader", at=at, length=length))
    request = Profile(**_by_user(reason))
    windows = (replace(window, id=f"{window.id}-{request.id[-6:]}") for window in with_unique_ids(kinds))
    return replace(request, windows=tuple(windows))


def profile_off_request(*, reason: str) -> Profile:
    """Request the end of profiling: open windows end with the step, pending ones are cancelled."""
    return Profile(**_by_user(reason), off=True)


def _python(word: str, at: str | None, length: str | None) -> ProfileWindow:
    name, _, timer = word.partition(":")
    if name not in PYTHON:
        raise UnknownNameError("Python profiler", name, PYTHON, hint="--python")
    kind = "cprofile" if name == "cprofile" else "pyinstrument"
    return make_window(kind, at=at, length=length, timer=timer or None)  # type: ignore[arg-type]


def stop_request(*, grace_seconds: float = GRACE_SECONDS, reason: str) -> Stop:
    """Request a stop of the job at its next step.

    Args:
        grace_seconds: Delay before signals are sent, >= 0.
    Raises:
        ConfigurationError: The time is out of range.
    """
    if not 0 <= grace_seconds <= MAX_GRACE_SECONDS:
        raise ConfigurationError(f"--grace must be at least 0 s and at most one day, not {grace_seconds:g}")
    return Stop(**_by_user(reason), grace_seconds=grace_seconds)


def _by_user(reason: str) -> dict[str, Any]:
    return {"id": new_request_id(), "reason": reason, "by": "user", "time_ns": time.time_ns()}


def active_rules(run: Run) -> dict[str, str]:
    """Return the rules of a run by alias, with those added while it ran."""
    summary = read_rule_summary(run.uri) or RuleSummary()
    added = {rule.name: rule.rule for rule in summary.rules}
    return {spec.alias: spec.rule for spec in run.manifest.rules} | added


def _missing(needs: tuple[CaptureItem, ...], run: Run) -> tuple[CaptureItem, ...]:
    """Capture items with the intervals of the run's preset, without those that its plan already contains."""
    preset = run.manifest.preset if run.manifest.preset in PRESETS else "standard"
    base = preset_items(preset)
    merged = merge(base, (), needs, root=os.path.dirname(run.uri)).items[len(base) :]
    known = {replace(item, source="") for item in run.manifest.plan.items}
    return tuple(item for item in merged if replace(item, source="") not in known)
