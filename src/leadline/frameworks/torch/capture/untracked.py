"""Context of all of Leadline's computations with tensors."""

from __future__ import annotations

import torch

from leadline.store import layout


class untracked:
    """Context manager for all of Leadline's computations: disables autograd and function modes.

    A trace that is being recorded shows the computations as ``layout.OVERHEAD_ANNOTATION``.
    """

    __slots__ = ("_functions", "_gradients", "_range")

    def __enter__(self) -> None:
        self._functions, self._gradients = torch._C.DisableTorchFunction(), torch.no_grad()
        self._functions.__enter__()
        self._gradients.__enter__()
        self._range = None
        if torch.autograd._profiler_enabled():
            self._range = torch.autograd.profiler.record_function(layout.OVERHEAD_ANNOTATION)
            self._range.__enter__()

    def __exit__(self, *exc: object) -> None:
        if self._range is not None:
            self._range.__exit__(*exc)
        self._gradients.__exit__(*exc)
        self._functions.__exit__(*exc)
