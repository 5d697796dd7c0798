"""Control requests made from command-line options and form fields, with the captures that a new rule needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypedDict

from leadline.actions.action import TrainingProgress
from leadline.actions.stop_training import MARGIN_SECONDS, STORE_MARGIN_SECONDS, stop_step
from leadline.config.capture import parse_capture
from leadline.config.options import parse_rule, parse_spec
from leadline.config.presets import merge, preset_items
from leadline.config.profile_windows import make_window, with_unique_ids
from leadline.config.run_config import check_interval
from leadline.config.trust import code_of, is_foreign
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.judge.rule_changes import NOT_TAKEN, rules_of
from leadline.judge.rule_plan import check_runs, plan, resolve_rules
from leadline.reader.liveness import finished_workers
from leadline.reader.run import Run
from leadline.records.documents import RuleSummary
from leadline.records.manifest import RuleSpec
from leadline.records.metric import NOT_SAMPLED
from leadline.records.names import JOB_ENDED, PRESETS
from leadline.records.plan import CaptureItem
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import (
    AddRules,
    ChangeCapture,
    ControlRequest,
    PlanChange,
    Profile,
    RemoveRules,
    SetInterval,
    Stop,
    changed_items,
    request_to_dict,
)
from leadline.remote import mirror
from leadline.store import layout
from leadline.store.control import new_request_id, read_requests, write_request
from leadline.store.run_state import read_rule_summary, read_workers

SETTINGS: Final = ("interval-ms", "rule", "capture")
"""The keys of ``leadline set``."""
_OFF: Final = "off"
_REMOVE: Final = "-"
"""Before the name of a rule or collection: no longer."""
PYTHON: Final = ("cprofile", "pyinstrument")
GRACE_SECONDS: Final = 30.0
MAX_GRACE_SECONDS: Final = 86_400.0


def ask(run: Run, request: ControlRequest) -> ControlRequest:
    """Write a request to the run directory, where the job reads it; several workers stop at one step.

    Raises:
        ConfigurationError: The job is not running.
        OSError: It cannot be written.
    """
    if run.status in JOB_ENDED:
        raise ConfigurationError(f"{run.name} is not running: it is {run.status}")
    if isinstance(request, Stop) and request.step is None:
        request = replace(request, step=common_step(run.path, request.grace_seconds))
    mirror.send(run.path, layout.request(request.id), request_to_dict(request))
    write_request(run.path, request)
    return request


def common_step(run: str, grace_seconds: float) -> int | None:
    """Return the global step at which all workers of a run can stop; None: each stops at its next step.

    That is so with one worker, and where steps take so long that the workers could not stop within the grace period.
    """
    documents = read_workers(run)
    gone = finished_workers(run, documents)
    running = [
        TrainingProgress(
            name, one.step, one.time_ns, one.loop_ns / 1e9 / max(1, one.step + 1), one.train_step, is_average=True
        )
        for name, one in documents.items()
        if one.state == "running" and name not in gone
    ]
    if len(running) < 2:
        return None
    is_far = bool(mirror.uri_of(run)) or os.path.exists(os.path.join(run, layout.OTHERS))
    margin_seconds = STORE_MARGIN_SECONDS if is_far else MARGIN_SECONDS
    step = stop_step(running, now_ns=time.time_ns(), at_least=0, margin_seconds=margin_seconds)
    seconds = max((step - one.step) * one.seconds_per_step for one in running)
    return step if seconds < grace_seconds else None


def interval_request(text: str, *, reason: str, key: str = "interval-ms") -> SetInterval:
    """Request another sampling interval of the system metrics.

    Args:
        text: Milliseconds, or ``off``.
        reason: Source of the request in a few words.
        key: The name of the setting, for errors.
    Raises:
        ConfigurationError: The monitor does not support that interval.
    """
    if text == _OFF:
        return SetInterval(**_by_user(reason), interval_ms=NOT_SAMPLED)
    if not text.isdecimal():
        raise ConfigurationError(f"{key} must be an integer or {_OFF}, not {text!r}")
    check_interval(int(text), key)
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
    if key == "rule" and value.startswith(_REMOVE):
        return remove_rule_request(value.removeprefix(_REMOVE), find(), reason=reason)
    if key == "capture":
        return capture_request(value, find(), reason=reason)
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
    known = {code_of(spec.rule, spec.folder) for spec in run.manifest.rules}
    if is_foreign(rule.rule) and code_of(rule.rule, rule.folder) not in known:
        raise ConfigurationError(f"{rule.rule}: {NOT_TAKEN}; name it at the start: leadline run --rule {rule.rule}")
    ((spec, resolved),) = resolve_rules([rule])
    if spec.alias in active_rules(run):
        raise ConfigurationError(f"{run.name} already has a rule named {spec.alias!r}; use an alias: OTHER={spec.rule}")
    check_runs([(spec, resolved)], os.path.dirname(run.uri))
    needs = plan([(spec, resolved)], ())
    return AddRules(**_by_user(reason), rules=(spec,), items=_missing(needs, run))


def remove_rule_request(name: str, run: Run, *, reason: str) -> RemoveRules:
    """Request that a rule is no longer evaluated, and that what only this rule needs is no longer captured.

    Raises:
        UnknownNameError: The run has no rule of that name.
    """
    rules = {spec.alias: spec for spec in rules_of(run.uri, run.manifest)}
    if name not in rules:
        raise UnknownNameError("rule of this run", name, rules)
    others = [spec for spec in rules.values() if spec.alias != name]
    sources = {"preset", "option", *(f"rule:{spec.alias}" for spec in others)}
    unclaimed = [item for item in captured_items(run) if item.source not in sources]
    added = [spec for spec in others if spec not in run.manifest.rules]  # their needs may rest on items of this rule
    if any(is_foreign(spec.rule) for spec in added):
        unclaimed = []  # only its code, which is not imported here, tells what it needs
    needs = plan(resolve_rules(added), ()) if unclaimed and added else ()
    needed = {replace(item, source="") for item in _scheduled(needs, run)}
    items = tuple(item for item in unclaimed if replace(item, source="") not in needed)
    return RemoveRules(**_by_user(reason), rules=(name,), items=items)


def capture_request(text: str, run: Run, *, reason: str) -> ChangeCapture:
    """Request that a collection is captured at other steps, also for rules that need it, or no longer.

    Args:
        text: ``COLLECTION:every=500``, ``COLLECTION:steps=…``, as for ``--capture``; ``-COLLECTION``: no longer.
            Without statistics, ``raw`` and selection the items that are captured now take the new schedule; a
            collection that is not captured yet is captured with its default statistics.
    Raises:
        ConfigurationError: The text is malformed.
        UnknownNameError: No collection, key, mode or statistic has that name, or none that is captured.
    """
    by_collection: dict[str, tuple[CaptureItem, ...]] = {}
    for known in captured_items(run):
        by_collection[_collection(known)] = (*by_collection.get(_collection(known), ()), known)
    if text.startswith(_REMOVE):
        name = text.removeprefix(_REMOVE)
        if name not in by_collection:
            raise UnknownNameError("captured collection", name, filter(None, by_collection))
        return ChangeCapture(**_by_user(reason), collection=name, removed=by_collection[name])
    item = parse_capture(text)
    request = ChangeCapture(**_by_user(reason), collection=_collection(item))
    removed = tuple(known for known in by_collection.get(request.collection, ()) if set(known.modes) & set(item.modes))
    if not removed or _names_contents(text):
        return replace(request, added=(item,))
    return replace(request, removed=removed, added=tuple(_rescheduled(removed, item)))


def _collection(item: CaptureItem) -> str:
    return item.custom or item.collection or ""


def _names_contents(text: str) -> bool:
    """Return whether an option says what is captured, and not only when."""
    _, given = parse_spec(text, option="capture")
    return not given.keys().isdisjoint(("statistics", "raw", "regex", "modules"))


def _rescheduled(items: Iterable[CaptureItem], wanted: CaptureItem) -> Iterator[CaptureItem]:
    """Yield items with the schedule of another one in its modes, and with their own schedule in other modes."""
    for item in items:
        changed = tuple(mode for mode in item.modes if mode in wanted.modes)
        others = tuple(mode for mode in item.modes if mode not in wanted.modes)
        yield replace(item, schedule=wanted.schedule, modes=changed)
        if others:
            yield replace(item, modes=others)


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


class _ByUser(TypedDict):
    """What each request of a user has."""

    id: str
    reason: str
    by: str
    time_ns: int


def _by_user(reason: str) -> _ByUser:
    return {"id": new_request_id(), "reason": reason, "by": "user", "time_ns": time.time_ns()}


def active_rules(run: Run) -> dict[str, str]:
    """Return the rules of a run by alias, with those added while it ran."""
    summary = read_rule_summary(run.uri) or RuleSummary()
    added = {rule.name: rule.rule for rule in summary.rules}
    return {spec.alias: spec.rule for spec in run.manifest.rules} | added


def captured_items(run: Run) -> tuple[CaptureItem, ...]:
    """Return what a run captures now: its capture plan, with the changes that were requested while it ran."""
    items = run.manifest.plan.items
    for request in read_requests(run.uri):
        if isinstance(request, PlanChange):
            items = changed_items(items, request)
    return items


def _missing(needs: tuple[CaptureItem, ...], run: Run) -> tuple[CaptureItem, ...]:
    """Return the capture items of needs without those that the run captures already."""
    known = {replace(item, source="") for item in captured_items(run)}
    return tuple(item for item in _scheduled(needs, run) if replace(item, source="") not in known)


def _scheduled(needs: tuple[CaptureItem, ...], run: Run) -> tuple[CaptureItem, ...]:
    """Return the capture items of needs with the intervals of the run's preset."""
    preset = run.manifest.preset if run.manifest.preset in PRESETS else "standard"
    base = preset_items(preset)
    return merge(base, (), needs, root=os.path.dirname(run.uri)).items[len(base) :]
