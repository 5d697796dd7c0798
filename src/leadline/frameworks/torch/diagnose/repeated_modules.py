"""Containers that hold one module several times, so that what looks like several layers has one set of weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import torch
from torch import nn

from leadline.frameworks.torch.naming.model_names import unwrap
from leadline.records.names import REPEATED_MODULE


def repeated_modules(roots: Mapping[nn.Module, str]) -> dict[str, float]:
    """Return how often each container holds the module that it holds most often, where that has weights.

    Args:
        roots: The outermost modules of a model, with the prefixes of their names.
    """
    found = {}
    for root, prefix in roots.items():
        for path, container in unwrap(root).named_modules():
            if not isinstance(container, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
                continue
            times = max(map(_times, Counter(container._modules.values()).items()), default=0)
            if times > 1:
                found[f"{prefix}{path or type(container).__name__}/{REPEATED_MODULE}"] = float(times)
    return found


def _times(counted: tuple[torch.nn.Module | None, int]) -> int:
    module, times = counted
    has_weights = module is not None and next(module.parameters(), None) is not None
    return times if has_weights else 0
