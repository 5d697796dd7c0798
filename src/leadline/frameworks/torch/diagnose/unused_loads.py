"""Algorithms of Stable-Baselines3 that were loaded and thrown away, while another one learns."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from leadline.frameworks.torch.diagnose.library_check import LibraryCheck
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.instrumentation.guard import Fact
from leadline.records.names import UNUSED_LOAD

_ALGORITHM, _POLICY = "stable_baselines3.common.base_class", "stable_baselines3.common.policies"
_MAX_LOADED, _MAX_PARAMETERS, _MAX_ELEMENTS = 8, 16, 64


@dataclass(frozen=True)
class _Loaded:
    """An algorithm that ``load`` has returned, and that was not used so far."""

    algorithm: weakref.ref[Any]
    policy: weakref.ref[Any]
    kind: object
    weights: Mapping[str, torch.Tensor]
    """The first elements of its first parameters, by name."""
    others: weakref.WeakSet[Any]
    """The algorithms that there were before it."""

    def is_lost_to(self, learning: Any) -> bool:
        """Return whether it is gone, unused, and an algorithm that there was before has none of its weights."""
        if self.algorithm() is not None or self.policy() is not None:
            return False
        if type(learning) is not self.kind or learning not in self.others:
            return False
        own = _weights(learning.policy)
        differing = [name for name, values in self.weights.items() if name in own and (values != values[0]).any()]
        return bool(differing) and not any(torch.equal(self.weights[name], own[name]) for name in differing)


class UnusedLoads(LibraryCheck):
    """Notices that an algorithm begins to learn, and one that was loaded after it was made is gone without any use.

    ``load`` returns another algorithm, and leaves the one that it was called on as it was. A use is a prediction of the
    policy, a look at the parameters, which saving takes as well, or ``learn``.
    """

    def __init__(self, guard: HookGuard, fact: Fact, record_checks: Callable[[Mapping[str, object]], None]) -> None:
        """
        Args:
            record_checks: Records a check with the next train step, whatever is captured at it.
        """
        super().__init__(guard, fact, [_ALGORITHM, _POLICY])
        self._record = record_checks
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        self._loaded: list[_Loaded] = []

    def results(self) -> dict[str, float]:
        """Return nothing: what is found is recorded at once, as the training may end before the next checks."""
        return {}

    def replace(self, name: str, module: Any) -> None:
        if name == _POLICY:
            self._patches.replace(module.BasePolicy, "predict", self._make_use, is_optional=True)
            return
        algorithm = module.BaseAlgorithm
        self._patches.replace(algorithm, "__init__", self._make_constructor)
        self._patches.replace(algorithm, "load", self._make_load, is_optional=True)
        self._patches.replace(algorithm, "get_parameters", self._make_use, is_optional=True)
        self._patches.replace(algorithm, "_setup_learn", self._make_learn, is_optional=True)

    # The functions below run inside the user's training.

    def _make_constructor(self, original: Callable[..., None]) -> Callable[..., None]:
        guard, note = self._guard, self._fact.call

        def __init__(algorithm: Any, *args: Any, **kwargs: Any) -> None:
            guard.run(note, self._made.add, algorithm)
            original(algorithm, *args, **kwargs)

        return hide_from_dynamo(__init__)

    def _make_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._fact.call

        def load(kind: type, *args: Any, **kwargs: Any) -> Any:
            result = original(kind, *args, **kwargs)
            guard.run(note, self._note_loaded, result)
            return result

        return hide_from_dynamo(load)

    def _make_use(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._fact.call

        def use(used: Any, *args: Any, **kwargs: Any) -> Any:
            if self._loaded:
                guard.run(note, self._note_use, used)
            return original(used, *args, **kwargs)

        return hide_from_dynamo(use)

    def _make_learn(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._fact.call

        def _setup_learn(algorithm: Any, *args: Any, **kwargs: Any) -> Any:
            if self._loaded:
                guard.run(note, self._note_learn, algorithm)
            return original(algorithm, *args, **kwargs)

        return hide_from_dynamo(_setup_learn)

    def _note_loaded(self, algorithm: Any) -> None:
        others = weakref.WeakSet[Any](other for other in self._made if other is not algorithm)
        policy = algorithm.policy
        loaded = _Loaded(weakref.ref(algorithm), weakref.ref(policy), type(algorithm), _weights(policy), others)
        self._loaded = [*self._loaded, loaded][-_MAX_LOADED:]

    def _note_use(self, used: Any) -> None:
        self._loaded = [known for known in self._loaded if used is not known.algorithm() and used is not known.policy()]

    def _note_learn(self, algorithm: Any) -> None:
        self._note_use(algorithm)
        if any(known.is_lost_to(algorithm) for known in self._loaded):
            self._record({f"{type(algorithm).__name__}/{UNUSED_LOAD}": 1.0})


def _weights(policy: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the first elements of the first parameters, ``(n,)`` each, on the CPU."""
    named = islice(policy.named_parameters(), _MAX_PARAMETERS)
    return {
        name: parameter.detach().reshape(-1)[:_MAX_ELEMENTS].cpu().clone()
        for name, parameter in named
        if parameter.numel()
    }
