"""The presets, and how presets, rules and options become one capture plan."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from leadline.config.options import default_statistics
from leadline.errors import UnknownNameError
from leadline.records.names import ACCURACY, GRADIENT_NORMS, PRESETS, TREE_COLLECTIONS, is_module_collection
from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.statistics.definitions import BASIC

_EVERY: Final = {"light": 100, "standard": 50, "full": 10}
_NORMS_EVERY: Final = {"light": 100, "standard": 10, "full": 10}
"""Oftener than other statistics: one number a step, and ``exploding_gradient`` needs a past to compare with."""
_ACTIVATIONS_EVERY: Final = {"standard": 500, "full": 100}
_PARAMETERS: Final = ("gradients", "weights", "biases")
_OF_SAMPLES: Final = ("min", "max", "mean", "std", "nonfinite_count")
"""Of labels and predictions: a round may be shorter than the time that all statistics take."""
_PER_ROUND: Final = ("feature_importance", "labels", "predictions")
_DEFAULT_EVERY: Final = 500
_ROUNDS_EVERY: Final = 5
"""Of boosting rounds, as Debugger's rules for XGBoost have it: they are fewer than steps, and longer."""
_MODES: Final = ("train", "eval", "predict")
_HOST_BYTES: Final = 512 << 20


def preset_items(name: str | None) -> tuple[CaptureItem, ...]:
    """What a preset captures; None: only what the script itself logs.

    Raises:
        UnknownNameError: No preset has that name.
    """
    if name is None:
        return _scalars(1, ("scalars", "metrics"))
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    if name == "sagemaker":
        return (*_scalars(_DEFAULT_EVERY, ("losses", "metrics", "scalars")), *_of_rounds(("losses", "metrics")))
    items = (*_scalars(1, ("losses", "metrics", "scalars")), *_accuracy(_EVERY[name]))
    items += tuple(
        CaptureItem(each, statistics=default_statistics(each), schedule=Schedule(every=_EVERY[name]), source="preset")
        for each in (*_PARAMETERS, "hyperparameters")
    )
    norms = Schedule(every=_NORMS_EVERY[name])
    items += (CaptureItem(GRADIENT_NORMS, statistics=("value",), schedule=norms, source="preset"),)
    if name in _ACTIVATIONS_EVERY:
        schedule = Schedule(every=_ACTIVATIONS_EVERY[name])
        items += (CaptureItem("layers", statistics=BASIC, schedule=schedule, source="preset"),)
    if name == "full":
        items += tuple(
            CaptureItem(each, raw=True, schedule=Schedule(every=_DEFAULT_EVERY), source="preset")
            for each in _PARAMETERS
        )
    items += (
        CaptureItem(
            "default", statistics=BASIC, schedule=Schedule(every=_EVERY[name]), source="preset", family="arrays"
        ),
    )
    return (*items, *_of_rounds())


def _of_rounds(scalars: Sequence[str] = ()) -> tuple[CaptureItem, ...]:
    """What is captured of boosters; their metrics are captured as all others are.

    Args:
        scalars: Collections of numbers that are captured oftener of boosters.
    """
    return tuple(
        CaptureItem(
            each,
            statistics=_OF_SAMPLES if each in ("labels", "predictions") else default_statistics(each),
            schedule=Schedule(every=_ROUNDS_EVERY),
            source="preset",
            family="trees",
        )
        for each in (*scalars, *_PER_ROUND)
    )


def _scalars(every: int, collections: Sequence[str]) -> tuple[CaptureItem, ...]:
    schedule = Schedule(every=every)
    return tuple(
        CaptureItem(each, statistics=("value",), schedule=schedule, modes=_MODES, source="preset")
        for each in collections
    )


def _accuracy(every: int) -> tuple[CaptureItem, ...]:
    """What a loss call tells of its predictions: as often as statistics in training, always in evaluation."""
    modes = {("train",): every, _MODES[1:]: 1}
    return tuple(
        CaptureItem("metrics", ACCURACY, ("value",), schedule=Schedule(every=each), modes=mode, source="preset")
        for mode, each in modes.items()
    )


def merge(
    preset: Sequence[CaptureItem],
    options: Sequence[CaptureItem],
    rules: Sequence[CaptureItem],
    *,
    root: str,
) -> CapturePlan:
    """One plan of all wishes.

    A rule's wish without a schedule takes the schedules that the preset and the options give its collection.

    Args:
        root: The folder below which the run will stand; a tenth of what is free there bounds the run.
    """
    base = [*preset, *options]
    resolved = [item for wish in rules for item in _inherit(wish, base)]
    return CapturePlan(items=(*base, *resolved), host_bytes=_host_bytes(), disk_bytes=_free_bytes(root) // 10)


def _inherit(wish: CaptureItem, base: Iterable[CaptureItem]) -> list[CaptureItem]:
    if wish.schedule != Schedule():
        return [wish]
    found = [
        replace(
            wish,
            collection=_narrower(wish, item),
            regex=wish.regex or item.regex,
            schedule=item.schedule,
            modes=tuple(mode for mode in wish.modes if mode in item.modes),
            family=item.family,
        )
        for item in base
        if _overlap(wish, item)
    ]
    if wish.collection in TREE_COLLECTIONS:
        return found or [replace(wish, schedule=Schedule(every=_ROUNDS_EVERY))]
    if not any(each.family is None for each in found):
        found.append(replace(wish, schedule=Schedule(every=_DEFAULT_EVERY)))
    return found


def _overlap(wish: CaptureItem, item: CaptureItem) -> bool:
    if item.raw and not item.statistics and not wish.raw:
        return False
    if not set(wish.modes) & set(item.modes):
        return False  # what is cheap at every step of an evaluation is not at every step of a training
    if item.collection == "layers" and wish.collection is not None and is_module_collection(wish.collection):
        return True  # every tensor that modules take and give is a member
    return wish.collection in (None, "all") or item.collection in ("all", wish.collection)


def _narrower(wish: CaptureItem, item: CaptureItem) -> str | None:
    return item.collection if wish.collection in (None, "all") else wish.collection


def _host_bytes() -> int:
    try:
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return _HOST_BYTES
    return max(64 << 20, min(_HOST_BYTES, available // 8))


def _free_bytes(folder: str) -> int:
    """What is free on the disk of a folder, or of the nearest one above it that exists."""
    folder = os.path.abspath(folder)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
