"""The callback for ``learn`` of Stable-Baselines3."""

from __future__ import annotations

import math
import weakref
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from leadline.integrations.watched_loop import WatchedLoop, noting_saves

_learning = weakref.WeakSet[Any]()
BaseAlgorithm.save = noting_saves(BaseAlgorithm.save, _learning, suffix=".zip")


class LeadlineCallback(BaseCallback):  # type: ignore[misc] # stable_baselines3 is not imported for types
    """Watch what an algorithm learns: ``model.learn(…, callback=LeadlineCallback())``.

    A stop has ``_on_step`` return False: ``learn`` returns before its next step in the environment as it would by
    itself, and the script goes on. Its plan counts steps of the environment; the steps of the optimizer that remain are
    estimated from those between the latest two collections of experience. Where the model is saved, by
    ``CheckpointCallback`` or by the script, is recorded as a checkpoint.

    Args:
        options: As for ``leadline.watch``; under ``leadline run`` those of its command line count.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._loop = WatchedLoop("stable_baselines3", options)
        self._collected = self._size = self._steps = 0
        """Environment steps until the latest collection ended, those in it, and train steps until then."""

    def _on_training_start(self) -> None:
        _learning.add(self.model)
        self._loop.begin()
        self._collected, self._size = self.num_timesteps, 0

    def _on_rollout_start(self) -> None:
        steps = self._loop.train_steps() - self._steps
        if self._size > 0 and steps > 0:
            remaining = max(0, self.model._total_timesteps - self.num_timesteps)
            self._loop.plan(math.ceil(remaining / self._size) * steps)

    def _on_rollout_end(self) -> None:
        self._collected, self._size = self.num_timesteps, self.num_timesteps - self._collected
        self._steps = self._loop.train_steps()

    def _on_step(self) -> bool:
        return not self._loop.should_stop

    def _on_training_end(self) -> None:
        self._loop.end()
