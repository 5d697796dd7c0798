"""Accuracy of the classification losses called in one forward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from leadline.frameworks.torch.capture.device_copy import DeviceScalar, number_of
from leadline.frameworks.torch.naming.loss_calls import correct_and_total
from leadline.records.names import ACCURACY
from leadline.records.plan import CaptureItem


class AccuracyCounts:
    """Numbers of correct and of all predictions, by the name of the loss call."""

    def __init__(self) -> None:
        self._is_captured = False
        self._counts: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def begin(self, items: Sequence[CaptureItem]) -> None:
        """Start a pass; count only if one of its capture items selects the accuracy."""
        self._counts = {}
        self._is_captured = any(item.selects(ACCURACY, frozenset({"metrics"})) for item in items)

    def clear(self) -> None:
        """Discard the counts of the current pass."""
        self._counts = {}

    def add(self, kind: str, stem: str, values: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Count one loss call.

        Args:
            kind: The loss function, such as ``cross_entropy``.
            stem: The name of the loss call.
            values: The arguments of the call, predictions and labels first.
            options: The options of the call, such as ``ignore_index``.
        """
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if not self._is_captured or len(tensors) < 2:
            return
        with torch._C.DisableTorchFunction(), torch.no_grad():
            counts = correct_and_total(kind, tensors[0].detach(), tensors[1].detach(), options)
        if counts is not None:
            self._counts.setdefault(stem, []).append(counts)

    def take(self) -> dict[str, DeviceScalar | float]:
        """Return the share of correct predictions since the pass began, for each loss call, and clear the counts."""
        counts, self._counts = self._counts, {}
        accuracy: dict[str, DeviceScalar | float] = {}
        for pairs in counts.values():
            total = sum(number_of(samples) or 0.0 for _, samples in pairs)
            if total:
                name = f"{ACCURACY}_{len(accuracy)}" if accuracy else ACCURACY
                accuracy[name] = sum(number_of(correct) or 0.0 for correct, _ in pairs) / total
        return accuracy
