"""Formatting of numbers, times, sizes and paths for display: the same on pages, in reports and in notebooks."""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, overload

_SECONDS: Final = ((1e9, "ns"), (1e6, "µs"), (1e3, "ms"), (1.0, "s"))
"""Units of a time below a minute, with their number in a second."""

_WORKER: Final = re.compile(r"rank(\d+)(?:-r(\d+))?(?:-i\d+)?-\d+")

_PHASE_LABELS: Final = {
    "data": "data loading",
    "host": "host time before the model",
    "copy": "host-to-device copy",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "compute": "training function",
    "collective": "collective",
    "checkpoint": "checkpoint",
    "watching": "Leadline",
    "other": "other",
    "eval": "evaluation",
    "predict": "prediction",
    "imports": "imports",
    "setup": "data, model and device setup",
    "first_step": "compilation and first step",
    "initialization": "initialization",
    "training_loop": "training loop",
    "finalization": "finalization",
}


def number(value: int) -> str:
    """``3,750``."""
    return f"{value:,}"


def counted(value: int, noun: str, plural: str = "") -> str:
    """``1 step``, ``3,750 steps``."""
    return f"{number(value)} {noun if value == 1 else plural or noun + 's'}"


def significant(value: float | None) -> str:
    """Three significant digits: ``0.0471``, ``57.1``, ``1,234``, ``1.93e7``; whole numbers exactly up to a million.

    Returns:
        A dash for None; ``NaN``, ``∞`` or ``−∞`` for what is not finite.
    """
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    rounded = float(f"{value:.3g}")
    if 1e-4 <= abs(rounded) < 1e6 or not value:
        return f"{value:,.0f}" if abs(rounded) >= 100 or value == int(value) else f"{value:.3g}"
    mantissa, exponent = f"{rounded:.2e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def exact(value: float) -> str:
    """A number that somebody chose, as it is written: ``0.1235``, ``1e-7``."""
    mantissa, _, exponent = f"{value:g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def latency(seconds: float | None) -> str:
    """A time within a training, in SI units with three significant digits: ``26.1 µs``, ``259 ms``, ``1.05 s``.

    Returns:
        A dash for None; from a minute as ``duration``.
    """
    if seconds is None:
        return "–"
    if abs(seconds) >= 59.95:
        return ("-" if seconds < 0 else "") + duration(abs(seconds))
    factor, unit = next((pair for pair in _SECONDS if abs(seconds) * pair[0] < 999.5), _SECONDS[-1])
    return f"{significant(seconds * factor)} {unit}" if seconds else "0 s"


def model(name: str, parameters: int, elements: int = 0, trainable: int = 0) -> str:
    """``ResNet (62 parameter tensors)``; for boosted trees, which have none: ``Booster``.

    Where not all of its elements are trained: ``Llama (16 parameter tensors; 0.8 % of 1,120,000 elements trainable)``.
    """
    if not parameters:
        return name
    of_all = share(trainable / elements) if trainable < elements else ""
    of_all = f"{trainable:,}" if of_all == "100 %" else of_all  # a few are left out
    part = f"; {of_all} of {elements:,} elements trainable" if of_all else ""
    return f"{name} ({counted(parameters, 'parameter tensor')}{part})"


def duration(seconds: float) -> str:
    """``417 ms``, ``1.8 s``, ``12 s``, ``6 m 12 s``, ``3 h 5 m``, ``2 d 4 h``."""
    if seconds < 0.9995:
        return latency(seconds)
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


def phase_label(name: str) -> str:
    """Return the label of a phase or event: ``data loading`` for ``data``; the name itself if it has no label."""
    return _PHASE_LABELS.get(name, name.replace("_", " "))


def worker_label(name: object) -> str:
    """Return what a worker is called: ``rank 0``, ``rank 0, restart 1``; other names as they are."""
    found = _WORKER.fullmatch(str(name))
    if found is None:
        return str(name)
    rank, restart = found.groups()
    return f"rank {rank}, restart {restart}" if restart else f"rank {rank}"


def worker_labels(names: Iterable[str]) -> dict[str, str]:
    """Return the label of each worker; of those that share one, as after a resume, the full names."""
    labels = {name: worker_label(name) for name in names}
    used = list(labels.values())
    return {name: label if used.count(label) == 1 else name for name, label in labels.items()}


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


def moment(time_ns: int | None) -> str:
    """A time to the second, in UTC: ``2026-11-20 17:03:12 UTC``; a dash for None."""
    return "–" if time_ns is None else datetime.fromtimestamp(time_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@overload
def iso(time_ns: int) -> str: ...
@overload
def iso(time_ns: int | None) -> str | None: ...
def iso(time_ns: int | None) -> str | None:
    """Return a time in ISO 8601 format, in UTC."""
    if time_ns is None:
        return None
    moment = datetime.fromtimestamp(time_ns / 1e9, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def first_words(text: str, most: int) -> str:
    """Return the words of a text that are within so many characters; of a longer word its beginning."""
    if len(text) <= most:
        return text
    head = text[: most + 1].rpartition(" ")[0].rstrip()
    return head if head.strip() else text[:most]


def clause(text: str, most: int = 240) -> str:
    """Return a text of at most so many characters, cut at the end of a clause if one ends in its second half."""
    if len(text) <= most:
        return text
    words = first_words(text, most)
    end = max(words.rfind(mark) for mark in (", ", "; ", ": "))
    return f"{words[:end] if end > len(words) // 2 else words} …"
