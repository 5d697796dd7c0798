"""What clipping found: the norm of all gradients before it, reused where PyTorch's own functions compute it."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, Final

import torch
from torch.nn import utils
from torch.nn.utils import clip_grad

from leadline.frameworks.torch.capture.device_copy import LateNumber, number_of, quietly
from leadline.frameworks.torch.hooks.tracing import UnseenGuard
from leadline.frameworks.torch.kernels.elements import local
from leadline.training.guard import Guard

Number = LateNumber | float

_MOST_CLIPS: Final = 64
_SLACK: Final = 1e-6
"""What torch adds to the norm before it divides by it."""
_FSDP: Final = "torch.distributed.fsdp.fully_sharded_data_parallel"


@dataclass(frozen=True, slots=True)
class _Clip:
    """One call that clipped gradients."""

    parameters: frozenset[int]
    """The ids of those whose gradients were clipped."""
    norm: Number | None
    """Their norm before it; None: it was of another order, or is on several machines."""
    is_clipped: Number
    """Whether that changed them: 1 or 0."""
    taken: set[int] = field(default_factory=set)
    """Who has asked for it already."""


class _Local(threading.local):
    norm_type = 2.0
    """The order of the norm that was last computed for clipping."""
    is_within = False
    """Whether a method is under way that itself may call what is wrapped."""


class Clipping:
    """Sees the calls that clip gradients, and keeps what they found until the optimizer that it concerns steps.

    What the public functions call inside their module is wrapped, so that a function is seen too that somebody
    imported by name before. The wrappers are not hidden from Dynamo: it traces through them as if they were not
    there, and what is compiled is not seen.
    """

    def __init__(self, guard: Guard, tell: Callable[[str], None], wants: Callable[[], bool]) -> None:
        """
        Args:
            wants: Whether the norms of the step under way are captured: clipping by value finds none by itself.
        """
        self._guard, self._tell, self._wants = UnseenGuard(guard), tell, wants
        self._clips: list[_Clip] = []
        self._local = _Local()
        self._originals: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Begin to see."""
        if hasattr(clip_grad, "_clip_grads_with_norm_"):
            for owner, infix in ((clip_grad, "_"), (utils, "")):
                self._patch(owner, f"{infix}get_total_norm", self._make_total_norm)
                self._patch(owner, f"{infix}clip_grads_with_norm_", self._make_clip_with_norm)
        else:  # torch before 2.6 clips in one function
            for owner in (clip_grad, utils):
                self._patch(owner, "clip_grad_norm_", self._make_clip_norm)
        for owner in (clip_grad, utils):
            self._patch(owner, "clip_grad_value_", self._make_clip_value)
        self.look_again()

    def look_again(self) -> None:
        """Wrap what was imported since."""
        sharded = getattr(sys.modules.get(_FSDP), "FullyShardedDataParallel", None)
        if sharded is not None and not any(owner is sharded for owner, _, _ in self._originals):
            self._patch(sharded, "clip_grad_norm_", self._make_method)

    def uninstall(self) -> None:
        """Put everything back that still bears our mark."""
        for owner, name, original in reversed(self._originals):
            if getattr(getattr(owner, name), "_leadline", None) is self:
                setattr(owner, name, original)
        self._originals = []
        self._clips.clear()

    def take(self, parameters: set[int], who: int) -> list[tuple[str, Number]]:
        """What is known of the clipping of these parameters' gradients, to be told once.

        Args:
            parameters: Their ids.
            who: The one who asks.
        """
        if not self._clips:
            return []
        found = [each for each in self._clips if who not in each.taken and not each.parameters.isdisjoint(parameters)]
        for each in found:
            each.taken.add(who)
        if not found:
            return []
        clipped = ("gradient_clipped", _most([each.is_clipped for each in found]))
        norms = [each.norm for each in _apart(found)]
        known = [norm for norm in norms if norm is not None]
        if len(known) < len(norms):
            return [clipped]
        return [("gradient_norm_before_clipping", _together(known)), clipped]

    # --- inside the user's training -----------------------------------------------------------------------

    def _patch(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        replacement: Any = update_wrapper(make(original), original)
        replacement._leadline = self
        self._originals.append((owner, name, original))
        setattr(owner, name, replacement)

    def _make_total_norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        note = self._note_type

        def get_total_norm(tensors: Any, norm_type: float = 2.0, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                note(norm_type)
            return original(tensors, norm_type, *args, **kwargs)

        return get_total_norm

    def _make_clip_with_norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._note_with_norm

        def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                parameters = _listed(parameters)
                guard.run(note, parameters, max_norm, total_norm)
            return original(parameters, max_norm, total_norm, *args, **kwargs)

        return clip_grads_with_norm_

    def _make_clip_norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._note

        def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(parameters, max_norm, norm_type, *args, **kwargs)
            parameters = _listed(parameters)
            result = original(parameters, max_norm, norm_type, *args, **kwargs)
            guard.run(note, parameters, max_norm, result, norm_type)
            return result

        return clip_grad_norm_

    def _make_clip_value(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._note_value

        def clip_grad_value_(parameters: Any, clip_value: float, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                parameters = _listed(parameters)
                guard.run(note, parameters, clip_value)
            return original(parameters, clip_value, *args, **kwargs)

        return clip_grad_value_

    def _make_method(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Of a model whose parameters are sharded: what it returns is of all shards."""
        guard, note, place = self._guard, self._note, self._local

        def clip_grad_norm_(model: Any, max_norm: float, norm_type: float = 2.0, *args: Any, **kwargs: Any) -> Any:
            place.is_within = True
            try:
                result = original(model, max_norm, norm_type, *args, **kwargs)
            finally:
                place.is_within = False
            guard.run(note, list(model.parameters()), max_norm, result, norm_type)
            return result

        return clip_grad_norm_

    def _note_type(self, norm_type: float) -> None:
        self._local.norm_type = norm_type

    def _note_with_norm(self, parameters: list[Any], max_norm: float, total_norm: Any) -> None:
        norm_type, self._local.norm_type = self._local.norm_type, 2.0
        self._note(parameters, max_norm, total_norm, norm_type)

    def _note(self, parameters: list[Any], max_norm: float, total_norm: Any, norm_type: float) -> None:
        if self._local.is_within:
            return
        placements = getattr(total_norm, "placements", None)
        if placements is not None:
            if not all(each.is_replicate() for each in placements):
                self._tell("a norm of gradients that clipping found is not read: its parts lie in several processes")
                return
            total_norm = total_norm.to_local()
        norm = number_of(total_norm) if isinstance(total_norm, torch.Tensor) else float(total_norm)
        if norm is not None:
            self._keep(parameters, norm if float(norm_type) == 2.0 else None, _is_above(norm, max_norm))

    def _note_value(self, parameters: list[Any], clip_value: float) -> None:
        if not self._wants():
            return
        with quietly():
            found = [local(each.grad.detach()) for each in parameters if each.grad is not None]
            if not found or any(each.layout is not torch.strided or each.is_meta for each in found):
                return
            device = found[0].device
            norms = [torch.linalg.vector_norm(each.double()).to(device) for each in found]
            largest = [torch.linalg.vector_norm(each.double(), math.inf).to(device) for each in found]
            norm = number_of(torch.linalg.vector_norm(torch.stack(norms)))
            most = number_of(torch.stack(largest).amax())
        if norm is not None and most is not None:
            self._keep(parameters, norm, _is_above(most, clip_value, slack=0.0))

    def _keep(self, parameters: list[Any], norm: Number | None, is_clipped: Number) -> None:
        ids = frozenset(map(id, parameters))
        self._clips = [each for each in self._clips[-_MOST_CLIPS:] if each.parameters != ids]
        self._clips = [each for each in self._clips if not each.taken or each.parameters.isdisjoint(ids)]
        self._clips.append(_Clip(ids, norm, is_clipped))


def _listed(parameters: Any) -> Any:
    """Parameters that can be gone through twice."""
    return parameters if isinstance(parameters, (torch.Tensor, list)) else list(parameters)


def _apart(clips: Iterable[_Clip]) -> Iterator[_Clip]:
    """Of clips of the same parameters the first: the norm before all clipping is meant."""
    seen: set[int] = set()
    for each in clips:
        if seen.isdisjoint(each.parameters):
            yield each
        seen |= each.parameters


def _is_above(norm: Number, limit: float, *, slack: float = _SLACK) -> Number:
    """1 where gradients of that norm are changed by clipping to that limit (those that are NaN are), else 0."""
    if not isinstance(norm, LateNumber):
        return float(not norm + slack <= float(limit))
    with quietly():
        return LateNumber((~(norm.on_device + slack <= limit)).double())


def _together(norms: list[Number]) -> Number:
    """The norm of several parts."""
    if len(norms) == 1:
        return norms[0]
    if not any(isinstance(norm, LateNumber) for norm in norms):
        return math.hypot(*norms)  # type: ignore[arg-type]
    return _on_device(norms, torch.linalg.vector_norm)


def _most(flags: list[Number]) -> Number:
    if not any(isinstance(flag, LateNumber) for flag in flags):
        return max(flags)  # type: ignore[type-var]
    return _on_device(flags, torch.amax) if len(flags) > 1 else flags[0]


def _on_device(numbers: list[Number], combine: Callable[[torch.Tensor], torch.Tensor]) -> LateNumber:
    first = next(each for each in numbers if isinstance(each, LateNumber)).on_device
    with quietly():
        tensors = [
            each.on_device.to(first.device, non_blocking=True)
            if isinstance(each, LateNumber)
            else torch.full_like(first, each)
            for each in numbers
        ]
        return LateNumber(combine(torch.stack(tensors)))
