"""The hook for Keras on TensorFlow, in smdebug's interface."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

from tensorflow import keras

from leadline.compat.smdebug.core.capture_items import Naming, TensorSelection
from leadline.compat.smdebug.core.collection import Collection as AnyCollection
from leadline.compat.smdebug.core.collection import CollectionKeys
from leadline.compat.smdebug.core.hook import BaseHook
from leadline.compat.smdebug.core.singleton import set_hook
from leadline.compat.smdebug.keras_names import MEAN_LOSS
from leadline.compat.smdebug.tensorflow.collection import Collection
from leadline.compat.smdebug.trial_naming import KERAS

__all__ = ["KerasHook"]

T = TypeVar("T")
_TRAIN: Final = ("train",)
_WEIGHTS: Final = TensorSelection("weights", None, _TRAIN)
_BIASES: Final = TensorSelection("biases", None, _TRAIN)
_GRADIENTS: Final = TensorSelection("gradients", None, _TRAIN)
_OPTIMIZER: Final = TensorSelection("optimizer_variables", None, _TRAIN)
_LAYERS: Final = TensorSelection("layers")
"""Also what the model and the loss are given."""
_LOSSES: Final = TensorSelection("losses")
_METRICS: Final = TensorSelection("metrics", f"^(?!{MEAN_LOSS}$)")
"""Keras counts the mean loss of the epoch as a metric too."""
_NAMING: Final = Naming(
    defaults={
        "all": (".*",),
        "default": (),
        "weights": ("/weights/((?!bias).)*$",),
        "biases": ("^(?!gradient).*bias",),
        "gradients": ("^gradient",),
        "losses": ("loss",),
        "metrics": (),
        "inputs": (),
        "outputs": (),
        "layers": ("/(?:inputs|outputs)",),
        "sm_metrics": (),
        "optimizer_variables": (),
    },
    native={
        "weights": (_WEIGHTS,),
        "biases": (_BIASES,),
        "gradients": (_GRADIENTS,),
        "losses": (_LOSSES,),
        "metrics": (_METRICS,),
        "inputs": (TensorSelection("inputs"),),
        "outputs": (TensorSelection("predictions"), TensorSelection("labels"), TensorSelection("outputs")),
        "layers": (TensorSelection("layers", "/"),),
        "optimizer_variables": (_OPTIMIZER,),
        "all": (_WEIGHTS, _BIASES, _GRADIENTS, _OPTIMIZER, _LAYERS, _LOSSES, _METRICS),
    },
    searched=(_WEIGHTS, _BIASES, _GRADIENTS, _OPTIMIZER, _LAYERS),
)


class KerasHook(BaseHook, keras.callbacks.Callback):  # type: ignore[misc] # tensorflow has no types here
    """Saves what Keras trains with, as one of the ``callbacks`` of ``fit``; see ``BaseHook`` for its arguments.

    A train step is a batch of the training, an eval step one of the validation; loops with a gradient tape are captured
    without the callback. Gradients, layers and optimizer variables need no wrapper. Regular expressions search
    Leadline's names: ``sequential/dense/kernel``, ``sequential/dense_output_0``.
    """

    naming = _NAMING
    names = KERAS
    collection_class: ClassVar[type[AnyCollection]] = Collection
    default_collections = ("metrics", "losses", "sm_metrics")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        keras.callbacks.Callback.__init__(self)
        BaseHook.__init__(self, *args, **kwargs)
        set_hook(self)
        self._begin(are_collections_complete=False)

    def on_train_begin(self, logs: Any = None) -> None:
        """Capture what the collections select by now."""
        self._begin()

    on_test_begin = on_predict_begin = on_train_begin

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Save the number of the batch as metric ``batch``."""
        session = self._session
        if session is not None:
            session.guard.run(session.recorder.log, {"batch": float(batch)}, CollectionKeys.METRICS)

    def on_train_end(self, logs: Any = None) -> None:
        """Save the last metrics, whatever is scheduled."""
        session = self._session
        if session is not None:
            session.guard.run(session.recorder.given.flush)

    def wrap_optimizer(self, optimizer: T) -> T:
        """Return the optimizer: gradients are captured without a wrapper."""
        self._begin()
        return optimizer

    def wrap_tape(self, tape: T) -> T:
        """Return the tape: gradients are captured without a wrapper."""
        self._begin()
        return tape

    def register_model(self, model: Any) -> None:
        """Capture what the collections select by now: layers are captured without registration."""
        self._begin()
