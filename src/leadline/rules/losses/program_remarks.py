"""The parts of closing_remarks that are about the programs of JAX and TensorFlow."""

from __future__ import annotations

from typing import Any, Final, Protocol

from leadline.rules import TensorNeed, Window
from leadline.rules.losses import clamped_indices, initial_parameters, random_keys


class Part(Protocol):
    """A module with one remark on a fact that is captured."""

    NEED: TensorNeed

    def note(self, known: dict[str, Any], window: Window) -> None: ...
    def remark(self, known: dict[str, Any]) -> str: ...


OF_PROGRAMS: Final[tuple[Part, ...]] = (random_keys, initial_parameters, clamped_indices)
