"""Exclusion of Leadline's functions from tracing by ``torch.compile``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

_PENDING: list[Callable[..., object]] = []
"""Functions that were hidden before torch was imported."""


def hide_from_dynamo(function: F) -> F:
    """Prevent Dynamo from tracing a function and from guarding on the state it changes.

    Both marks are needed: with only one of them a compiled optimizer recompiles at every call. ``torch._dynamo`` is
    not imported for this, since that would add a second to every training.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    if "torch" not in sys.modules:
        _PENDING.append(function)
        return function
    _hide_code(function)
    return function


def hide_pending_functions() -> None:
    """Hide the functions that were registered before torch was imported."""
    while _PENDING:
        _hide_code(_PENDING.pop())


def _hide_code(function: Callable[..., object]) -> None:
    try:
        from torch._C._dynamo import eval_frame

        skip = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)
        eval_frame.set_code_exec_strategy(function.__code__, skip)
    except (ImportError, AttributeError, TypeError):
        pass  # another version of torch: only the first mark applies


def has_compiled() -> bool:
    """Whether ``torch.compile`` was already used in this process."""
    known = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", {})
    return any(backend is not None for backend in known.values())
