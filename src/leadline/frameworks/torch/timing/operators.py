"""Recording of every operator call in a profile window, each with the module whose forward pass called it."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.nn.modules import module as torch_module

from leadline.frameworks.torch.hooks.dynamo import has_compiled, hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import is_transformed
from leadline.frameworks.torch.naming.model_names import ModuleNames
from leadline.frameworks.trace_step_times import TraceStepTimes
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Finish, ProfileUnavailableError
from leadline.records.profile_window import ProfileWindow
from leadline.store import layout

_LOG_LEVEL: Final = "KINETO_LOG_LEVEL"
_SILENT: Final = "99"
_COMPILED: Final = "operators of compiled code have no module"


class OperatorRecording:
    """See ``leadline.instrumentation.recording.Recording``.

    Global forward hooks, installed only during the window, mark where each module's forward pass begins and ends; a
    backward operator belongs to the module of the forward operator with its sequence number. If ``torch.compile`` was
    used no hooks are installed: they would trigger recompilation.

    A profiler that the script starts meanwhile ends the recording before: PyTorch has one session, and two crash it.
    """

    def __init__(self, window: ProfileWindow, module_names: ModuleNames, guard: Guard) -> None:
        self.notes: list[str] = []
        self._module_names, self._guard, self._pid = module_names, guard, os.getpid()
        self._has_memory = window.with_memory or torch.cuda.is_initialized()
        self._profile: Any = None
        self._handles: list[Any] = []
        self._steps = TraceStepTimes()
        self._local = threading.local()
        self._has_stopped = False
        self._restore: Callable[[], None] = lambda: None

    def begin(self, step: int) -> None:
        if torch.autograd._profiler_enabled():
            raise ProfileUnavailableError("the script is profiling itself with torch.profiler")
        _end_annotations()
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(activities=activities, profile_memory=self._has_memory, acc_events=False)
        with _silence_kineto_log():
            self._profile.start()
        self._yield_to_script()
        if has_compiled():
            self.notes.append(_COMPILED)
        else:
            self._handles = [
                torch_module.register_module_forward_pre_hook(hide_from_dynamo(self._make_pre_hook())),
                torch_module.register_module_forward_hook(hide_from_dynamo(self._make_post_hook()), always_call=True),
            ]
        self._steps.begin(step)

    def enter(self, step: int, ended: str) -> None:
        self._steps.enter(step, ended)

    def mark(self, phase: str) -> None:
        self._steps.mark(phase)

    def stop_module_marks(self) -> None:
        """Stop marking modules: code is about to be compiled."""
        if self._handles:
            self.notes.append(_COMPILED)
        self._remove_marks()

    def end(self, step: int, ended: str) -> Finish:
        self._unhook()
        self._steps.end(ended)
        profile, is_ours, self._profile = self._profile, os.getpid() == self._pid, None
        if not is_ours or profile is None or not (self._has_stopped or self._stop(profile)):
            return lambda folder: ()  # a fork, in which the profiler is the parent's, or the script has stopped it
        profile.action_map.clear()  # refers to the profile: its events would be kept until a full garbage collection
        steps = self._steps
        return lambda folder: _write(profile, steps, folder)

    def _stop(self, profile: Any) -> bool:
        """Stop the profiler; return whether its events are there."""
        _end_annotations()
        try:
            profile.stop()
        except RuntimeError as error:  # the script stopped it
            self.notes.append(f"the script stopped the profiler: {error}")
            return False
        return True

    def _yield_to_script(self) -> None:
        """End the recording before the script starts a profiler of its own."""
        kind = torch.autograd.profiler.profile
        prepare = kind._prepare_trace

        def prepare_trace(profiler: Any) -> Any:
            self._guard.run(self._give_way)
            return prepare(profiler)

        kind._prepare_trace = prepare_trace

        def restore() -> None:
            if kind._prepare_trace is prepare_trace:
                kind._prepare_trace = prepare

        self._restore = restore

    def _give_way(self) -> None:
        profile, self._has_stopped = self._profile, True
        self._unhook()
        if profile is not None and os.getpid() == self._pid:
            self.notes.append("recorded until the script started torch.profiler")
            self._profile = profile if self._stop(profile) else None

    def _unhook(self) -> None:
        self._restore()
        self._remove_marks()

    def _remove_marks(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    # --- inside the user's forward pass -------------------------------------------------------------------

    def _make_pre_hook(self) -> Callable[..., None]:
        guard, begin_module = self._guard, self._begin_module

        def pre_hook(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if not is_transformed():
                guard.run(begin_module, module)

        return pre_hook

    def _make_post_hook(self) -> Callable[..., None]:
        guard, end_module = self._guard, self._end_module

        def post_hook(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
            guard.run(end_module, module)

        return post_hook

    def _begin_module(self, module: torch.nn.Module) -> None:
        open_marks: list[tuple[int, Any]] = self._local.__dict__.setdefault("open_marks", [])
        model = self._module_names.model_of(module)
        mark = torch.autograd.profiler.record_function(
            layout.module_annotation(model.names.get(id(module), model.root_name))
        )
        mark.__enter__()
        open_marks.append((id(module), mark))

    def _end_module(self, module: torch.nn.Module) -> None:
        """End the module, and all modules within it that an exception left open."""
        open_marks: list[tuple[int, Any]] = self._local.__dict__.get("open_marks", [])
        if not any(entered == id(module) for entered, _ in open_marks):
            return
        entered = -1
        while entered != id(module):
            entered, mark = open_marks.pop()
            mark.__exit__(None, None, None)


def _end_annotations() -> None:
    """End all open ``record_function`` annotations for the profiler; their own end then does nothing.

    An annotation points into the session of PyTorch's profiler in which it began (2.13). Its end writes there if any
    session runs, even if its own has stopped and freed the memory. So none may stay open from one session to the next,
    of ours or of the script: neither ``Optimizer.step``, whose hook ends our windows, nor an epoch of the script.
    """
    kind = torch.autograd.profiler.record_function
    # its instances refer to it; to look through gc.get_objects() takes three times as long in a large process
    for annotation in gc.get_referrers(kind):
        record = getattr(annotation, "record", None) if type(annotation) is kind else None
        if record is not None:
            torch.ops.profiler._record_function_exit._RecordFunction(record)


@contextmanager
def _silence_kineto_log() -> Iterator[None]:
    """Keep Kineto from logging its start to standard error, unless the user has set its log level."""
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = _SILENT
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL]


def _write(profile: Any, steps: TraceStepTimes, folder: str) -> Sequence[str]:
    """Write the trace as torch.profiler exports it, and next to it the times of the steps.

    Raises:
        OSError: One of the files could not be written.
    """
    profile.export_chrome_trace(os.path.join(folder, layout.TRACE))
    os.chmod(os.path.join(folder, layout.TRACE), 0o600)
    steps.write(folder)
    return (layout.TRACE, layout.TRACE_STEPS)
