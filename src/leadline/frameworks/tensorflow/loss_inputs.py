"""Facts about what the losses of Keras are given, as named in ``leadline.records.loss_facts``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import tensorflow as tf

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import Activation, LossKind

_MAX_OPERATIONS: Final = 24
_MAX_NAMED: Final = 4
_MIN_ROWS: Final = 8
"""Fewer rows of labels may have a single 1 by chance."""
_TOLERANCE: Final = 1e-3
"""Share of an activation's reach by which rounding may take labels beyond it."""
_KINDS: Final = {
    "categorical_crossentropy": LossKind.CATEGORICAL_CROSS_ENTROPY,
    "sparse_categorical_crossentropy": LossKind.CATEGORICAL_CROSS_ENTROPY,
    "binary_crossentropy": LossKind.BINARY_CROSS_ENTROPY,
    "mean_squared_error": LossKind.SQUARED_ERROR,
    "mean_absolute_error": LossKind.ABSOLUTE_ERROR,
    "huber": LossKind.SMOOTH_ABSOLUTE_ERROR,
    "log_cosh": LossKind.SMOOTH_ABSOLUTE_ERROR,
}
_OF_LOGITS: Final = {
    LossKind.CATEGORICAL_CROSS_ENTROPY: LossKind.CROSS_ENTROPY,
    LossKind.BINARY_CROSS_ENTROPY: LossKind.BINARY_CROSS_ENTROPY_WITH_LOGITS,
}
_OWN: Final = {
    LossKind.CATEGORICAL_CROSS_ENTROPY: Activation.SOFTMAX,
    LossKind.BINARY_CROSS_ENTROPY: Activation.SIGMOID,
}
"""Activations whose input Keras takes in place of their output, whatever ``from_logits`` is."""
_ACTIVATIONS: Final = {
    "Elu": Activation.OTHER,
    "Exp": Activation.EXP,
    "LeakyRelu": Activation.OTHER,
    "LogSoftmax": Activation.LOG_SOFTMAX,
    "Relu": Activation.RELU,
    "Selu": Activation.OTHER,
    "Sigmoid": Activation.SIGMOID,
    "Softmax": Activation.SOFTMAX,
    "Softplus": Activation.SOFTPLUS,
    "Tanh": Activation.TANH,
}
_LAYERS: Final = frozenset({"BiasAdd", "Conv2D", "DepthwiseConv2dNative", "Einsum", "FusedBatchNormV3", "MatMul"})
_SAME: Final = frozenset({"Cast", "ClipByValue", "ExpandDims", "Identity", "Reshape", "Squeeze", "StridedSlice"})
_ARITHMETIC: Final = frozenset({"AddV2", "Mul", "RealDiv", "Sub"})
_CONSTANT: Final = "Const"


class LossFacts(NamedTuple):
    """Facts about one loss call."""

    kind: LossKind
    known: dict[str, float]
    computed: dict[str, Any]
    """Scalars that are computed with each batch."""


def facts_of(loss: Any, labels: Any, predictions: Any) -> LossFacts | None:
    """Return the facts about a loss call whose function is traced; None: the loss is not known.

    Args:
        loss: A ``keras.losses.Loss``.
        labels: A symbolic tensor, as given to the loss.
        predictions: A symbolic tensor, as given to the loss.
    """
    name = getattr(getattr(loss, "fn", None), "__name__", "")
    kind = _KINDS.get(name)
    if kind is None or not hasattr(predictions, "op"):
        return None
    trace = _Trace().follow(predictions)
    if loss._fn_kwargs.get("from_logits") and trace.activation is not _OWN.get(kind):
        kind = _OF_LOGITS.get(kind, kind)
    known = {
        facts.KIND: float(kind),
        facts.ACTIVATION: float(trace.activation),
        facts.INNER_ACTIVATION: float(trace.inner),
        facts.IS_RESCALED: float(trace.is_rescaled),
        facts.IS_BROADCAST: 0.0,
    }
    shape = predictions.shape
    size = (shape[-1] or 0) if shape.rank and shape.rank > 1 else 1
    if trace.activation is Activation.SOFTMAX or kind is LossKind.CROSS_ENTROPY:
        known[facts.SOFTMAX_SIZE] = float(size)
    known[facts.CLASSES] = float(size)
    computed = {} if name.startswith("sparse") else _label_numbers(labels, kind, trace.activation)
    return LossFacts(kind, known, computed)


