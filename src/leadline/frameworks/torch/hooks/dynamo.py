"""Keeping our functions out of torch.compile's sight."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

_EARLIER: list[Callable[..., object]] = []
"""What was hidden before torch was imported."""


def hide(function: F) -> F:
    """Have Dynamo neither trace a function of ours nor guard on what it changes.

    Both marks are needed: with one alone a compiled optimizer recompiles at every call. ``torch._dynamo`` is
    not imported for it, which would take a second of every training.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    if "torch" not in sys.modules:
        _EARLIER.append(function)
        return function
    _hide_code(function)
    return function


def hide_earlier() -> None:
    """Hide what was to be hidden before there was a torch."""
    while _EARLIER:
        _hide_code(_EARLIER.pop())


def _hide_code(function: Callable[..., object]) -> None:
    try:
        from torch._C._dynamo import eval_frame

        skip = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)
        eval_frame.set_code_exec_strategy(function.__code__, skip)
    except (ImportError, AttributeError, TypeError):
        pass  # another version of torch: the first mark is all there is


def has_compiled() -> bool:
    """Whether ``torch.compile`` was called in this process before anybody looked."""
    known = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", {})
    return any(backend is not None for backend in known.values())
