"""Gradients that are clipped by their norm before a gradient scaler has divided them by its scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.capture.device_copy import number_of, scale_of
from leadline.frameworks.torch.hooks.clipping import Clipping
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.frameworks.torch.naming.model_names import parameters_of
from leadline.records.names import SCALED_CLIP


class ScaledClips:
    """Notes a clip between an update of a scaler and the division by its scale, in ``unscale_`` or ``step``.

    Clips are followed once a scaler has been used. Fused optimizers, which divide by themselves, are not seen.
    """

    def __init__(self, guard: HookGuard, clipping: Clipping, wants_checks: Callable[[], bool]) -> None:
        """
        Args:
            wants_checks: Returns whether checks of the current step are captured.
        """
        self._guard, self._clipping, self._wants_checks = guard, clipping, wants_checks
        self._patches = Patches()
        self._clip: tuple[Any, Any, Any] | None = None
        """The parameters, the limit and the norm of the latest clip since the scaler was updated."""
        self._found: dict[str, Any] = {}

    def install(self) -> None:
        """Replace what divides by the scale, and what ends a step."""
        self._patches.replace(torch.amp.GradScaler, "unscale_", self._make_unscale)
        self._patches.replace(torch.amp.GradScaler, "update", self._make_update)

    def uninstall(self) -> None:
        """Restore them."""
        self._patches.restore()
        self._clipping.on_clip = self._clip = None

    def results(self) -> dict[str, Any]:
        """Return the checks of the current step; empty: nothing was clipped while it was scaled."""
        found, self._found = self._found, {}
        return found

    # The functions below run inside the user's training.

    def _make_unscale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._note

        def unscale_(scaler: Any, optimizer: Any) -> Any:
            if self._clip is not None:
                guard.run(note, scaler, optimizer)
            return original(scaler, optimizer)

        return hide_from_dynamo(unscale_)

    def _make_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        clipping, on_clip = self._clipping, self._on_clip

        def update(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            clipping.on_clip, self._clip = on_clip if scaler.is_enabled() else None, None
            return original(scaler, *args, **kwargs)

        return hide_from_dynamo(update)

    def _on_clip(self, parameters: Any, limit: Any, norm: Any) -> None:
        self._clip = parameters, limit, norm

    def _note(self, scaler: Any, optimizer: Any) -> None:
        if self._clip is None or not scaler.is_enabled() or not self._wants_checks():
            return
        parameters, limit, norm = self._clip
        first = parameters if isinstance(parameters, torch.Tensor) else next(iter(parameters), None)
        is_own = any(parameter is first for parameter in parameters_of(optimizer))
        if not is_own or not isinstance(limit, (int, float)) or type(norm) is not torch.Tensor:
            return
        size = number_of(norm)
        if size is not None:
            numbers = (float(limit), size, scale_of(scaler))
            self._found = {f"GradScaler/{check}": value for check, value in zip(SCALED_CLIP, numbers, strict=True)}
