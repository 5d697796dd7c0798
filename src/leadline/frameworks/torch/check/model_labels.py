"""Names that tell the models of a step apart: those of the script's variables, else those of their classes."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Final

import torch

_NOT_OF_SCRIPT: Final = (
    __file__.removesuffix(os.path.join("frameworks", "torch", "check", "model_labels.py")),
    *(f"{os.sep}{packages}{os.sep}" for packages in ("site-packages", "dist-packages")),
)
"""Parts of the paths of code that is none of the script's."""


def inner(function: Any) -> Any:
    """Return the model in a wrapper that communicates with other ranks."""
    parallel = getattr(torch.nn.parallel, "DistributedDataParallel", ())
    return function.module if isinstance(function, parallel) else function


def joined(path: str, name: str) -> str:
    """Return the name of a part of a module, either of which may be empty."""
    return f"{path}.{name}" if path and name else path or name


def model_labels(models: Sequence[torch.nn.Module]) -> dict[torch.nn.Module, str]:
    """Return what the names of each model's parts begin with: nothing where there is one model.

    That is the variable, or the attribute of an object, that has the model where the script has called the optimizer;
    of a model in none of them the class, with ``_1`` after it if there was another one of that class.
    """
    if len(models) == 1:
        return {models[0]: ""}
    variables: dict[int, str] = {}
    for name, value in _variables():
        variables.setdefault(id(value), name)
    counts: Counter[str] = Counter()
    labels = {}
    for model in models:
        kind = variables.get(id(model), type(model).__name__)
        labels[model] = f"{kind}_{counts[kind]}" if counts[kind] else kind
        counts[kind] += 1
    return labels


def _variables() -> Iterator[tuple[str, torch.nn.Module]]:
    """Iterate over the models in variables of the script's functions that run, the innermost first."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if not any(folder in frame.f_code.co_filename for folder in _NOT_OF_SCRIPT):
            attributes = getattr(frame.f_locals.get("self"), "__dict__", {})
            for values in (frame.f_locals, attributes, attributes.get("_modules") or {}, frame.f_globals):
                models = (item for item in values.items() if isinstance(item[1], torch.nn.Module))
                yield from ((name, inner(model)) for name, model in models)
        frame = frame.f_back
