"""Names that tell the models of a step apart: those of the script's variables, else those of their classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from leadline.frameworks.torch.check.script_variables import script_namespaces


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
    for namespace in script_namespaces():
        for name, value in namespace.items():
            if isinstance(value, torch.nn.Module):
                variables.setdefault(id(inner(value)), name)
    counts: Counter[str] = Counter()
    labels = {}
    for model in models:
        kind = variables.get(id(model), type(model).__name__)
        labels[model] = f"{kind}_{counts[kind]}" if counts[kind] else kind
        counts[kind] += 1
    return labels
