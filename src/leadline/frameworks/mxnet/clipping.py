"""Observation of ``gluon.utils.clip_global_norm``: the norm of all gradients before clipping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from mxnet.gluon import utils
from mxnet.ndarray import NDArray

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.mxnet.arrays import mean_of
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Guard

_MAX_CLIPS: Final = 16


class Clip(NamedTuple):
    """One clipping."""

    arrays: frozenset[int]
    """The ids of the clipped arrays."""
    norm: float
    is_clipped: bool


class NormClipping:
    """The clippings since the last update."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._clips: list[Clip] = []

    @property
    def has_clips(self) -> bool:
        """Whether gradients were clipped since the last update."""
        return bool(self._clips)

    def install(self, guard: Guard, callbacks: StepCallbacks) -> None:
        """Observe clippings at the steps that capture norms."""
        wants_norms, norms = callbacks.wants_gradient_norms, callbacks.facts.of("norms of clipping are")

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def clip_global_norm(arrays: Sequence[Any], max_norm: float, *args: Any, **kwargs: Any) -> Any:
                arrays = list(arrays)
                norm = original(arrays, max_norm, *args, **kwargs)
                if wants_norms():
                    guard.run(norms.call, self._add, arrays, max_norm, norm)
                return norm

            return clip_global_norm

        self._patches.replace(utils, "clip_global_norm", make)

    def uninstall(self) -> None:
        """Restore the function."""
        self._patches.restore()
        self._clips.clear()

    def take(self, arrays: set[int]) -> Clip | None:
        """Return the first clipping of some arrays since the last call, and forget all that contain them.

        Args:
            arrays: The ids of the gradients that a trainer uses.
        """
        found = [clip for clip in self._clips if not clip.arrays.isdisjoint(arrays)]
        self._clips = [clip for clip in self._clips if clip not in found]
        if not found:
            return None
        return found[0]._replace(is_clipped=any(clip.is_clipped for clip in found))

    def _add(self, arrays: Sequence[Any], max_norm: float, norm: Any) -> None:
        number = mean_of(norm) if isinstance(norm, NDArray) else float(norm)
        clip = Clip(frozenset(map(id, arrays)), number, not number <= max_norm)
        self._clips = [*self._clips[-_MAX_CLIPS:], clip]