def _label_numbers(labels: Any, kind: LossKind, activation: Activation) -> dict[str, Any]:
    labels = tf.cast(labels, tf.float64)
    is_binary = tf.reduce_all((labels == 0) | (labels == 1))
    found = {
        facts.LABEL_MIN: tf.reduce_min(labels),
        facts.LABEL_MAX: tf.reduce_max(labels),
        facts.ARE_LABELS_BINARY: tf.cast(is_binary, tf.float64),
    }
    if labels.shape.rank == 2 and (labels.shape[1] or 0) > 1:
        sums, is_binary_number = tf.reduce_sum(labels, 1), tf.cast(is_binary, tf.float64)
        share = tf.reduce_mean(tf.cast(sums == 1, tf.float64)) * is_binary_number
        found[facts.ONE_HOT_SHARE] = tf.where(tf.size(sums) >= _MIN_ROWS, share, tf.constant(math.nan, tf.float64))
        found[facts.MULTI_HOT_SHARE] = tf.reduce_mean(tf.cast(sums > 1, tf.float64)) * is_binary_number
    reach = facts.reach(activation)
    if reach is not None and kind in facts.REGRESSION:
        margin = _TOLERANCE * (reach[1] - reach[0] if math.isfinite(reach[1] - reach[0]) else 1.0)
        is_beyond = (labels < reach[0] - margin) | (labels > reach[1] + margin)
        found[facts.OUT_OF_REACH_SHARE] = tf.reduce_mean(tf.cast(is_beyond, tf.float64))
    return found


class _Trace:
    """What lies between a loss and the layer before it."""

    def __init__(self) -> None:
        self.activation = self.inner = Activation.UNKNOWN
        self.is_rescaled = False

    def follow(self, tensor: Any) -> _Trace:
        """Follow a symbolic tensor back to a layer, or to an operation that is not known; return the trace."""
        is_inner = False
        for _ in range(_MAX_OPERATIONS):
            kind = tensor.op.type
            if kind in _LAYERS:
                self._end(Activation.NONE, is_inner=is_inner)
                break
            if kind in _ACTIVATIONS:
                self._end(_ACTIVATIONS[kind], is_inner=is_inner)
                if is_inner:
                    break
                is_inner = True
            elif kind in _ARITHMETIC and not is_inner:
                self.is_rescaled = True
            elif kind not in _SAME:
                break
            data = [each for each in tensor.op.inputs if each.op.type != _CONSTANT] if kind in _ARITHMETIC else []
            if kind in _ARITHMETIC and len(data) != 1:
                break
            tensor = data[0] if data else tensor.op.inputs[0]
        return self

    def _end(self, activation: Activation, *, is_inner: bool) -> None:
        if is_inner:
            self.inner = activation
        else:
            self.activation = activation


class LinearLayerPairs:
    """Pairs of linear or convolution layers without anything in between, found while a function is traced.

    Not a pair are: layers whose output something else uses as well, a narrow layer between two wider ones, convolutions
    with groups or with a kernel of size 1 in some dimension.
    """

    def __init__(self) -> None:
        self._outputs: dict[int, tuple[Any, Any, str]] = {}
        """Outputs, layers and names of linear layers; a tensor that is kept keeps its id."""
        self._uses: Counter[int] = Counter()
        self._pairs: list[tuple[int, str, str]] = []

    def add(self, layer: Any, name: str, inputs: Sequence[Any], output: Any) -> None:
        """Look at the call of a layer, after those of the layers within it."""
        if getattr(layer, "_layers", None):
            return
        self._uses.update(map(id, inputs))
        if len(inputs) == 1 and id(inputs[0]) in self._outputs:
            _, first, first_name = self._outputs[id(inputs[0])]
            if _kind(layer) == _kind(first) and not _is_factored(first, layer):
                self._pairs.append((id(inputs[0]), first_name, name))
        if _kind(layer) and getattr(layer.activation, "__name__", "linear") == "linear":
            self._outputs[id(output)] = (output, layer, name)

    def numbers(self) -> dict[str, float]:
        """Return the facts about them."""
        pairs = dict.fromkeys((first, second) for output, first, second in self._pairs if self._uses[output] == 1)
        named = {f"{first}+{second}/{facts.CONSECUTIVE_LINEAR}": 1.0 for first, second in list(pairs)[:_MAX_NAMED]}
        return {f"loss/{facts.CONSECUTIVE_LINEAR}": float(len(pairs)), **named}


def _kind(layer: Any) -> str:
    name = type(layer).__name__
    return name if name in ("Dense", "Conv1D", "Conv2D", "Conv3D") else ""


def _is_factored(first: Any, second: Any) -> bool:
    """Whether two layers are the factors of one on purpose."""
    if _kind(first) != "Dense":
        return any(1 in layer.kernel_size or layer.groups > 1 for layer in (first, second))
    return bool(first.units < first.kernel.shape[0] and first.units < second.units)
