"""The check of frameworks whose steps compute new gradients, in place of adding to those of the step before."""

from __future__ import annotations

from typing import Final

FRESH_GRADIENTS: Final = {"gradients/steps_without_zero_grad": 0.0}
"""No gradients are left from the step before; see the rule ``missing_zero_grad``."""
