"""The callback for ``fit`` of Keras, on each of its backends."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import keras

from leadline.integrations.watched_loop import WatchedLoop, noting_saves
from leadline.training.session import api

_fitted = weakref.WeakSet[Any]()
for _name in ("save", "save_weights"):
    setattr(keras.Model, _name, noting_saves(getattr(keras.Model, _name), _fitted))


class LeadlineCallback(keras.callbacks.Callback):  # type: ignore[misc] # keras has no types here
    """Watch what a model is fitted to: ``model.fit(…, callbacks=[LeadlineCallback()])``.

    A stop sets ``model.stop_training``: ``fit`` returns after its step as it would by itself, and the script goes on.
    Where the model is saved, by ``ModelCheckpoint`` or by the script, is recorded as a checkpoint.

    Args:
        options: As for ``leadline.watch``; under ``leadline run`` those of its command line count.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._loop = WatchedLoop("keras", options)
        self._batches: int | None = None
        """The batches of an epoch; None: they were not counted yet."""

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._batches = self.params.get("steps")
        model = self.model  # on JAX, asking for it within a step replaces the weights by those before the step
        _fitted.add(model)
        self._loop.begin(end=lambda: _stop(model))

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self._batches:
            self._loop.plan((self.params["epochs"] - epoch) * self._batches)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if not self.params.get("steps"):
            self._batches = batch + 1

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        api.log(epoch=epoch + 1)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._loop.end()


def _stop(model: Any) -> None:
    model.stop_training = True
