"""Explicit capture for PyTorch: ``leadline.torch.Hook``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from leadline import session
from leadline.config.budget import DEFAULT_BUDGET, parse_budget
from leadline.config.options import parse_capture
from leadline.config.presets import merge, preset_items
from leadline.records.manifest import Manifest
from leadline.records.version import __version__
from leadline.store.creation import create_run, write_status


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
        script = os.path.splitext(os.path.basename(sys.argv[0] or "python"))[0] or "python"
        self.name = name or f"{script}-{time.strftime('%m%d-%H%M%S')}-{os.getpid()}"
        self.run = os.path.abspath(os.path.join(out, self.name))
        """The run's folder."""
        self._session: session.Session | None = None
        items = tuple(parse_capture(each) for each in capture)
        share = parse_budget(budget, "budget")
        plan = replace(merge(preset_items(preset), items, (), root=out), budget=share)
        if session.is_disabled():
            return
        manifest = Manifest(
            name=self.name,
            uri=self.run,
            command=tuple(sys.argv[:1]),
            started_ns=time.time_ns(),
            leadline=__version__,
            preset=preset or "none",
            folder=os.getcwd(),
            plan=plan,
        )
        create_run(self.run, manifest, status="InProgress")
        self._session = session.start(self.run)
        if model is not None and self._session is not None:
            self._session.register(model)

    @property
    def own_seconds(self) -> float:
        """How long Leadline's own code has run in the training's thread so far."""
        return self._session.recorder.cost.own_ns / 1e9 if self._session is not None else 0.0

    def log(self, **named: Any) -> None:
        """Keep scalars for the step under way."""
        session.log(named)

    def close(self) -> bool:
        """Stop capturing; whether everything that was captured is on disk."""
        if self._session is None:
            return True
        closing, self._session = self._session, None
        is_whole = closing.close()
        session.forget(closing)
        now = time.time_ns()
        write_status(self.run, "Completed", now, ended_ns=now)
        return is_whole

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
