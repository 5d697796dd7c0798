"""Numbers that a script passes to a hook, in whatever type."""

from __future__ import annotations

from typing import Any

import numpy as np

from leadline.compat.smdebug.exceptions import SMDebugTypeError


def number_of(name: str, value: Any) -> float:
    """Return an array of one number as that number.

    Args:
        name: What it is called in the error.
    Raises:
        SMDebugTypeError: It is not one number.
    """
    number = as_number(value)
    if number is None:
        raise SMDebugTypeError(f"scalar {name}: one number is expected, not {type(value).__name__} {np.shape(value)}")
    return number


def as_number(value: Any) -> float | None:
    """Return an array of one number as that number; None if it is something else."""
    try:
        values = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (TypeError, ValueError):  # such as lists of unequal lengths
        return None
    return float(values.reshape(-1)[0]) if values.size == 1 and values.dtype.kind in "biuf" else None
