"""What Stable-Baselines3 collects: how episodes end, and how much of the action space the first policy reaches."""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from leadline.frameworks.torch.diagnose.library_check import LibraryCheck
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.instrumentation.guard import Fact
from leadline.records.names import ACTIONS, EPISODES

_MODULE: Final = "stable_baselines3.common.base_class"
_LATEST: Final = 100
_DEVIATIONS: Final = 3.0
"""The normal distribution of a policy reaches so many standard deviations."""
_GAUSSIAN: Final = "DiagGaussianDistribution"
"""The distribution whose draws are clipped to the action space; others are scaled to it."""


class Rollouts(LibraryCheck):
    """Counts the episodes that an algorithm of Stable-Baselines3 collects, the latest that was called.

    Lengths are those of its ``Monitor``, which it wraps environments in; of environments without one nothing is known.
    """

    def __init__(self, guard: HookGuard, fact: Fact) -> None:
        super().__init__(guard, fact, [_MODULE])
        self._name = ""
        self._algorithm: Callable[[], Any] = lambda: None
        self._episodes: deque[int] = deque(maxlen=_LATEST)
        """The lengths of the latest episodes, in steps; negative: they were truncated."""
        self._longest = self._truncated = 0
        self._actions: dict[str, float] = {}

    def results(self) -> dict[str, float]:
        """Return the checks; empty: no episode of the library has ended, and the policy is another one."""
        found = {f"{self._name}/{check}": number for check, number in self._actions.items()}
        if self._episodes:
            at_limit = sum(length == self._longest for length in self._episodes)
            numbers = (len(self._episodes), self._longest, at_limit, self._truncated)
            found |= {f"{self._name}/{check}": float(n) for check, n in zip(EPISODES, numbers, strict=True)}
        return found

    def replace(self, name: str, module: Any) -> None:
        self._patches.replace(module.BaseAlgorithm, "_update_info_buffer", self._make_update, is_optional=True)

    def _make_update(self, original: Callable[..., None]) -> Callable[..., None]:
        guard, note = self._guard, self._fact.call

        def _update_info_buffer(algorithm: Any, infos: Any, dones: Any = None) -> None:
            guard.run(note, self._note, algorithm, infos, dones)
            original(algorithm, infos, dones)

        return hide_from_dynamo(_update_info_buffer)

    def _note(self, algorithm: Any, infos: Sequence[Mapping[str, Any]], dones: Any) -> None:
        if self._algorithm() is not algorithm:
            self._name, self._algorithm = type(algorithm).__name__, weakref.ref(algorithm)
            self._episodes.clear()
            self._longest = self._truncated = 0
            self._actions = dict(_actions(algorithm)) if getattr(algorithm, "_n_updates", 1) == 0 else {}
        if dones is None or not dones.any():
            return
        for info, is_done in zip(infos, dones, strict=True):
            monitored, is_truncated = info.get("episode"), info.get("TimeLimit.truncated")
            if is_done and monitored is not None and is_truncated is not None:
                length = int(monitored["l"])
                self._longest = max(self._longest, length)
                self._truncated += bool(is_truncated)
                self._episodes.append(-length if is_truncated else length)


def _actions(algorithm: Any) -> Iterator[tuple[str, float]]:
    """Yield the checks of the dimension of the action space that an untrained policy reaches least."""
    policy, space = algorithm.policy, algorithm.action_space
    deviations = getattr(policy, "log_std", None)
    if type(getattr(policy, "action_dist", None)).__name__ != _GAUSSIAN or deviations is None:
        return
    known: list[tuple[float, ...]] = [
        (*_reached(low, high, deviation), low, high, deviation)
        for low, high, deviation in zip(
            space.low.flatten().tolist(),
            space.high.flatten().tolist(),
            deviations.exp().flatten().tolist(),
            strict=True,
        )
        if math.isfinite(low) and math.isfinite(high) and low < high and deviation > 0
    ]
    if known:
        least = min(known, key=lambda numbers: min(numbers[:2]))
        yield from zip(ACTIONS, least, strict=True)


def _reached(low: float, high: float, deviation: float) -> tuple[float, float]:
    """Return the share of a range that a normal distribution around 0 reaches, and the share of its draws within it."""
    reach = _DEVIATIONS * deviation
    covered = max(0.0, min(high, reach) - max(low, -reach)) / (high - low)
    below, above = (math.erf(bound / deviation / math.sqrt(2)) / 2 for bound in (low, high))
    return covered, above - below
