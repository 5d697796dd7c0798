"""The probes by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from leadline.frameworks.check.outcome import Tested, make_probe
from leadline.frameworks.torch.check.batch import Batch
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_copy import StepCopy
from leadline.records.check_result import CheckResult

_PLACES: Final = {
    "mixed_samples": "independence:mixed_samples",
    "look_ahead": "sequences:look_ahead",
    "padding_influence": "padding:padding_influence",
    "unused_inputs": "influence:unused_inputs",
    "loss_direction": "direction:loss_direction",
    "unlearnable_batch": "learning:unlearnable_batch",
    "update_size": "updates:update_size",
    "gradient_of_parts": "parts:gradient_of_parts",
    "mode_mismatch": "modes:mode_mismatch",
    "incomplete_state": "saved_state:incomplete_state",
    "ignored_input": "learning:ignored_input",
    "model_inputs": "model_inputs:model_inputs",
}


_LAST: Final = ("unlearnable_batch", "ignored_input")
"""The probes that take a share of the time that is left: all others are made before."""


def in_order(names: Sequence[str]) -> list[str]:
    """Return the names of probes in the order in which they are made."""
    return sorted(names, key=lambda name: name in _LAST)


class Probes:
    """Makes probes on one copy of a training."""

    def __init__(self, copy: StepCopy, step: int) -> None:
        """
        Args:
            step: The train step that was copied.
        """
        self._subject = CheckedStep(copy, Batch(copy))
        self._step = step

    def make(self, name: str) -> CheckResult:
        """Make a probe; one that raises is not applicable."""
        return make_probe(name, lambda: _function(name)(self._subject), self._step)


def _function(name: str) -> Callable[[CheckedStep], Tested]:
    module, _, function = _PLACES[name].partition(":")
    found: Any = getattr(import_module(f"leadline.frameworks.torch.check.{module}"), function)
    return found  # type: ignore[no-any-return]
