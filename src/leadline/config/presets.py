"""The presets, and the merge of presets, options and rules' needs into one capture plan."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from leadline.config.capture import default_statistics
from leadline.errors import UnknownNameError
from leadline.records.names import ACCURACY, GRADIENT_NORMS, PRESETS, TREE_COLLECTIONS, is_module_collection
from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.statistics.definitions import BASIC

_EVERY: Final = {"light": 100, "standard": 50, "full": 10}
_NORMS_EVERY: Final = {"light": 100, "standard": 10, "full": 10}
"""More often than other statistics: one number per step, and ``exploding_gradient`` needs a history."""
_ACTIVATIONS_EVERY: Final = {"standard": 500, "full": 100}
_PARAMETERS: Final = ("gradients", "weights", "biases")
_SAMPLE_STATISTICS: Final = ("min", "max", "mean", "std", "nonfinite_count")
"""For labels and predictions: all statistics may take longer than a round."""
_PER_ROUND: Final = ("feature_importance", "labels", "predictions")
_DEFAULT_EVERY: Final = 500
_ROUNDS_EVERY: Final = 5
"""For boosting rounds, as in Debugger's rules for XGBoost: rounds are fewer and longer than steps."""
_MODES: Final = ("train", "eval", "predict")
_HOST_BYTES: Final = 512 << 20
FIRST_STEPS: Final = (0, 1, 2, 3, 4, 5, 10, 20, 50, 100)
"""Steps that presets and rules capture beside their intervals: most faults show in the first hundred steps."""
_item: Final = partial(CaptureItem, source="preset")


def preset_items(name: str | None) -> tuple[CaptureItem, ...]:
    """The capture items of a preset; None: only what the script itself logs.

    Raises:
        UnknownNameError: No preset has that name.
    """
    if name is None:
        return _scalars(1, ("scalars", "metrics"))
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    if name == "sagemaker":
        return (*_scalars(_DEFAULT_EVERY, ("losses", "metrics", "scalars")), *_round_items(("losses", "metrics")))
    items = (*_scalars(1, ("losses", "metrics", "scalars")), *_accuracy(_EVERY[name]))
    usual = _front_loaded(_EVERY[name])
    items += tuple(
        _item(collection, statistics=default_statistics(collection), schedule=usual)
        for collection in (*_PARAMETERS, "hyperparameters")
    )
    items += (_item(GRADIENT_NORMS, statistics=("value",), schedule=_front_loaded(_NORMS_EVERY[name])),)
    if name in _ACTIVATIONS_EVERY:
        items += (_item("layers", statistics=BASIC, schedule=_front_loaded(_ACTIVATIONS_EVERY[name])),)
    if name == "full":
        rarely = Schedule(every=_DEFAULT_EVERY)
        items += tuple(_item(collection, raw=True, schedule=rarely) for collection in _PARAMETERS)
    items += (_item("default", statistics=BASIC, schedule=usual, family="arrays"),)
    return (*items, *_round_items())


def _round_items(scalars: Sequence[str] = ()) -> tuple[CaptureItem, ...]:
    """The capture items of boosters; their metrics are captured like all others.

    Args:
        scalars: Collections of scalars that are captured more often for boosters.
    """
    return tuple(
        _item(
            collection,
            statistics=_SAMPLE_STATISTICS
            if collection in ("labels", "predictions")
            else default_statistics(collection),
            schedule=_front_loaded(_ROUNDS_EVERY),
            family="trees",
        )
        for collection in (*scalars, *_PER_ROUND)
    )


def _front_loaded(every: int) -> Schedule:
    return Schedule(every=every, steps=FIRST_STEPS if every > 1 else ())


def _scalars(every: int, collections: Sequence[str]) -> tuple[CaptureItem, ...]:
    schedule = Schedule(every=every)
    return tuple(
        _item(collection, statistics=("value",), schedule=schedule, modes=_MODES) for collection in collections
    )


def _accuracy(every: int) -> tuple[CaptureItem, ...]:
    """Accuracy derived from loss calls: as often as statistics in training, at every step of an evaluation."""
    intervals = {("train",): every, _MODES[1:]: 1}
    return tuple(
        _item("metrics", ACCURACY, ("value",), schedule=_front_loaded(interval), modes=modes)
        for modes, interval in intervals.items()
    )


def merge(
    preset: Sequence[CaptureItem],
    options: Sequence[CaptureItem],
    rules: Sequence[CaptureItem],
    *,
    root: str,
    budget: float | None = None,
) -> CapturePlan:
    """Merge all capture items into one plan.

    An item of a rule without a schedule inherits the schedules of the preset and the options for its collection.

    Args:
        root: The runs directory; see ``with_limits``.
        budget: The maximum share of the step time; None: no limit.
    """
    base = [*preset, *options]
    resolved = [item for needed in rules for item in _inherit(needed, base)]
    return with_limits(CapturePlan(items=(*base, *resolved), budget=budget), root)


def with_limits(plan: CapturePlan, root: str) -> CapturePlan:
    """Return a plan with the limits of memory and disk that follow from this machine.

    Args:
        root: The runs directory; the run may use a tenth of the free space there.
    """
    return replace(plan, host_bytes=_host_bytes(), disk_bytes=_free_bytes(root) // 10)


def _inherit(needed: CaptureItem, base: Iterable[CaptureItem]) -> list[CaptureItem]:
    if needed.schedule != Schedule():
        return [needed]
    inherited = [
        replace(
            needed,
            collection=_narrower(needed, item),
            regex=needed.regex or item.regex,
            schedule=item.schedule,
            modes=tuple(mode for mode in needed.modes if mode in item.modes),
            family=item.family,
        )
        for item in base
        if _overlap(needed, item)
    ]
    if needed.collection in TREE_COLLECTIONS:
        return inherited or [replace(needed, schedule=_front_loaded(_ROUNDS_EVERY))]
    if not any(item.family is None for item in inherited):
        inherited.append(replace(needed, schedule=_front_loaded(_DEFAULT_EVERY)))
    return inherited


def _overlap(needed: CaptureItem, item: CaptureItem) -> bool:
    if item.raw and not item.statistics and not needed.raw:
        return False
    if not set(needed.modes) & set(item.modes):
        return False  # a schedule that is cheap in evaluation is not cheap in training
    if item.collection == "layers" and needed.collection is not None and is_module_collection(needed.collection):
        return True  # layers contain the inputs and outputs of all modules
    return needed.collection in (None, "all") or item.collection in ("all", needed.collection)


def _narrower(needed: CaptureItem, item: CaptureItem) -> str | None:
    return item.collection if needed.collection in (None, "all") else needed.collection


def _host_bytes() -> int:
    try:
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return _HOST_BYTES
    return max(64 << 20, min(_HOST_BYTES, available // 8))


def _free_bytes(folder: str) -> int:
    """The free space on the disk of a folder, or of its nearest existing parent."""
    folder = os.path.abspath(folder)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
