"""Hyperparameters of a booster as LightGBM has resolved them."""

from __future__ import annotations

import re
import weakref
from typing import Any, Final

_LINE: Final = re.compile(r"^\[(\w+): (.*)\]$", re.MULTILINE)
_FILE_PARAMETERS: Final = frozenset(
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
"""Parameters that name files, which are no hyperparameters."""
_CACHE: Final[weakref.WeakKeyDictionary[Any, tuple[str, dict[str, float | str]]]] = weakref.WeakKeyDictionary()
"""For each booster the parameters as the script gave them, and the hyperparameters that LightGBM resolved."""


def settings_of(owner: Any) -> dict[str, float | str]:
    """Return the hyperparameters, numbers as floats; with several folds those of the first.

    LightGBM only reports them as part of the whole model, so they are read again only when the script changes them.
    """
    folds = vars(owner).get("boosters")
    booster = folds[0] if folds else owner
    given, cached = repr(booster.params), _CACHE.get(booster)
    if cached is None or cached[0] != given:
        cached = _CACHE[booster] = (given, _read(booster))
    return dict(cached[1])


def _read(booster: Any) -> dict[str, float | str]:
    model_text = booster.model_to_string(num_iteration=1)
    _, _, parameters = model_text.partition("\nparameters:\n")
    settings: dict[str, float | str] = {
        name: _number(value) for name, value in _LINE.findall(parameters) if name not in _FILE_PARAMETERS
    }
    settings["booster"] = settings.get("boosting", "gbdt")
    settings["eval_metric"] = settings.get("metric", "")
    return settings


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
