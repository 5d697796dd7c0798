"""Evaluation by Keras on JAX: its eval steps, their losses, and their batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.jax.scalars import EpochMeans
from leadline.frameworks.jax.tensors import LOSS
from leadline.frameworks.keras.batches import EvaluatedBatch
from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Guard

Original = Callable[..., Any]


class KerasEvaluation:
    """Makes a step of each batch of ``evaluate``, whose own function is called with it."""

    def __init__(self, callbacks: StepCallbacks) -> None:
        self._callbacks = callbacks
        self._losses = callbacks.facts.of("losses are", is_vital=True)
        self._layers = callbacks.facts.of("layers are")
        self._models: list[Any] = []
        """Those whose ``evaluate`` is running."""
        self._means = EpochMeans()
        self._samples = 0
        self._batch = EvaluatedBatch(callbacks.note, _as_given)
        self.is_running = False
        """Whether a batch is evaluated that was not seen yet."""

    def see_call(self, args: tuple[Any, ...]) -> None:
        """Look at the call of a compiled function: the first one of a batch is given its state and data."""
        if not self.is_running or len(args) != 2:
            return
        self.is_running = False
        leaves = jax.tree_util.tree_leaves(args[1])
        self._samples = len(leaves[0]) if leaves else 0
        if self._batch.is_wanted:
            self._layers.call(self._batch.take, args[1])

    def make_evaluate(self) -> Callable[[Original], Original]:
        """Return a maker of methods that know which model is evaluated."""

        def make(original: Original) -> Original:
            def evaluate(model: Any, *args: Any, **kwargs: Any) -> Any:
                self._models.append(model)
                self._means = EpochMeans()
                try:
                    return original(model, *args, **kwargs)
                finally:
                    self._models.pop()
                    self.is_running = False

            return evaluate

        return make

    def follow_callbacks(self, patches: Patches, owner: type, guard: Guard) -> None:
        """Replace the methods that tell callbacks of a batch."""
        patches.replace(owner, "on_test_batch_begin", self._before(guard, self._begin))
        patches.replace(owner, "on_test_batch_end", self._before(guard, self._end))

    def _before(self, guard: Guard, tell: Callable[[Any], None]) -> Callable[[Original], Original]:
        def make(original: Original) -> Original:
            def method(listed: Any, batch: Any, logs: Any = None) -> Any:
                guard.run(tell, logs)
                return original(listed, batch, logs=logs)

            return method

        return make

    def _begin(self, logs: object) -> None:
        model = self._models[-1] if self._models else None
        if model is None:
            return
        evaluation = self._callbacks.evaluation
        items = evaluation.begin_step()
        is_single = getattr(model, "steps_per_execution", 1) == 1
        self._layers.call(self._batch.begin, items if is_single else (), evaluation.mode(), model)
        self.is_running, self._samples = is_single, 0

    def _end(self, logs: Mapping[str, Any] | None) -> None:
        if not self._models:
            return
        evaluation, mean = self._callbacks.evaluation, (logs or {}).get(LOSS)
        if mean is not None and self._samples:
            loss = self._losses.call(self._means.next, mean, self._samples)
            if loss is not None:
                evaluation.record_loss(LOSS, loss)
        evaluation.end_step(self._batch.captured)


class KerasBatches(Protocol):
    """What is known of the batches that Keras trains on and evaluates."""

    @property
    def evaluation(self) -> KerasEvaluation:
        """The batches that it evaluates."""

    def losses_of(self, result: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Return the loss of a training batch, from the result and the arguments of the training function."""

    def labels_of_step(self, args: Sequence[Any]) -> list[NamedTensor]:
        """Return the labels of a training batch, from the arguments of the training function."""


def _as_given(array: Any) -> Any:
    """Return an array with the type that a function of JAX is given."""
    array = np.asarray(array)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
