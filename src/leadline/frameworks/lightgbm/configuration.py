"""A booster's hyperparameters, as LightGBM has resolved them."""

from __future__ import annotations

import re
import weakref
from typing import Any, Final

_LINE: Final = re.compile(r"^\[(\w+): (.*)\]$", re.MULTILINE)
_NO_SETTINGS: Final = frozenset(
    {
        "data",
        "valid",
        "input_model",
        "output_model",
        "output_result",
        "machines",
        "machine_list_filename",
        "config",
        "parser_config_file",
        "forcedsplits_filename",
        "forcedbins_filename",
        "convert_model",
        "convert_model_language",
        "initscore_filename",
        "valid_data_initscores",
    }
)
"""What says where files are."""
_KNOWN: Final[weakref.WeakKeyDictionary[Any, tuple[str, dict[str, float | str]]]] = weakref.WeakKeyDictionary()
"""Of a booster what the script has asked for, and what LightGBM has made of it."""


def settings_of(owner: Any) -> dict[str, float | str]:
    """The hyperparameters, numbers as such; of several folds the first's.

    LightGBM tells them only with the model around them: it is asked again when the script has asked for others.
    """
    folds = vars(owner).get("boosters")
    booster = folds[0] if folds else owner
    asked, known = repr(booster.params), _KNOWN.get(booster)
    if known is None or known[0] != asked:
        known = _KNOWN[booster] = (asked, _read(booster))
    return dict(known[1])


def _read(booster: Any) -> dict[str, float | str]:
    spoken = booster.model_to_string(num_iteration=1)
    _, _, parameters = spoken.partition("\nparameters:\n")
    found: dict[str, float | str] = {
        name: _number(value) for name, value in _LINE.findall(parameters) if name not in _NO_SETTINGS
    }
    found["booster"] = found.get("boosting", "gbdt")
    found["eval_metric"] = found.get("metric", "")
    return found


def _number(spoken: str) -> float | str:
    try:
        return float(spoken)
    except ValueError:
        return spoken
