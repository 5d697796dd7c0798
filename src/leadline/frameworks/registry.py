"""The frameworks that have an adapter."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from leadline.frameworks.adapter import Adapter

FRAMEWORKS: Final = {
    "torch": "leadline.frameworks.torch.adapter:TorchAdapter",
    "xgboost": "leadline.frameworks.xgboost.adapter:XGBoostAdapter",
    "lightgbm": "leadline.frameworks.lightgbm.adapter:LightGBMAdapter",
}
"""Adapter classes by module name; ``training/bootstrap/site/sitecustomize.py`` waits for the same names."""


def make_adapter(framework: str, note: Callable[[str], None]) -> Adapter:
    """Return the adapter of an imported framework.

    Args:
        note: Takes a line about something that cannot be captured.
    Raises:
        AttributeError, ImportError: The adapter does not support this version of the framework.
    """
    module, _, name = FRAMEWORKS[framework].partition(":")
    return cast(Adapter, getattr(import_module(module), name)(note))
