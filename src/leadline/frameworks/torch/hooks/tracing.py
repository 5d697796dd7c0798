"""Isolation from PyTorch's tracing, fake tensors, dispatch modes and function transforms."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from threading import get_ident
from typing import Any, Final, ParamSpec, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from leadline.instrumentation.guard import Guard
from leadline.instrumentation.timeline.deferred_calls import OverheadSpans

P = ParamSpec("P")
R = TypeVar("R")


def is_transformed() -> bool:
    """Whether the current code is traced, run on fake tensors, counted by a dispatch mode or under ``torch.func``."""
    return (
        torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.maybe_current_level() is not None
    )


class HookGuard:
    """Guard of the hooks in a training, which counts their time as overhead.

    **Outside dispatch modes** - calls run outside the script's modes, such as one that counts operations.

    **Fake tensors** - while a fake tensor mode is active nothing is called: a simulated step is not a step.

    Attributes:
        clock: The clock of the overhead; hooks that defer read it first.
        call_ns: What calling a hook costs beside the time that it measures.
    """

    def __init__(self, guard: Guard, overhead: OverheadSpans) -> None:
        self._guard, self._overhead, self.clock = guard, overhead, overhead.clock
        self.call_ns = _CALLS_OUTSIDE * python_call_ns()

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """See ``leadline.instrumentation.guard.Guard.run``, whose steps are repeated here to spare each hook a call."""
        guard, overhead = self._guard, self._overhead
        with guard.lock:
            begun_ns = overhead.begin(is_measured=guard.deferred is not None and bool(guard.deferred.calls))
            try:
                if guard.deferred is not None:
                    guard.stop_deferral()
                if torch._C._len_torch_dispatch_stack():
                    return self._run_outside_modes(function, *args, **kwargs)
                return function(*args, **kwargs) if guard.failure is None else None
            except Exception as error:  # noqa: BLE001 - the guard is the boundary that catches everything
                guard.fail(error)
                return None
            finally:
                overhead.end(begun_ns, self.call_ns)

    def defer(self, begun_ns: int, function: Callable[..., object], *args: object) -> bool:
        """Call a function later, as if it were then; False: that is not possible now.

        Args:
            begun_ns: When the hook began.
        """
        deferred = self._guard.deferred
        if (
            deferred is None
            or deferred.steps <= 0
            or deferred.thread != get_ident()
            or torch._C._len_torch_dispatch_stack()
        ):
            return False
        deferred.calls.append((begun_ns, self.clock(), function, args))
        return True

    def defer_with(
        self, begun_ns: int, function: Callable[..., object], read: Callable[..., object], *args: object
    ) -> bool:
        """Call a function later, with what another one returns now; False: that returned None, or is not possible."""
        guard = self._guard
        deferred = guard.deferred
        if (
            deferred is None
            or deferred.steps <= 0
            or deferred.thread != get_ident()
            or torch._C._len_torch_dispatch_stack()
        ):
            return False
        value = guard.call(read, *args)
        if value is None:
            return False
        deferred.calls.append((begun_ns, self.clock(), function, (value,)))
        return True

    def _run_outside_modes(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        if _fake_mode() is not None:
            return None
        with _disable_current_modes():
            return self._guard.call(function, *args, **kwargs)


def _fake_mode() -> Any:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)


_CALLS_OUTSIDE: Final = 160
"""What a hook costs outside the measured span, in calls of a Python function.

PyTorch calls the hook, the hook calls Leadline, and the training then finds less of its own in the processor's caches.
The number makes the reported overhead that of ``benchmarks/true_cost.py``, 4 us per hook.
"""


@cache
def python_call_ns() -> int:
    """Return the time of a call of a Python function in this process, measured once; it takes a few microseconds."""

    def function(first: object, second: object) -> None: ...

    times = []
    for _ in range(5):
        begun_ns = time.perf_counter_ns()
        for _ in range(20):
            function(None, None)
        times.append(time.perf_counter_ns() - begun_ns)
    return min(times) // 20
