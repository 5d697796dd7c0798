"""``leadline.Hook``: capture for any training loop, and runs that one process writes on its own."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

from leadline.config.presets import merge, preset_items
from leadline.config.run_config import RunConfig, default_budget, parse_budget
from leadline.records.manifest import Manifest
from leadline.records.names import MODES
from leadline.records.plan import CapturePlan
from leadline.records.version import __version__
from leadline.store.run_state import create_run, write_status
from leadline.training.session import api
from leadline.training.session.session import Session

if TYPE_CHECKING:
    from leadline.frameworks.generic.adapter import GenericAdapter


class StandaloneRun:
    """A run that only this process knows: without agent and judge.

    Args:
        out, name, preset, capture, budget: See ``Hook``.
    Raises:
        ConfigurationError: An option is invalid.
        RunExistsError: There is a run already.

    Attributes:
        run: The run directory.
    """

    def __init__(
        self,
        *,
        out: str,
        name: str | None,
        preset: str | None,
        capture: Sequence[str],
        budget: str | None = None,
    ) -> None:
        self.name = name or f"{script_name()}-{time.strftime('%m%d-%H%M%S')}-{os.getpid()}"
        self.run = os.path.abspath(os.path.join(out, self.name))
        self.session: Session | None = None
        config = RunConfig.from_options(out=os.path.abspath(out), preset=preset, budget=budget, capture=capture)
        share = parse_budget(budget or default_budget(preset), "budget")
        plan = merge(preset_items(preset), config.capture, (), root=out, budget=share)
        if api.is_disabled():
            return
        settings = config.to_table() if preset else None
        manifest = replace(manifest_of(self.run, plan), preset=preset or "none", settings=settings)
        create_run(self.run, manifest, status="InProgress")
        self.session = api.start(self.run)

    def close(self) -> bool:
        """Stop capturing; return whether everything captured is on disk."""
        if self.session is None:
            return True
        session, self.session = self.session, None
        is_complete = session.close()
        api.forget(session)
        now = time.time_ns()
        write_status(self.run, "Completed", now, ended_ns=now)
        return is_complete

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def manifest_of(run: str, plan: CapturePlan) -> Manifest:
    """Return the manifest of a run that this process writes without an agent.

    Args:
        run: The run directory.
    """
    return Manifest(
        name=os.path.basename(run),
        uri=run,
        command=tuple(sys.argv[:1]),
        started_ns=time.time_ns(),
        leadline=__version__,
        preset="none",
        folder=os.getcwd(),
        plan=plan,
    )


def script_name() -> str:
    """Return the file name of the script without its extension."""
    return os.path.splitext(os.path.basename(sys.argv[0] or "python"))[0] or "python"


class Hook:
    """Capture for a training loop without an adapter: numpy, scikit-learn's ``partial_fit``, or any other.

    Under ``leadline run``, after ``leadline.watch()`` or if ``LEADLINE_RUN`` names a run, the hook joins that run,
    which is judged live and can be stopped; the capture options are then those of that run. Otherwise it writes a run
    of its own: ``leadline.open_run(hook.run)`` reads it, ``leadline judge`` judges it. With ``LEADLINE_DISABLED=1``
    nothing happens.

    Beside a framework with an adapter, arrays and numbers belong to the steps of that framework; ``step`` is then not
    needed.

    Args:
        out: The runs directory.
        name: The name of the run; default: the script's name with the time.
        preset: ``light``, ``standard``, ``full``, ``sagemaker``, or None to capture only what ``capture`` names.
        capture: Further capture options, as for ``--capture``: ``"gradients:every=10,raw=true"``.
        budget: The share of the step time that the preset may take, or ``off``; default ``2%``, with ``light`` ``1%``.
    Raises:
        ConfigurationError: An option is invalid.
        RunExistsError: There is a run already.

    Attributes:
        run: The run directory; None if nothing is captured.
    """

    def __init__(
        self,
        *,
        out: str = "leadline-runs",
        name: str | None = None,
        preset: str | None = "standard",
        capture: Sequence[str] = (),
        budget: str | None = None,
    ) -> None:
        global _standalone
        self.run: str | None = None
        self._mode = "train"
        self._standalone: StandaloneRun | None = None
        session = api.current()
        is_of_hook = _standalone is not None and _standalone.session is session
        if session is None and os.environ.get("LEADLINE_RUN") and not api.is_disabled():
            session = api.join()
        elif session is None or is_of_hook:
            if _standalone is not None:
                _standalone.close()
            standalone = StandaloneRun(out=out, name=name, preset=preset, capture=capture, budget=budget)
            _standalone = self._standalone = standalone
            session = standalone.session
            atexit.register(standalone.close)
        self.run = session.run if session is not None else None
        self._adapter()

    def save_tensor(
        self, name: str, array: Any, collections: str | Sequence[str] = ("default",), mode: str | None = None
    ) -> None:
        """Capture an array of the current step, if that is scheduled; it is read at once.

        Args:
            array: Numbers of any shape: a numpy array, anything that ``numpy.asarray`` accepts, or a PyTorch tensor.
            collections: The collections that select it for capture: ``weights``, ``gradients``, ``inputs`` …
            mode: ``train``, ``eval`` or ``predict``; None for the mode of the hook.
        Raises:
            LeadlineError: There is no such mode.
        """
        members = (collections,) if isinstance(collections, str) else tuple(collections)
        if mode is not None and mode != self._mode:
            with self.mode(mode):
                self._call("save", name, array, members, mode)
        else:
            self._call("save", name, array, members, self._mode)

    def log(self, **scalars: Any) -> None:
        """Record numbers of the current step; names with the word loss are losses, others scalars."""
        self._call("log", scalars, self._mode)

    def mode(self, name: str) -> HookMode:
        """Set the mode of the following steps; in a ``with`` block, of the steps inside it.

        Args:
            name: ``train``, ``eval`` or ``predict``.
        Raises:
            LeadlineError: There is no such mode.
        """
        return HookMode(self, name)

    def step(self) -> None:
        """End the current step.

        Raises:
            TrainingStopped: A rule or a user requested a stop.
        """
        self._call("step", self._mode)

    @property
    def own_seconds(self) -> float:
        """The overhead in the training's thread so far."""
        session = api.current()
        return session.recorder.cost.own_ns / 1e9 if session is not None else 0.0

    def close(self) -> bool:
        """Stop capturing into a run of its own; return whether everything captured is on disk."""
        return self._standalone.close() if self._standalone is not None else True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _adapter(self) -> GenericAdapter | None:
        """Return the adapter of the current session, which in a forked child is another one."""
        session = api.current()
        if session is None:
            return None
        from leadline.frameworks.generic.adapter import NAME, GenericAdapter, Loop

        adapter = session.find(NAME)
        if adapter is None:
            session.add(GenericAdapter(Loop(script_name()), session.context.note))
            adapter = session.find(NAME)
        return cast("GenericAdapter | None", adapter)

    def _call(self, method: str, *args: Any) -> None:
        adapter, session = self._adapter(), api.current()
        if adapter is not None and session is not None:
            session.guard.run(getattr(adapter, method), *args)


class HookMode:
    """The mode of a hook until the end of a ``with`` block; see ``Hook.mode``."""

    def __init__(self, hook: Hook, name: str) -> None:
        api.mode(name)  # raises for an unknown mode
        self._hook, self._previous = hook, hook._mode
        hook._mode = name

    def __enter__(self) -> HookMode:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._previous in MODES
        api.restore_mode(self._previous)
        self._hook._mode = self._previous


_standalone: StandaloneRun | None = None
"""The run of the latest hook that joined none."""
