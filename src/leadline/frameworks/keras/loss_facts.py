"""Facts about what a loss of Keras is given, the same on every backend; see ``leadline.records.loss_facts``."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from leadline.frameworks.kit.array_verbs import ArrayVerbs
from leadline.frameworks.kit.loss_facts import PredictionTrace, is_outer, label_facts, repeats_of_labels, traced_facts
from leadline.records import loss_facts as facts
from leadline.records.loss_facts import Activation, LossKind

_KINDS: Final = {
    "binary_crossentropy": LossKind.BINARY_CROSS_ENTROPY,
    "binary_focal_crossentropy": LossKind.BINARY_CROSS_ENTROPY,
    "categorical_crossentropy": LossKind.CATEGORICAL_CROSS_ENTROPY,
    "categorical_focal_crossentropy": LossKind.CATEGORICAL_CROSS_ENTROPY,
    "huber": LossKind.SMOOTH_ABSOLUTE_ERROR,
    "log_cosh": LossKind.SMOOTH_ABSOLUTE_ERROR,
    "mean_absolute_error": LossKind.ABSOLUTE_ERROR,
    "mean_squared_error": LossKind.SQUARED_ERROR,
    "mean_squared_logarithmic_error": LossKind.SQUARED_LOGARITHMIC_ERROR,
    "sparse_categorical_crossentropy": LossKind.CATEGORICAL_CROSS_ENTROPY,
}
_OF_LOGITS: Final = {
    LossKind.BINARY_CROSS_ENTROPY: LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS,
    LossKind.CATEGORICAL_CROSS_ENTROPY: LossKind.CROSS_ENTROPY,
}
_OF_PROBABILITIES: Final = {of_logits: kind for kind, of_logits in _OF_LOGITS.items()}
_TAKEN_BACK: Final = {
    LossKind.CROSS_ENTROPY: "Softmax",
    LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS: "Sigmoid",
}
"""The activation that Keras takes back on TensorFlow, whatever ``from_logits`` says: it computes with its input."""
_MEANS: Final = frozenset({"mean", "mean_with_sample_weight", "sum_over_batch_size"})
"""Reductions that do not depend on the size of the batch."""


class LossFacts(NamedTuple):
    """Facts about one loss call."""

    name: str
    known: dict[str, float]
    computed: dict[str, Any]
    """Scalars of the backend, which are computed with each batch."""


def is_single_loss(loss: Any) -> bool:
    """Return whether a ``keras.losses.Loss`` is one loss call, and not the sum over all outputs of a model."""
    return type(loss).__name__ != "CompileLoss"


def name_of(loss: Any) -> str:
    """Return the name of a ``keras.losses.Loss``: that of its function if Keras has it, ``mean_squared_error``."""
    function = _function_of(loss)
    return function if function in _KINDS else str(loss.name)


def has_class_indices(loss: Any) -> bool:
    """Return whether the labels of a ``keras.losses.Loss`` are class indices, whatever their type is."""
    return _function_of(loss).startswith("sparse")


def kind_of(loss: Any) -> LossKind | None:
    """Return the kind of a ``keras.losses.Loss``; None: it is not known."""
    kind = _KINDS.get(_function_of(loss))
    if kind is not None and loss._fn_kwargs.get("from_logits"):
        return _OF_LOGITS.get(kind, kind)
    return kind


def facts_of(
    loss: Any, labels: Any, predictions: Any, trace: PredictionTrace, *, model: Any, is_weighted: bool
) -> LossFacts | None:
    """Return the facts about a loss call; None: the loss is not known.

    Args:
        loss: A ``keras.losses.Loss``.
        labels: A tensor of the backend, as given to the loss.
        predictions: A tensor of the backend, as given to the loss.
        trace: What lies between the loss and the layer before it.
        model: The model whose ``fit`` or ``train_on_batch`` is running; None: none is.
        is_weighted: Whether the samples have weights.
    """
    kind = kind_of(loss)
    if kind is None:
        return None
    kind = _OF_PROBABILITIES[kind] if _is_taken_back(predictions, kind) else kind
    sizes = _sizes(predictions)
    aligned = _aligned(_sizes(labels), sizes)
    classes = (sizes[-1] or 0) if len(sizes) > 1 else 1
    is_sparse = has_class_indices(loss)
    known = {
        **traced_facts(kind, trace),
        facts.IS_BROADCAST: float(not is_sparse and is_outer(*aligned)),
        facts.CLASSES: float(classes),
        facts.IS_WHOLE_LOSS: float(not is_weighted and loss.reduction in _MEANS and _is_only_loss(model)),
        facts.HAS_ACCURACY: float(_has_accuracy(model)),
    }
    if not is_sparse:
        known[facts.LABEL_REPEATS] = float(repeats_of_labels(*aligned))
    is_of_classes = kind in (LossKind.CROSS_ENTROPY, LossKind.CATEGORICAL_CROSS_ENTROPY)
    if classes and (is_of_classes or trace.activation is Activation.SOFTMAX):
        known[facts.SOFTMAX_SIZE] = float(classes)
    computed = {} if is_sparse else _label_numbers(labels, kind, trace.activation)
    return LossFacts(name_of(loss), known, computed)


def _is_taken_back(predictions: Any, kind: LossKind) -> bool:
    """Return whether Keras computes a loss of logits from the input of the activation that it was given."""
    if kind not in _TAKEN_BACK or sys.modules["keras"].backend.backend() != "tensorflow":
        return False
    operation = getattr(predictions, "op", None)  # of symbolic tensors
    return hasattr(predictions, "_keras_logits") or getattr(operation, "type", "") == _TAKEN_BACK[kind]


def _function_of(loss: Any) -> str:
    return getattr(getattr(loss, "fn", None), "__name__", "")


class KerasVerbs(ArrayVerbs):
    """Operations on tensors of the backend of Keras, symbolic ones too."""

    def __init__(self) -> None:
        self._ops: Any = sys.modules["keras"].ops
        super().__init__(self._ops)

    def doubles(self, values: Any) -> Any:
        return self._ops.cast(values, "float64")

    def count(self, values: Any) -> Any:
        return self._ops.size(values)

    def given(self, condition: Any, number: Any) -> Any:
        return self._ops.where(condition, number, self._ops.full_like(number, math.nan))


def _label_numbers(labels: Any, kind: LossKind, activation: Activation) -> dict[str, Any]:
    has_classes = len(labels.shape) == 2 and (labels.shape[1] or 0) > 1
    return label_facts(KerasVerbs(), labels, kind, activation, has_classes=has_classes)


# --- shapes ---------------------------------------------------------------------------------------------------


def _sizes(tensor: Any) -> tuple[int | None, ...]:
    return tuple(tensor.shape)


def _aligned(
    labels: Sequence[int | None], predictions: Sequence[int | None]
) -> tuple[list[int | None], list[int | None]]:
    """Return two shapes as a loss compares them: Keras drops or adds a last dimension of size 1."""
    one, other = list(labels), list(predictions)
    for longer, shorter in ((one, other), (other, one)):
        if len(longer) == len(shorter) + 1 and longer[-1] == 1:
            if len(shorter) == 1:
                shorter.append(1)
            else:
                longer.pop()
    return one, other


# --- what the model was compiled with -------------------------------------------------------------------------


def _is_only_loss(model: Any) -> bool:
    """Whether a model has one loss, with nothing added to it."""
    losses = _losses(model)
    if len(losses) != 1 or losses[0].loss_weights is not None:
        return False
    has_own = any(layer._losses for layer in model._flatten_layers())
    return not has_own and not any(variable.regularizer for variable in model.trainable_variables)


def _losses(model: Any) -> Sequence[Any]:
    return getattr(getattr(model, "_compile_loss", None), "_flat_losses", None) or ()


def _has_accuracy(model: Any) -> bool:
    """Whether an accuracy is computed of a model's only output."""
    if len(_losses(model)) != 1:
        return False
    metrics = getattr(getattr(model, "_compile_metrics", None), "_user_metrics", None)
    return any(metric in ("acc", "accuracy") or _is_accuracy(metric) for metric in _flat(metrics))


def _is_accuracy(metric: Any) -> bool:
    return type(metric).__name__ in ("Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "SparseCategoricalAccuracy")


def _flat(metrics: Any) -> Iterator[Any]:
    if isinstance(metrics, dict):
        metrics = list(metrics.values())
    if not isinstance(metrics, (list, tuple)):
        yield metrics
        return
    for metric in metrics:
        yield from _flat(metric)
