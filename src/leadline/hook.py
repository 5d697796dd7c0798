"""``leadline.Hook``: capture for any training loop; and runs that a process writes all by itself."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from leadline.config.budget import DEFAULT_BUDGET, parse_budget
from leadline.config.options import parse_capture
from leadline.config.presets import merge, preset_items
from leadline.records.manifest import Manifest
from leadline.records.names import MODES
from leadline.records.version import __version__
from leadline.store.creation import create_run, write_status
from leadline.training.session import session

if TYPE_CHECKING:
    from leadline.frameworks.generic.adapter import GenericAdapter


class StandaloneRun:
    """A run of which nobody knows but this process: no agent, no judge.

    Args:
        out, name, preset, capture, budget: As of ``Hook``.
    Raises:
        ConfigurationError: A wish is wrong.
        RunExistsError: A run stands there already.
    """

    def __init__(self, *, out: str, name: str | None, preset: str | None, capture: Sequence[str], budget: str) -> None:
        self.name = name or f"{script_name()}-{time.strftime('%m%d-%H%M%S')}-{os.getpid()}"
        self.run = os.path.abspath(os.path.join(out, self.name))
        """The run's folder."""
        self.session: session.Session | None = None
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
        self.session = session.start(self.run)

    def close(self) -> bool:
        """Stop capturing; whether everything that was captured is on disk."""
        if self.session is None:
            return True
        closing, self.session = self.session, None
        is_whole = closing.close()
        session.forget(closing)
        now = time.time_ns()
        write_status(self.run, "Completed", now, ended_ns=now)
        return is_whole


def script_name() -> str:
    """The script's file without its ending."""
    return os.path.splitext(os.path.basename(sys.argv[0] or "python"))[0] or "python"


class Hook:
    """Capture for a training loop that no adapter knows: numpy, scikit-learn's ``partial_fit``, anything.

    Under ``leadline run``, after ``leadline.watch()`` or where ``LEADLINE_RUN`` names a run it joins that run, which is
    judged live and can be stopped; what is captured is then what that run was told. Alone it writes an ordinary run:
    ``leadline.open_run(hook.run)`` reads it, ``leadline judge`` judges it. With ``LEADLINE_DISABLED=1`` nothing
    happens.

    Beside a framework that is watched, arrays and numbers belong to that framework's steps; ``step`` is then not
    needed.

    Args:
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
        *,
        out: str = "leadline-runs",
        name: str | None = None,
        preset: str | None = "standard",
        capture: Sequence[str] = (),
        budget: str = DEFAULT_BUDGET,
    ) -> None:
        global _alone
        self.run: str | None = None
        """The run's folder; None: nobody watches."""
        self._mode = "train"
        self._alone: StandaloneRun | None = None
        current = session.current()
        is_of_hook = _alone is not None and _alone.session is current
        if current is None and os.environ.get("LEADLINE_RUN") and not session.is_disabled():
            current = session.join({})
        elif current is None or is_of_hook:
            if _alone is not None:
                _alone.close()
            _alone = self._alone = StandaloneRun(out=out, name=name, preset=preset, capture=capture, budget=budget)
            current = self._alone.session
            atexit.register(self._alone.close)
        self.run = current.run if current is not None else None
        self._adapter()

    def save_tensor(
        self, name: str, array: Any, collections: str | Sequence[str] = ("default",), mode: str | None = None
    ) -> None:
        """Hand over an array of the step under way; it is read at once, where it is due.

        Args:
            array: Numbers of any shape: of numpy, or whatever ``numpy.asarray`` takes; a tensor of PyTorch too.
            collections: Of which it is a member: ``weights``, ``gradients``, ``inputs`` …, by which it is captured.
            mode: ``train``, ``eval`` or ``predict``; None: the hook's.
        Raises:
            LeadlineError: No mode has that name.
        """
        members = (collections,) if isinstance(collections, str) else tuple(collections)
        if mode is not None and mode != self._mode:
            with self.mode(mode):
                self._run("save", name, array, members, mode)
        else:
            self._run("save", name, array, members, self._mode)

    def log(self, **scalars: Any) -> None:
        """Keep numbers of the step under way; those with the word loss in their names are losses, others scalars."""
        self._run("log", scalars, self._mode)

    def mode(self, name: str) -> HookMode:
        """From here on the steps are of this mode; in a ``with`` block, those within.

        Args:
            name: ``train``, ``eval`` or ``predict``.
        Raises:
            LeadlineError: No mode has that name.
        """
        return HookMode(self, name)

    def step(self) -> None:
        """End the step under way.

        Raises:
            TrainingStopped: A rule, or somebody, asked to stop.
        """
        self._run("step", self._mode)

    @property
    def own_seconds(self) -> float:
        """How long Leadline's own code has run in the training's thread so far."""
        current = session.current()
        return current.recorder.cost.own_ns / 1e9 if current is not None else 0.0

    def close(self) -> bool:
        """Stop capturing into a run of its own; whether everything that was captured is on disk."""
        return self._alone.close() if self._alone is not None else True

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _adapter(self) -> GenericAdapter | None:
        """That of the session of this process, which in a forked child is another."""
        current = session.current()
        if current is None:
            return None
        from leadline.frameworks.generic.adapter import NAME, GenericAdapter, Loop

        found = current.find(NAME)
        if found is None:
            current.add(GenericAdapter(Loop(script_name()), current.recorder.note))
            found = current.find(NAME)
        return cast("GenericAdapter | None", found)

    def _run(self, deed: str, *given: Any) -> None:
        adapter, current = self._adapter(), session.current()
        if adapter is not None and current is not None:
            current.guard.run(getattr(adapter, deed), *given)


class HookMode:
    """The mode of a hook, until a ``with`` block ends; see ``Hook.mode``."""

    def __init__(self, hook: Hook, name: str) -> None:
        session.mode(name)  # refuses what is none
        self._hook, self._before = hook, hook._mode
        hook._mode = name

    def __enter__(self) -> HookMode:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._before in MODES
        session.mode(self._before)
        self._hook._mode = self._before


_alone: StandaloneRun | None = None
"""The run that the latest hook writes alone."""
