"""Norms and flags of gradient clipping, taken from PyTorch's own clipping functions where they compute them."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.nn import utils
from torch.nn.utils import clip_grad

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.capture.device_copy import DeviceScalar, number_of
from leadline.frameworks.torch.capture.untracked import untracked
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.frameworks.torch.kernels.elements import local

Number = DeviceScalar | float

_MAX_CLIPS: Final = 64
_EPSILON: Final = 1e-6
"""Constant that torch adds to the norm before dividing by it."""
_FSDP: Final = "torch.distributed.fsdp.fully_sharded_data_parallel"


@dataclass(frozen=True, slots=True)
class _Clip:
    """One call of a clipping function."""

    parameters: frozenset[int]
    """Ids of the parameters whose gradients were clipped."""
    norm: Number | None
    """Gradient norm before clipping; None: of another order, or spread over several processes."""
    is_clipped: Number
    """Whether clipping changed the gradients: 1 or 0."""
    readers: set[int] = field(default_factory=set)
    """Ids of the callers that have read this clip already."""


_ReadClip = tuple[Any, Number | None, Number]
"""The clipped parameters, the norm of their gradients, and whether clipping changed these."""


class _Local(threading.local):
    norm_type = 2.0
    """Order of the norm last computed for clipping."""
    is_nested = False
    """Whether a wrapped method is running that may itself call a wrapped function."""


class Clipping:
    """Observes calls that clip gradients, and keeps the results until the optimizer concerned steps.

    The helpers that the public functions call inside their module are wrapped, so that public functions that were
    imported by name earlier are covered too. The wrappers are not hidden from Dynamo: it traces through them as if
    they were absent, and compiled calls are not observed.
    """

    def __init__(self, guard: HookGuard, warn: Callable[[str], None], callbacks: StepCallbacks) -> None:
        """
        Args:
            callbacks: Tell whether gradient norms of the current step are captured; clipping by value computes none.
        """
        self._guard, self._warn, self._wants_norms = guard, warn, callbacks.wants_gradient_norms
        self._norms = callbacks.facts.of("norms of clipping are")
        self.clips: list[_Clip] = []
        """The latest calls."""
        self.on_clip: Callable[[Any, Any, Any], None] | None = None
        """Called with the parameters, the limit and the norm of each clip by norm."""
        self._local = _Local()
        self._patches = Patches()
        self._sharded: Any = None
        """The class of models with sharded parameters, once its module is imported and its method replaced."""

    def install(self) -> None:
        """Install the wrappers."""
        if hasattr(clip_grad, "_clip_grads_with_norm_"):
            for owner, infix in ((clip_grad, "_"), (utils, "")):
                self._patch(owner, f"{infix}get_total_norm", self._make_total_norm)
                self._patch(owner, f"{infix}clip_grads_with_norm_", self._make_clip_with_norm)
        else:  # torch before 2.6 clips in one function
            for owner in (clip_grad, utils):
                self._patch(owner, "clip_grad_norm_", self._make_clip_norm)
        for owner in (clip_grad, utils):
            self._patch(owner, "clip_grad_value_", self._make_clip_value)
        self.wrap_new_imports()

    def wrap_new_imports(self) -> None:
        """Wrap the clipping methods of modules imported since the last call."""
        sharded = getattr(sys.modules.get(_FSDP), "FullyShardedDataParallel", None)
        if sharded is not None and self._sharded is not sharded:
            self._sharded = sharded
            self._patch(sharded, "clip_grad_norm_", self._make_sharded_clip_norm)

    def uninstall(self) -> None:
        """Restore the functions."""
        self._patches.restore()
        self._sharded = None
        self.clips.clear()

    def take(self, parameters: set[int], reader: int) -> list[tuple[str, Number]]:
        """Return the scalars of the clipping of these parameters' gradients, once for each reader.

        Args:
            parameters: Ids of the parameters.
            reader: Id of the caller.
        """
        clips = [
            clip for clip in self.clips if reader not in clip.readers and not clip.parameters.isdisjoint(parameters)
        ]
        for clip in clips:
            clip.readers.add(reader)
        if not clips:
            return []
        clipped = ("gradient_clipped", _any_clipped([clip.is_clipped for clip in clips]))
        norms = [clip.norm for clip in _first_clips(clips)]
        known = [norm for norm in norms if norm is not None]
        if len(known) < len(norms):
            return [clipped]
        return [("gradient_norm_before_clipping", _combined_norm(known)), clipped]

    # --- inside the user's training -----------------------------------------------------------------------

    def _patch(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self._patches.replace(owner, name, make, is_optional=True)

    def _make_total_norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        record = self._set_norm_type

        def get_total_norm(tensors: Any, norm_type: float = 2.0, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                record(norm_type)
            return original(tensors, norm_type, *args, **kwargs)

        return get_total_norm

    def _make_clip_with_norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, record, norms, clock = self._guard, self._record_with_norm, self._norms, self._guard.clock
        read_plain, store_read = self._read_plain, self._store_read

        def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                begun_ns, parameters = clock(), _as_list(parameters)
                if self.on_clip is not None:
                    guard.run(self.on_clip, parameters, max_norm, total_norm)
                if not guard.defer_with(begun_ns, store_read, norms.call, read_plain, parameters, max_norm, total_norm):
                    guard.run(norms.call, record, parameters, max_norm, total_norm)
            return original(parameters, max_norm, total_norm, *args, **kwargs)

        return clip_grads_with_norm_

    def _make_clip_norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, record, norms = self._guard, self._record, self._norms

        def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(parameters, max_norm, norm_type, *args, **kwargs)
            parameters = _as_list(parameters)
            result = original(parameters, max_norm, norm_type, *args, **kwargs)
            if self.on_clip is not None:
                guard.run(self.on_clip, parameters, max_norm, result)
            guard.run(norms.call, record, parameters, max_norm, result, norm_type)
            return result

        return clip_grad_norm_

    def _make_clip_value(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, record, norms = self._guard, self._record_value, self._norms

        def clip_grad_value_(parameters: Any, clip_value: float, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                parameters = _as_list(parameters)
                guard.run(norms.call, record, parameters, clip_value)
            return original(parameters, clip_value, *args, **kwargs)

        return clip_grad_value_

    def _make_sharded_clip_norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the method of a model with sharded parameters, which returns the norm over all shards."""
        guard, record, norms, thread_local = self._guard, self._record, self._norms, self._local

        def clip_grad_norm_(model: Any, max_norm: float, norm_type: float = 2.0, *args: Any, **kwargs: Any) -> Any:
            thread_local.is_nested = True
            try:
                result = original(model, max_norm, norm_type, *args, **kwargs)
            finally:
                thread_local.is_nested = False
            guard.run(norms.call, record, list(model.parameters()), max_norm, result, norm_type)
            return result

        return clip_grad_norm_

    def _set_norm_type(self, norm_type: float) -> None:
        self._local.norm_type = norm_type

    def _read_plain(self, parameters: Any, max_norm: float, total_norm: Any) -> _ReadClip | None:
        """Return what a clip has at a step at which nothing but losses is captured; None: that takes more than a look.

        Args:
            total_norm: The norm of the gradients before clipping.
        """
        if type(total_norm) is not torch.Tensor or total_norm.device.type != "cpu" or self._local.is_nested:
            return None
        norm = float(total_norm)
        if not math.isfinite(norm):
            return None
        norm_type, self._local.norm_type = self._local.norm_type, 2.0
        return parameters, norm if float(norm_type) == 2.0 else None, _is_above(norm, max_norm)

    def _store_read(self, read: _ReadClip) -> None:
        self._norms.call(self._store, *read)

    def _record_with_norm(self, parameters: list[Any], max_norm: float, total_norm: Any) -> None:
        norm_type, self._local.norm_type = self._local.norm_type, 2.0
        self._record(parameters, max_norm, total_norm, norm_type)

    def _record(self, parameters: list[Any], max_norm: float, total_norm: Any, norm_type: float) -> None:
        if self._local.is_nested:
            return
        placements = getattr(total_norm, "placements", None)
        if placements is not None:
            if not all(placement.is_replicate() for placement in placements):
                self._warn("a gradient norm from clipping is not captured: its parts are spread over several processes")
                return
            total_norm = total_norm.to_local()
        norm = number_of(total_norm) if isinstance(total_norm, torch.Tensor) else float(total_norm)
        if norm is not None:
            self._store(parameters, norm if float(norm_type) == 2.0 else None, _is_above(norm, max_norm))

    def _record_value(self, parameters: list[Any], clip_value: float) -> None:
        if not self._wants_norms():
            return
        with untracked():
            gradients = [local(parameter.grad.detach()) for parameter in parameters if parameter.grad is not None]
            if not gradients or any(grad.layout is not torch.strided or grad.is_meta for grad in gradients):
                return
            device = gradients[0].device
            norms = [torch.linalg.vector_norm(grad.double()).to(device) for grad in gradients]
            maxima = [torch.linalg.vector_norm(grad.double(), math.inf).to(device) for grad in gradients]
            norm = number_of(torch.linalg.vector_norm(torch.stack(norms)))
            maximum = number_of(torch.stack(maxima).amax())
        if norm is not None and maximum is not None:
            self._store(parameters, norm, _is_above(maximum, clip_value, epsilon=0.0))

    def _store(self, parameters: Any, norm: Number | None, is_clipped: Number) -> None:
        ids = frozenset(map(id, parameters))
        self.clips = [clip for clip in self.clips[-_MAX_CLIPS:] if clip.parameters != ids]
        self.clips = [clip for clip in self.clips if not clip.readers or clip.parameters.isdisjoint(ids)]
        self.clips.append(_Clip(ids, norm, is_clipped))


