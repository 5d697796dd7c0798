"""The capture plan of a hook: which tensors its collections select, when and how."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from leadline.compat.smdebug.core.collection import Collection, check_pattern
from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.save_config import SaveConfig
from leadline.compat.smdebug.exceptions import InvalidCollectionConfiguration, SMDebugValueError
from leadline.records.names import SCALAR_COLLECTIONS
from leadline.records.plan import CaptureItem, Schedule

SCALAR_PREFIX: Final = "scalar/"
_MODES: Final = ("train", "eval", "predict")
_SOURCE: Final = "option"
_TRAIN: Final = ("train",)


@dataclass(frozen=True, slots=True)
class TensorSelection:
    """Some tensors of a collection: those of one of Leadline's collections whose names contain a match."""

    collection: str
    regex: str | None = None
    modes: tuple[str, ...] = _MODES


@dataclass(frozen=True, slots=True)
class Naming:
    """How a framework's tensors are found by smdebug's collections."""

    defaults: Mapping[str, Sequence[str]]
    """The regular expressions of the collections that it has."""
    native: Mapping[str, tuple[TensorSelection, ...]]
    """What such a collection selects as it is."""
    searched: tuple[TensorSelection, ...]
    """Where regular expressions are searched for."""


def array_naming(losses: str, gradients: str | None = None) -> Naming:
    """Return the naming of a framework whose layers are objects with parameters.

    Args:
        losses: The regular expression of the collection of losses.
        gradients: The regular expression of the gradients of parameters among all gradients; None: all are.
    """
    weights, biases = TensorSelection("weights", None, _TRAIN), TensorSelection("biases", None, _TRAIN)
    of_parameters, layers = TensorSelection("gradients", gradients, _TRAIN), TensorSelection("layers")
    return Naming(
        defaults={
            "all": (".*",),
            "default": (),
            "weights": ("^(?!gradient).*weight",),
            "biases": ("^(?!gradient).*bias",),
            "gradients": ("^gradient",),
            "losses": (losses,),
        },
        native={
            "weights": (TensorSelection("weights", "weight", _TRAIN),),
            "biases": (TensorSelection("biases", "bias", _TRAIN),),
            "gradients": (of_parameters,),
            "losses": (TensorSelection("losses"),),
            "all": (weights, biases, of_parameters, TensorSelection("losses"), layers),
        },
        searched=(weights, biases, of_parameters, layers),
    )


@dataclass(frozen=True, slots=True)
class HookDefaults:
    """What collections without settings of their own are saved with."""

    save_config: SaveConfig
    reduction_config: ReductionConfig


def capture_items(
    included: Iterable[Collection], every: Iterable[Collection], naming: Naming, defaults: HookDefaults
) -> tuple[CaptureItem, ...]:
    """Return the capture items of a hook.

    Args:
        included: The collections that it saves.
        every: All of its collections: those to which the script passes tensors itself.
    Raises:
        InvalidCollectionConfiguration: A collection that is saved selects nothing.
        SMDebugValueError: A regular expression is invalid.
    """
    items = [_number_item("scalars", f"^{SCALAR_PREFIX}")]
    for collection in included:
        found = [*naming.native.get(collection.name, ()), *_searched(collection, naming)]
        if not found and collection.name not in naming.defaults:
            raise InvalidCollectionConfiguration(collection.name)
        for selection in found:
            items += _items(collection, selection, defaults)
    for collection in every:
        items += passed_items(collection, defaults, collection.name)
    return tuple(dict.fromkeys(items))


def number_item(collection: str, names: Iterable[str]) -> CaptureItem:
    """Return what captures the numbers that the script passes as members of a collection of numbers."""
    return _number_item(collection, f"^(?:{'|'.join(map(re.escape, sorted(names)))})$")


def _number_item(collection: str, regex: str) -> CaptureItem:
    return CaptureItem(collection, regex, ("value",), schedule=Schedule(every=1), modes=_MODES, source=_SOURCE)


def passed_items(collection: Collection, defaults: HookDefaults, name: str) -> list[CaptureItem]:
    """Return what captures the arrays that the script passes, as those of a collection.

    Args:
        name: The collection that the arrays are passed with; another than its own makes them members of both.
    """
    return _items(collection, TensorSelection(name), defaults, is_passed=True)


def _searched(collection: Collection, naming: Naming) -> list[TensorSelection]:
    """Return what the regular expressions select that the framework's own collection does not have."""
    usual = naming.defaults.get(collection.name, ())
    patterns = [pattern for pattern in collection.patterns() if pattern not in usual]
    if not patterns:
        return []
    for pattern in patterns:
        try:
            check_pattern(pattern)
        except SMDebugValueError as error:
            raise SMDebugValueError(f"collection {collection.name}: {error}") from None
    regex = patterns[0] if len(patterns) == 1 else "|".join(f"(?:{pattern})" for pattern in patterns)
    return [TensorSelection(place.collection, regex, place.modes) for place in naming.searched]


def _items(
    collection: Collection, selection: TensorSelection, defaults: HookDefaults, *, is_passed: bool = False
) -> list[CaptureItem]:
    """Return an item for each group of modes that are saved at the same steps."""
    given = collection.save_config
    save_config = defaults.save_config if given is None else SaveConfig.parse(given)
    reductions = collection.reduction_config
    config = defaults.reduction_config if reductions is None else ReductionConfig.parse(reductions)
    is_number = selection.collection in SCALAR_COLLECTIONS and not is_passed
    groups: dict[Schedule, list[str]] = {}
    for mode in selection.modes:
        steps = save_config.of_train_steps() if mode == "train" else save_config.get_save_config(ModeKeys[mode.upper()])
        groups.setdefault(steps.schedule(), []).append(mode)
    return [
        CaptureItem(
            selection.collection,
            selection.regex,
            ("value",) if is_number else config.statistics,
            raw=config.is_raw and not is_number,
            schedule=schedule,
            modes=tuple(modes),
            source=_SOURCE,
            custom=collection.name if collection.name != selection.collection else None,
            family="arrays" if is_passed else None,
        )
        for schedule, modes in groups.items()
    ]
