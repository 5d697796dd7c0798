"""Parsing of profile windows: ``KIND[:key=value,…]`` of ``--profile``, times and lengths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final, get_args

from leadline.config.options import parse_spec
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.formatting import listed
from leadline.records.profile_window import KINDS, MAX_SECONDS, MAX_STEPS, TIMERS, Kind, Part, ProfileWindow

NAMES: Final = (*KINDS, "python", "default")
_PARTS_OF_PROCESS: Final[tuple[Part, ...]] = ("start", "end")
KEYS: Final = ("at", "for", "timer", "memory")
_PARTS: Final[dict[Part, tuple[Kind, ...]]] = {
    "start": ("detailed", "cprofile", "pyinstrument"),
    "end": ("cprofile", "pyinstrument"),
}
"""The kinds that record what is before the first step or after the last one."""
_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|seconds|m|min|minutes)")
_UNITS: Final = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "m": 60.0, "min": 60.0, "minutes": 60.0}

DEFAULT: Final = (
    ProfileWindow("detailed", step=5, steps=1),
    ProfileWindow("dataloader", step=7, steps=1),
    ProfileWindow("cprofile", "total", step=9, steps=1),
    ProfileWindow("cprofile", "cpu", step=10, steps=1),
    ProfileWindow("cprofile", "off_cpu", step=11, steps=1),
)
"""The default windows of SageMaker Debugger."""


def parse_windows(options: Iterable[str], option: str = "--profile") -> tuple[ProfileWindow, ...]:
    """Parse profile options into windows with unique ids.

    Args:
        options: ``detailed:at=120,for=2`` · ``python:timer=cpu,at=90s,for=10s`` · ``cprofile:at=start`` ·
            ``default`` (the default steps of SageMaker Debugger).
    Raises:
        ConfigurationError: An option is malformed.
        UnknownNameError: No kind, key or timer has that name.
    """
    return with_unique_ids([window for text in options for window in _parse(text, option)])


def with_unique_ids(windows: Iterable[ProfileWindow]) -> tuple[ProfileWindow, ...]:
    """Return the windows with ids that no two of them share."""
    renamed: dict[str, ProfileWindow] = {}
    for window in windows:
        stem = _stem(window)
        candidates = (stem if count == 1 else f"{stem}-{count}" for count in range(1, len(renamed) + 2))
        identifier = next(candidate for candidate in candidates if candidate not in renamed)
        renamed[identifier] = replace(window, id=identifier)
    return tuple(renamed.values())


def _stem(window: ProfileWindow) -> str:
    kind = f"{window.kind}-{window.timer}" if window.kind == "cprofile" else window.kind
    if window.part != "loop":
        return f"{kind}-{window.part}"
    return f"{kind}-{window.step}" if window.step is not None else kind


def _parse(text: str, option: str) -> tuple[ProfileWindow, ...]:
    name, given = parse_spec(text, option=option.removeprefix("--"))
    if name not in NAMES:
        raise UnknownNameError("kind of profile", name, NAMES, hint=option)
    for key in given:
        if key not in KEYS:
            raise UnknownNameError(f"key of {option} {name}", key, KEYS)
    if name == "default":
        if given:
            raise ConfigurationError(f"{option} default takes no keys; it is {_describe_default()}")
        return DEFAULT
    kind: Kind = "cprofile" if name == "python" else next(kind for kind in get_args(Kind) if kind == name)
    fields = {"length" if key == "for" else key: str(value) for key, value in given.items()}
    return (make_window(kind, **fields, option=option),)


def make_window(
    kind: Kind,
    *,
    at: str | None = None,
    length: str | None = None,
    timer: str | None = None,
    memory: str | None = None,
    option: str = "--profile",
) -> ProfileWindow:
    """Create a profile window from option values.

    Args:
        at: A step (``120``), a time after the start of the run (``90s``, ``5min``), an ISO time
            (``2026-11-20T14:00:00Z``), ``start`` or ``end``; None: the next step.
        length: Steps (``2``) or time (``10s``); None: one step.
        memory: ``true`` to record memory allocations of operators, too.
    """
    if memory is not None and (kind != "detailed" or memory not in ("true", "false")):
        raise ConfigurationError(f"{option} {kind}: memory must be true or false, and needs a detailed window")
    if timer is not None and kind != "cprofile":
        raise ConfigurationError(f"{option} {kind}: timer is valid for cprofile only")
    if timer is not None and timer not in TIMERS:
        raise UnknownNameError("timer", timer, TIMERS, hint=f"{option} {kind}")
    window = ProfileWindow(kind, with_memory=memory == "true")
    window = replace(window, timer=timer) if timer is not None else window
    window = _beginning(window, at, f"{option} {kind}: at")
    window = _lasting(window, length, f"{option} {kind}: for")
    kinds = _PARTS.get(window.part, KINDS)
    if window.part != "loop" and (length is not None or kind not in kinds):
        reason = "cannot be combined with for" if length is not None else f"is valid for {listed(kinds)} only"
        raise ConfigurationError(f"{option} {kind}: at={window.part} {reason}")
    return window


def _beginning(window: ProfileWindow, at: str | None, where: str) -> ProfileWindow:
    if at is None:
        return window
    if at in _PARTS_OF_PROCESS:
        return replace(window, part=at)
    if at.isdecimal():
        return replace(window, step=int(at))
    seconds = _seconds(at)
    if seconds is not None:
        return replace(window, after_seconds=seconds)
    try:
        return replace(window, time_ns=int(datetime.fromisoformat(at).timestamp() * 1e9))
    except ValueError:
        raise ConfigurationError(
            f"{where}={at!r} is not a step (120), a time after the start (90s), an ISO time, 'start' or 'end'"
        ) from None


def _lasting(window: ProfileWindow, length: str | None, where: str) -> ProfileWindow:
    if length is None:
        return window
    if length.isdecimal() and 0 < int(length) <= MAX_STEPS:
        return replace(window, steps=int(length))
    seconds = _seconds(length)
    if seconds is not None and 0 < seconds <= MAX_SECONDS:
        return replace(window, seconds=seconds)
    raise ConfigurationError(
        f"{where}={length!r}: a window lasts 1 to {MAX_STEPS} steps (2), or up to {MAX_SECONDS:g} s (10s)"
    )


def _seconds(text: str) -> float | None:
    match = _SECONDS.fullmatch(text)
    return float(match[1]) * _UNITS[match[2]] if match else None


def _describe_default() -> str:
    return "; ".join(window.describe() for window in DEFAULT)
