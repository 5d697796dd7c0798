"""Explicit capture for PyTorch: ``leadline.torch.Hook``."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from leadline.config.budget import DEFAULT_BUDGET
from leadline.hook import StandaloneRun
from leadline.training.session import session


class Hook:
    """Capture in this process, from here on: no agent, no judge, no other process.

    The run it writes is an ordinary one: ``leadline.open_run(hook.run)`` reads it, ``leadline judge`` judges it.
    Only one hook captures in a process at a time; a new one closes the one before. With ``LEADLINE_DISABLED=1`` it does
    nothing.

    Args:
        model: The model that is trained; models are found by their optimizers anyway, at the price of a walk over
            all objects (0.1 s) where they were built before.
        out: The folder below which runs stand.
        name: The run's name; default: the script's, with the time.
        preset: ``light``, ``standard``, ``full``, ``sagemaker``, or None for what ``capture`` names alone.
        capture: What else is captured, in the words of ``--capture``: ``"gradients:every=10,raw=true"``.
        budget: The share of the step time that what the preset asks may take, ``2%``, or ``off``.
    Raises:
        ConfigurationError: A wish is wrong.
        RunExistsError: A run stands there already.
    """

    def __init__(
        self,
        model: object = None,
        *,
        out: str = "leadline-runs",
        name: str | None = None,
        preset: str | None = "standard",
        capture: Sequence[str] = (),
        budget: str = DEFAULT_BUDGET,
    ) -> None:
        import torch  # noqa: F401 - who makes this hook trains with it

        self._alone = StandaloneRun(out=out, name=name, preset=preset, capture=capture, budget=budget)
        self.name, self.run = self._alone.name, self._alone.run
        if model is not None and self._session is not None:
            self._session.register(model)

    @property
    def _session(self) -> session.Session | None:
        return self._alone.session

    @property
    def own_seconds(self) -> float:
        """How long Leadline's own code has run in the training's thread so far."""
        return self._session.recorder.cost.own_ns / 1e9 if self._session is not None else 0.0

    def log(self, **named: Any) -> None:
        """Keep scalars for the step under way."""
        session.log(named)

    def close(self) -> bool:
        """Stop capturing; whether everything that was captured is on disk."""
        return self._alone.close()

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