def _as_list(parameters: Any) -> Any:
    """Return the parameters in a form that can be iterated twice."""
    return parameters if isinstance(parameters, (torch.Tensor, list)) else list(parameters)


def _first_clips(clips: Iterable[_Clip]) -> Iterator[_Clip]:
    """Yield the first clip of each group of parameters: its norm is the one before all clipping."""
    seen: set[int] = set()
    for clip in clips:
        if seen.isdisjoint(clip.parameters):
            yield clip
        seen |= clip.parameters


def _is_above(norm: Number, limit: float, *, epsilon: float = _EPSILON) -> Number:
    """Return 1 if clipping to the limit changes gradients of this norm (NaN counts as changed), else 0."""
    if not isinstance(norm, DeviceScalar):
        return float(not norm + epsilon <= float(limit))
    with untracked():
        return DeviceScalar((~(norm.tensor + epsilon <= limit)).double())


def _combined_norm(norms: list[Number]) -> Number:
    """Return the norm of the concatenation of several parts."""
    if len(norms) == 1:
        return norms[0]
    if not any(isinstance(norm, DeviceScalar) for norm in norms):
        return math.hypot(*norms)  # type: ignore[arg-type]
    return _combine_on_device(norms, torch.linalg.vector_norm)


def _any_clipped(flags: list[Number]) -> Number:
    if not any(isinstance(flag, DeviceScalar) for flag in flags):
        return max(flags)  # type: ignore[type-var]
    return _combine_on_device(flags, torch.amax) if len(flags) > 1 else flags[0]


def _combine_on_device(numbers: list[Number], combine: Callable[[torch.Tensor], torch.Tensor]) -> DeviceScalar:
    first = next(number for number in numbers if isinstance(number, DeviceScalar)).tensor
    with untracked():
        tensors = [
            number.tensor.to(first.device, non_blocking=True)
            if isinstance(number, DeviceScalar)
            else torch.full_like(first, number)
            for number in numbers
        ]
        return DeviceScalar(combine(torch.stack(tensors)))
