"""What the probes are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leadline.frameworks.torch.check.batch import Batch
from leadline.frameworks.torch.check.step_copy import StepCopy


@dataclass(slots=True)
class CheckedStep:
    """What probes test."""

    step: StepCopy
    batch: Batch
    learned: list[Any] | None = None
    """The weights with which the copy has learned its batch, if a probe has found some."""
