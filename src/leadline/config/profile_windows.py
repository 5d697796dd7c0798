"""Reading what is asked to be profiled: ``KIND[:key=value,…]`` of ``--profile``, times and lengths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, get_args

from leadline.config.options import parse_spec
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.profile_window import KINDS, MOST_SECONDS, MOST_STEPS, TIMERS, Kind, ProfileWindow

WORDS: Final = (*KINDS, "python", "default")
KEYS: Final = ("at", "for", "timer", "memory")
_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|seconds|m|min|minutes)")
_UNITS: Final = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "m": 60.0, "min": 60.0, "minutes": 60.0}

DEFAULT: Final = (
    ProfileWindow("detailed", step=5, steps=1),
    ProfileWindow("dataloader", step=7, steps=1),
    ProfileWindow("cprofile", "total", step=9, steps=1),
    ProfileWindow("cprofile", "cpu", step=10, steps=1),
    ProfileWindow("cprofile", "off_cpu", step=11, steps=1),
)
"""Debugger's own: what it profiles where nobody says when."""


def parse_windows(options: Iterable[str], option: str = "--profile") -> tuple[ProfileWindow, ...]:
    """The windows that options ask for, each with a name of its own.

    Args:
        options: ``detailed:at=120,for=2`` · ``python:timer=cpu,at=90s,for=10s`` · ``cprofile:at=start`` ·
            ``default`` (Debugger's own steps).
    Raises:
        ConfigurationError: One has another form.
        UnknownNameError: No kind, key or timer has that name.
    """
    return named([window for each in options for window in _parse(each, option)])


def named(windows: Iterable[ProfileWindow]) -> tuple[ProfileWindow, ...]:
    """The windows with names that none shares with another."""
    found: dict[str, ProfileWindow] = {}
    for window in windows:
        stem = _stem(window)
        names = (stem if count == 1 else f"{stem}-{count}" for count in range(1, len(found) + 2))
        name = next(each for each in names if each not in found)
        found[name] = replace(window, id=name)
    return tuple(found.values())


def _stem(window: ProfileWindow) -> str:
    kind = f"{window.kind}-{window.timer}" if window.kind == "cprofile" else window.kind
    if window.part != "loop":
        return f"{kind}-{window.part}"
    return f"{kind}-{window.step}" if window.step is not None else kind


def _parse(text: str, option: str) -> tuple[ProfileWindow, ...]:
    spec = parse_spec(text, option=option.removeprefix("--"))
    if spec.name not in WORDS:
        raise UnknownNameError("kind of profile", spec.name, WORDS, hint=option)
    for key in spec.parameters:
        if key not in KEYS:
            raise UnknownNameError(f"key of {option} {spec.name}", key, KEYS)
    if spec.name == "default":
        if spec.parameters:
            raise ConfigurationError(f"{option} default takes no keys: it is {_spoken_default()}")
        return DEFAULT
    kind: Kind = "cprofile" if spec.name == "python" else next(each for each in get_args(Kind) if each == spec.name)
    return (make_window(kind, **{_FIELDS[key]: value for key, value in spec.parameters.items()}, option=option),)


_FIELDS: Final = {"at": "at", "for": "length", "timer": "timer", "memory": "memory"}


def make_window(
    kind: Kind,
    *,
    at: str | None = None,
    length: str | None = None,
    timer: str | None = None,
    memory: str | None = None,
    option: str = "--profile",
) -> ProfileWindow:
    """A window from words.

    Args:
        at: A step (``120``), a time after the start of the run (``90s``, ``5min``), an ISO time
            (``2026-11-20T14:00:00Z``), ``start`` or ``end``; None: the step that begins next.
        length: Steps (``2``) or time (``10s``); None: one step.
        memory: ``true``: also what operators allocate.
    """
    if memory is not None and (kind != "detailed" or memory not in ("true", "false")):
        raise ConfigurationError(f"{option} {kind}: memory is true or false, and of detailed windows only")
    if timer is not None and kind != "cprofile":
        raise ConfigurationError(f"{option} {kind}: timer is cProfile's only")
    if timer is not None and timer not in TIMERS:
        raise UnknownNameError("timer", timer, TIMERS, hint=f"{option} {kind}")
    fields: dict[str, Any] = {"kind": kind, **({"timer": timer} if timer else {})}
    fields |= {"with_memory": True} if memory == "true" else {}
    fields |= _begin(at, f"{option} {kind}: at") | _length(length, f"{option} {kind}: for")
    window = ProfileWindow(**fields)
    if window.part != "loop" and (length is not None or kind not in ("cprofile", "pyinstrument")):
        what = "lasts as long as it lasts" if length is not None else "is for cprofile and pyinstrument only"
        raise ConfigurationError(f"{option} {kind}: at={window.part} {what}")
    return window


def _begin(at: str | None, where: str) -> dict[str, Any]:
    if at is None:
        return {}
    if at in ("start", "end"):
        return {"part": at}
    if at.isdecimal():
        return {"step": int(at)}
    seconds = _seconds(at)
    if seconds is not None:
        return {"after_seconds": seconds}
    try:
        return {"time_ns": int(datetime.fromisoformat(at).timestamp() * 1e9)}
    except ValueError:
        raise ConfigurationError(
            f"{where}={at!r} is no step (120), time after the start (90s), ISO time, 'start' or 'end'"
        ) from None


def _length(length: str | None, where: str) -> dict[str, Any]:
    if length is None:
        return {}
    if length.isdecimal() and 0 < int(length) <= MOST_STEPS:
        return {"steps": int(length)}
    seconds = _seconds(length)
    if seconds is not None and 0 < seconds <= MOST_SECONDS:
        return {"seconds": seconds}
    raise ConfigurationError(
        f"{where}={length!r}: a window lasts 1 to {MOST_STEPS} steps (2), or up to {MOST_SECONDS:g} s (10s)"
    )


def _seconds(text: str) -> float | None:
    match = _SECONDS.fullmatch(text)
    return float(match[1]) * _UNITS[match[2]] if match else None


def _spoken_default() -> str:
    return "; ".join(each.spoken() for each in DEFAULT)
