"""Explicit capture for PyTorch: ``leadline.torch.Hook``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.hook import StandaloneRun
from leadline.training.session import api


class Hook(StandaloneRun):
    """Capture in this process from now on: no agent, no judge, no other process.

    The run is an ordinary one: ``leadline.open_run(hook.run)`` reads it, ``leadline judge`` judges it. Only one hook
    captures in a process at a time; a new one closes the previous one. With ``LEADLINE_DISABLED=1`` it does nothing.

    Args:
        model: The model that is trained; models are found through their optimizers anyway, at the price of a walk over
            all objects (0.1 s) if they were built before.
        out, name, preset, capture, budget: As for ``leadline.Hook``.
    Raises:
        ConfigurationError: An option is invalid.
        RunExistsError: There is a run already.
    """

    def __init__(
        self,
        model: object = None,
        *,
        out: str = "leadline-runs",
        name: str | None = None,
        preset: str | None = "standard",
        capture: Sequence[str] = (),
        budget: str | None = None,
    ) -> None:
        import torch  # noqa: F401 - the framework that this hook captures

        super().__init__(out=out, name=name, preset=preset, capture=capture, budget=budget)
        if model is not None and self.session is not None:
            self.session.register(model)

    @property
    def own_seconds(self) -> float:
        """The overhead in the training's thread so far."""
        return self.session.recorder.cost.own_ns / 1e9 if self.session is not None else 0.0

    def log(self, **named: Any) -> None:
        """Record scalars of the current step."""
        api.log(named)
