"""The frameworks that are captured: which import brings which adapter."""

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
"""By the name that a script imports; ``training/bootstrap/site/sitecustomize.py`` waits for the same names."""


def make_adapter(framework: str, tell: Callable[[str], None]) -> Adapter:
    """The adapter of a framework that is imported.

    Args:
        tell: Takes a line about something that cannot be captured.
    Raises:
        AttributeError, ImportError: This version of the framework is not as the adapter knows it.
    """
    module, _, name = FRAMEWORKS[framework].partition(":")
    return cast(Adapter, getattr(import_module(module), name)(tell))
