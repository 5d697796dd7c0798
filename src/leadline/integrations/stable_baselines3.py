"""The callback for ``learn`` of Stable-Baselines3."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from leadline.integrations.watched_loop import WatchedLoop


class LeadlineCallback(BaseCallback):  # type: ignore[misc] # stable_baselines3 is not imported for types
    """Watch what an algorithm learns: ``model.learn(…, callback=LeadlineCallback())``.

    A stop has ``_on_step`` return False: ``learn`` returns before its next step in the environment as it would by
    itself, and the script goes on. Its plan counts steps of the environment, not of the optimizer: none is recorded.

    Args:
        options: As for ``leadline.watch``; under ``leadline run`` those of its command line count.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._loop = WatchedLoop("stable_baselines3", options)

    def _on_training_start(self) -> None:
        self._loop.begin()

    def _on_step(self) -> bool:
        return not self._loop.should_stop

    def _on_training_end(self) -> None:
        self._loop.end()
