"""Formatting of numbers, sizes, durations and paths for display."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime


def number(value: int) -> str:
    """``3,750``."""
    return f"{value:,}"


def counted(value: int, noun: str, plural: str = "") -> str:
    """``1 step``, ``3,750 steps``."""
    return f"{number(value)} {noun if value == 1 else plural or noun + 's'}"


def model(name: str, parameters: int) -> str:
    """``ResNet (62 parameter tensors)``; for boosted trees, which have none: ``Booster``."""
    return f"{name} ({counted(parameters, 'parameter tensor')})" if parameters else name


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``6 m 12 s``, ``3 h 5 m``, ``2 d 4 h``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def size(count: int) -> str:
    """Bytes in decimal units: ``41 MB``, ``1.2 GB``."""
    if count < 1000:
        return counted(count, "byte")
    value, units = count / 1000, ["kB", "MB", "GB", "TB"]
    unit = units.pop(0)
    while value >= 999.5 and units:
        value, unit = value / 1000, units.pop(0)
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def share(ratio: float) -> str:
    """``0.7 %``; ``under 0.1 %`` for smaller values above 0."""
    percent = 100 * ratio
    if 0 < percent < 0.1:
        return "under 0.1 %"
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part) if names else ""


def printable(text: str, keep: str = "") -> str:
    """Return a text as it may be shown in a terminal: control characters and lone surrogates become ``?``.

    A name or message of the user may contain escape sequences, which a terminal would obey.

    Args:
        keep: Characters that stay as they are, such as line breaks.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character in keep else "?" for character in text)


def short_path(path: str, folder: str) -> str:
    """Return a path relative to a folder if it is inside the folder, otherwise unchanged."""
    relative = os.path.relpath(path, folder)
    return path if relative.startswith(os.pardir) else os.path.join(os.curdir, relative)


def signal_name(value: int) -> str:
    """``SIGTERM``, or ``signal 35`` for a signal without a name."""
    try:
        return signal.Signals(value).name
    except ValueError:
        return f"signal {value}"


def iso(time_ns: int | None) -> str | None:
    """Return a time in ISO 8601 format, in UTC."""
    if time_ns is None:
        return None
    moment = datetime.fromtimestamp(time_ns / 1e9, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
