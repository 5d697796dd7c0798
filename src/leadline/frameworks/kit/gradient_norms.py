"""The norm of all gradients of an optimizer: when it is captured, and how it is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leadline.frameworks.kit.named_tensor import may_select
from leadline.records.names import GRADIENT_NORMS
from leadline.records.plan import CaptureItem, custom_collections
from leadline.records.series import TensorInfo

NORM: Final = "gradient_norm"
"""Its name; those of further optimizers have a prefix."""
_MEMBERS: Final = frozenset({GRADIENT_NORMS})


def wants_norm(items: Sequence[CaptureItem], prefix: str | None) -> bool:
    """Return whether the norm of all gradients is captured.

    It is if an item selects it (``all`` does so only if the user requested it), or if it is free because the l2 of
    every gradient is captured.

    Args:
        prefix: The beginning of its name; None: any, because the optimizer is not known yet.
    """
    return any(_selects_norm(item, prefix) or _has_every_l2(item) for item in items)


def _selects_norm(item: CaptureItem, prefix: str | None) -> bool:
    if "value" not in item.statistics or not may_select([item], GRADIENT_NORMS):
        return False
    return prefix is None or item.selects(prefix + NORM, _MEMBERS)


def _has_every_l2(item: CaptureItem) -> bool:
    return item.collection == "gradients" and item.regex is None and "l2" in item.statistics


def norm_info(name: str, items: Sequence[CaptureItem]) -> TensorInfo:
    """Return how a norm is recorded for some items."""
    return TensorInfo(name, (GRADIENT_NORMS, *custom_collections(items, name, _MEMBERS)), (), "float64")
