"""Control requests from people's words."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from leadline.config.profile_windows import make_window, named
from leadline.config.settings import check_interval
from leadline.control.added_rule import added_rule
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.reader.run import Run
from leadline.records.names import JOB_ENDED
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import RULE, Request
from leadline.store.control import new_request_id, write_request

SETTINGS: Final = ("interval-ms", "rule")
"""What ``leadline set`` changes."""
PYTHON: Final = ("cprofile", "pyinstrument")
GRACE_SECONDS: Final = 30.0
MOST_GRACE_SECONDS: Final = 86_400.0


def ask(run: Run, request: Request) -> Request:
    """Put a request where the job sees it.

    Raises:
        ConfigurationError: The job is not running.
        OSError: It cannot be written.
    """
    if run.status in JOB_ENDED:
        raise ConfigurationError(f"{run.name} is not running: it is {run.status}")
    write_request(run.uri, request)
    return request


def interval_request(text: str, *, reason: str, key: str = "interval-ms") -> Request:
    """Sample the machine at another interval.

    Args:
        text: Milliseconds.
        reason: Where it comes from, in a few words; errors call it so too.
    Raises:
        ConfigurationError: It is none of the intervals that the monitor knows.
    """
    if not text.isdecimal():
        raise ConfigurationError(f"{key} must be a whole number, not {text!r}")
    check_interval(int(text), reason)
    return _request("set", reason, parameters={"interval_ms": int(text)})


def settings_requests(words: Sequence[str], find: Callable[[], Run], *, reason: str) -> list[Request]:
    """``KEY=VALUE…`` of ``leadline set`` as requests.

    Args:
        find: Gives the run, where a word is about it.
    Raises:
        ConfigurationError: One has another form, or a value is refused.
        UnknownNameError: No setting, rule or parameter has that name.
    """
    if not words:
        raise ConfigurationError("nothing to set; write for example: leadline set interval-ms=100")
    return [_setting(each, find, reason) for each in words]


def _setting(word: str, find: Callable[[], Run], reason: str) -> Request:
    key, equals, value = word.partition("=")
    if not equals:
        raise ConfigurationError(f"{word!r} is no KEY=VALUE; write for example: interval-ms=100")
    if key == "rule":
        return rule_request(value, find(), reason=reason)
    if key.replace("_", "-") not in SETTINGS:
        raise UnknownNameError("setting", key, SETTINGS, hint=reason)
    return interval_request(value, reason=reason, key=key)


def rule_request(text: str, run: Run, *, reason: str) -> Request:
    """Judge by one more rule from now on, from what was captured and what it still needs.

    Args:
        text: ``[AS=]NAME[:key=value,…]``, the words of ``--rule``.
    Raises:
        ConfigurationError: It has another form, a parameter is refused, or the run has a rule of that name.
        UnknownNameError: No rule or parameter has that name.
    """
    spec, items = added_rule(text, run)
    parameters = {"rules": [asdict(spec)], "items": [asdict(each) for each in items]}
    return _request(RULE, reason, parameters=parameters)


def profile_request(
    *,
    at: str | None = None,
    length: str | None = None,
    is_detailed: bool = False,
    python: str | None = None,
    has_loader: bool = False,
    reason: str,
) -> tuple[Request, tuple[ProfileWindow, ...]]:
    """Look at a few steps in depth.

    Args:
        at: A step (``120``), a time after the start (``90s``) or an ISO time; None: the step that begins next.
        length: Steps (``2``) or time (``10s``); None: one step.
        is_detailed: Every operator call; so it is too where nothing else is asked for.
        python: ``cprofile[:total|cpu|off_cpu]`` or ``pyinstrument``.
        has_loader: What the data loader's workers do.
    Raises:
        ConfigurationError: A time or length is none, or too long.
        UnknownNameError: No profiler or timer has that name.
    """
    kinds: list[ProfileWindow] = []
    if is_detailed or not (python or has_loader):
        kinds.append(make_window("detailed", at=at, length=length))
    if python is not None:
        kinds.append(_python(python, at, length))
    if has_loader:
        kinds.append(make_window("dataloader", at=at, length=length))
    identifier = new_request_id()
    windows = tuple(replace(each, id=f"{each.id}-{identifier[-6:]}") for each in named(kinds))
    parameters = {"windows": [each.to_dict() for each in windows]}
    return replace(_request("profile", reason, parameters=parameters), id=identifier), windows


def profile_off_request(*, reason: str) -> Request:
    """Look at nothing in depth any more: open windows end with the step, those that are waited for never come."""
    return _request("profile", reason, parameters={"off": True, "windows": []})


def _python(word: str, at: str | None, length: str | None) -> ProfileWindow:
    name, _, timer = word.partition(":")
    if name not in PYTHON:
        raise UnknownNameError("Python profiler", name, PYTHON, hint="--python")
    kind = "cprofile" if name == "cprofile" else "pyinstrument"
    return make_window(kind, at=at, length=length, timer=timer or None)  # type: ignore[arg-type]


def stop_request(*, grace_seconds: float = GRACE_SECONDS, reason: str) -> Request:
    """Stop the job at its next step.

    Args:
        grace_seconds: So long after it signals follow; at least 0.
    Raises:
        ConfigurationError: The time is out of bounds.
    """
    if not 0 <= grace_seconds <= MOST_GRACE_SECONDS:
        raise ConfigurationError(f"--grace must be at least 0 and at most a day, not {grace_seconds:g}")
    return replace(_request("stop", reason), grace_seconds=grace_seconds)


def _request(kind: str, reason: str, parameters: Mapping[str, Any] | None = None) -> Request:
    return Request(
        id=new_request_id(),
        kind=kind,
        reason=reason,
        by="user",
        time_ns=time.time_ns(),
        parameters=dict(parameters or {}),
    )
