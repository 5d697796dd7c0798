"""The import of pandas, which only the tables of profiles need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from leadline.errors import MissingExtraError


def import_pandas() -> Any:
    """Return the module.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        return import_module("pandas")
    except ImportError:
        raise MissingExtraError("tables of profiles need pandas; install it with: pip install pandas") from None
