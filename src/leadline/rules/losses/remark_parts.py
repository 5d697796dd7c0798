"""The modules of ``closing_remarks`` with one remark on one fact."""

from __future__ import annotations

from typing import Any, Final, Protocol

from leadline.rules import TensorNeed, Window
from leadline.rules.losses import (
    clamped_indices,
    dropped_examples,
    epoch_orders,
    initial_parameters,
    random_keys,
    repeated_modules,
    scaled_clips,
    self_additions,
    unaccumulated_batches,
    unfit_states,
    unmoved_averages,
)
from leadline.rules.losses.counted_facts import FACTS


class RemarkPart(Protocol):
    """A module with one remark on a fact that is captured."""

    @property
    def NEED(self) -> TensorNeed: ...
    def note(self, known: dict[str, Any], window: Window) -> None: ...
    def remark(self, known: dict[str, Any]) -> str: ...


PARTS: Final[tuple[RemarkPart, ...]] = (
    epoch_orders,
    repeated_modules,
    self_additions,
    dropped_examples,
    random_keys,
    initial_parameters,
    clamped_indices,
    scaled_clips,
    unmoved_averages,
    unaccumulated_batches,
    unfit_states,
    *FACTS,
)
