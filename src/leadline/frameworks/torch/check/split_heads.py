"""Views that split heads off, or join them, across positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.check.outcome import CheckedStep

_VIEWS: Final = frozenset(("view", "reshape"))
_ADVICE: Final = (
    "split the last axis, then swap: x.view(batch, length, heads, size).transpose(1, 2); and swap back before joining: "
    "x.transpose(1, 2).reshape(batch, length, heads * size)"
)


def scrambled_positions(subject: CheckedStep) -> Tested | None:
    """Return the failure if a view within a model takes the pieces of some positions for those of others."""
    step, batch = subject.step, subject.batch
    if not batch.predictions:
        return None
    entered: list[str] = []
    views = _Views(entered)
    handles = []
    for name, part in step.named_parts():
        handles.append(part.register_forward_pre_hook(_entering(entered, name or type(part).__name__)))
        handles.append(part.register_forward_hook(_leaving(entered)))
    try:
        with views:
            step.run(evaluates=True, until=batch.predictions[0].key, gradients=False)
    finally:
        for handle in handles:
            handle.remove()
    if views.found is None:
        return None
    where, before, after = views.found
    return failed(
        f"a view in {where} mixes positions: {before} becomes {after} without a transpose, so that each of the "
        f"{after[-2]} positions gets pieces of several",
        _ADVICE,
        module=where,
        before=list(before),
        after=list(after),
    )


def _entering(entered: list[str], name: str) -> Callable[..., None]:
    def enter(module: torch.nn.Module, args: Any) -> None:
        entered.append(name)

    return enter


def _leaving(entered: list[str]) -> Callable[..., None]:
    def leave(module: torch.nn.Module, args: Any, output: Any) -> None:
        entered.pop()

    return leave


class _Views(TorchFunctionMode):  # type: ignore[misc]
    """Notes the first view in a module that mixes positions."""

    def __init__(self, entered: list[str]) -> None:
        """
        Args:
            entered: The names of the modules that are being called, the innermost last.
        """
        super().__init__()
        self._entered = entered
        self.found: tuple[str, tuple[int, ...], tuple[int, ...]] | None = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        is_view = getattr(func, "__name__", "") in _VIEWS and self._entered and args
        if is_view and self.found is None and isinstance(args[0], torch.Tensor) and isinstance(output, torch.Tensor):
            before, after = tuple(args[0].shape), tuple(output.shape)
            if mixes_positions(before, after) or mixes_positions(after, before):
                self.found = (self._entered[-1], before, after)
        return output


def mixes_positions(joined: Sequence[int], split: Sequence[int]) -> bool:
    """Return whether a view between two shapes mixes positions.

    Of ``(batch, length, heads * size)`` the last axis holds the heads, and the elements of a position lie side by side.
    Seen as ``(batch, heads, length, size)``, or with batch and heads in one axis, they are those of other positions.
    """
    if len(joined) != 3 or len(split) not in (3, 4) or 0 in joined or 0 in split:
        return False
    batch, length, width = joined
    positions, size = split[-2:]
    if positions != length or length == 1 or size == 1:
        return False
    if len(split) == 4:
        heads = split[1]
        return split[0] == batch and heads not in (1, length) and heads * size == width
    heads = split[0] // batch
    return heads > 1 and split[0] == heads * batch and heads * size == width
