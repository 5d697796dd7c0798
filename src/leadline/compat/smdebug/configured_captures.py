"""Collections of a request or of a rule's configuration, as capture items of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from leadline.compat.smdebug.core.json_config import CollectionSettings
from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.save_config import SaveConfig
from leadline.config.capture import TRAIN_ONLY, default_statistics
from leadline.records.names import COLLECTIONS, SCALAR_COLLECTIONS, is_module_collection
from leadline.records.plan import CaptureItem, Schedule

_MODES: Final = ("train", "eval", "predict")


def collection_items(
    entry: CollectionSettings, steps: SaveConfig, reductions: ReductionConfig | None
) -> Iterator[CaptureItem]:
    """Yield an item for each group of modes that a collection saves at the same steps.

    Nothing for a collection that Leadline does not have and that selects nothing: a script passes its tensors.

    Args:
        steps: The steps of a collection that has none of its own.
        reductions: What is saved of a collection that does not say it; None: Leadline's default statistics of it.
    """
    is_known = entry.name in COLLECTIONS or is_module_collection(entry.name)
    if not is_known and not entry.include_regex:
        return
    saved, config = entry.save_config or steps, entry.reduction_config or reductions
    is_number = entry.name in SCALAR_COLLECTIONS
    statistics = default_statistics(entry.name) if config is None or is_number else config.statistics
    groups: dict[Schedule, list[str]] = {}
    for mode in ("train",) if entry.name in TRAIN_ONLY else _MODES:
        of_mode = saved.of_train_steps() if mode == "train" else saved.get_save_config(ModeKeys[mode.upper()])
        schedule = replace(of_mode.schedule(), has_last_round=True)  # what an option can say
        if schedule.end is not None and schedule.end <= schedule.start:  # as end_step=0, which switches it off
            schedule = replace(schedule, every=None, start=0, end=None)
        if schedule.every is not None or schedule.steps:
            groups.setdefault(schedule, []).append(mode)
    for schedule, modes in groups.items():
        yield CaptureItem(
            entry.name if is_known else None,
            _regex(entry.include_regex),
            statistics,
            raw=config is not None and config.is_raw and not is_number,
            schedule=schedule,
            modes=tuple(modes),
            source="option",
            custom=None if is_known else re.sub(r"[^\w-]", "_", entry.name),
        )


def _regex(patterns: tuple[str, ...]) -> str | None:
    if len(patterns) <= 1:
        return patterns[0] if patterns else None
    return "|".join(f"(?:{pattern})" for pattern in patterns)
