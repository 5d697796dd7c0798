"""Recording every operator call in a window by torch.profiler, each within the module whose forward pass called it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.nn.modules import module as torch_module

from leadline.frameworks.torch.hooks.dynamo import has_compiled, hide
from leadline.frameworks.torch.hooks.tracing import is_transformed
from leadline.frameworks.torch.naming.module_names import ModuleNames
from leadline.records.profile_window import ProfileWindow
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.training.guard import Guard
from leadline.training.recording import Finish, ProfileUnavailableError

_LOG_LEVEL: Final = "KINETO_LOG_LEVEL"
_SILENT: Final = "99"
_COMPILED: Final = "operators of compiled code bear no module"


class OperatorRecording:
    """See ``leadline.training.recording.Recording``.

    Global forward hooks, which exist only in the window, mark where each module's forward pass begins and ends; a
    backward operator is that of the forward one with its sequence number. Where ``torch.compile`` was used no hook is
    set: compiled code would be compiled again.
    """

    def __init__(self, window: ProfileWindow, homes: ModuleNames, guard: Guard) -> None:
        self.notes: list[str] = []
        self._homes, self._guard, self._pid = homes, guard, os.getpid()
        self._with_memory = window.with_memory or torch.cuda.is_initialized()
        self._profile: Any = None
        self._handles: list[Any] = []
        self._steps: list[dict[str, Any]] = []
        self._place = threading.local()

    def begin(self, step: int) -> None:
        if torch.autograd._profiler_enabled():
            raise ProfileUnavailableError("the script is profiling itself with torch.profiler")
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(
            activities=activities, profile_memory=self._with_memory, acc_events=False
        )
        with _without_kinetos_log():
            self._profile.start()
        if has_compiled():
            self.notes.append(_COMPILED)
        else:
            self._handles = [
                torch_module.register_module_forward_pre_hook(hide(self._make_before())),
                torch_module.register_module_forward_hook(hide(self._make_after()), always_call=True),
            ]
        self._open(step)

    def enter(self, step: int, ended: str) -> None:
        self._settle(ended)
        self._open(step)

    def mark(self, phase: str) -> None:
        self._steps[-1]["marks"].setdefault(phase, time.time_ns())

    def leave_modules(self) -> None:
        """Something is about to be compiled: see no forward pass any more."""
        if self._handles:
            self.notes.append(_COMPILED)
        self._unhook()

    def end(self, step: int, ended: str) -> Finish:
        self._unhook()
        self._settle(ended)
        profile, self._profile = self._profile, None
        if os.getpid() != self._pid:
            return lambda folder: ()  # a fork: the profiler is the parent's
        try:
            profile.stop()
        except RuntimeError as error:  # the script has stopped it
            self.notes.append(f"the profiler was stopped by somebody else: {error}")
            return lambda folder: ()
        steps = self._steps
        return lambda folder: _write(profile, steps, folder)

    def _unhook(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _open(self, step: int) -> None:
        self._steps.append({"step": step, "mode": "", "start_ns": time.time_ns(), "end_ns": 0, "marks": {}})

    def _settle(self, mode: str) -> None:
        self._steps[-1] |= {"mode": mode, "end_ns": time.time_ns()}

    # --- inside the user's forward pass -------------------------------------------------------------------

    def _make_before(self) -> Callable[..., None]:
        guard, enter = self._guard, self._enter

        def before(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if not is_transformed():
                guard.run(enter, module)

        return before

    def _make_after(self) -> Callable[..., None]:
        guard, leave = self._guard, self._leave

        def after(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
            guard.run(leave, module)

        return after

    def _enter(self, module: torch.nn.Module) -> None:
        under_way: list[tuple[int, Any]] = self._place.__dict__.setdefault("under_way", [])
        home = self._homes.home(module)
        mark = torch.autograd.profiler.record_function(layout.module_mark(home.names.get(id(module), home.root_name)))
        mark.__enter__()
        under_way.append((id(module), mark))

    def _leave(self, module: torch.nn.Module) -> None:
        """Leave the module, and all within it that an error kept from leaving."""
        under_way: list[tuple[int, Any]] = self._place.__dict__.get("under_way", [])
        if not any(entered == id(module) for entered, _ in under_way):
            return
        entered = -1
        while entered != id(module):
            entered, mark = under_way.pop()
            mark.__exit__(None, None, None)


@contextmanager
def _without_kinetos_log() -> Iterator[None]:
    """The library tells standard error that it was started, unless its level says otherwise when it first starts."""
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = _SILENT
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL]


def _write(profile: Any, steps: list[dict[str, Any]], folder: str) -> Sequence[str]:
    """Write the trace as torch.profiler writes it, and beside it which step was when.

    Raises:
        OSError: One could not be written.
    """
    profile.export_chrome_trace(os.path.join(folder, layout.TRACE))
    os.chmod(os.path.join(folder, layout.TRACE), 0o600)
    write_document(os.path.join(folder, layout.TRACE_STEPS), {"steps": steps})
    return (layout.TRACE, layout.TRACE_STEPS)
