"""What TensorFlow computes between the last layer and a loss of Keras, from the graph of a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leadline.frameworks.kit.loss_trace import LossTrace, Operator
from leadline.records.loss_facts import Activation

_ARITHMETIC: Final = ("AddV2", "Mul", "RealDiv", "Sub")
_DROPOUT: Final = "dropout"
_OPERATORS: Final[dict[str, Activation | Operator]] = {
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
    _DROPOUT: Operator.DROPOUT,
    **dict.fromkeys(_ARITHMETIC, Operator.RESCALING),
    **dict.fromkeys(
        ("BiasAdd", "Conv2D", "DepthwiseConv2dNative", "Einsum", "FusedBatchNormV3", "MatMul"), Operator.LAYER
    ),
    **dict.fromkeys(
        ("Cast", "ClipByValue", "ExpandDims", "Identity", "Reshape", "Squeeze", "StridedSlice"), Operator.SAME
    ),
}
_FIXED: Final = frozenset({"Const", "ReadVariableOp"})
"""What is added to the output of a layer, such as its bias, or multiplied with it."""


def trace_of(predictions: Any) -> LossTrace:
    """Return what lies between a symbolic tensor and the layer before it."""
    return LossTrace(_OPERATORS).follow(predictions, _read)


def _read(tensor: Any) -> tuple[str, Sequence[Any]]:
    noisy = _below_dropout(tensor)
    if noisy is not None:
        return _DROPOUT, [noisy]
    kind = tensor.op.type
    if kind not in _ARITHMETIC:
        return kind, tensor.op.inputs
    data = [operand for operand in tensor.op.inputs if not _is_fixed(operand)]
    return kind, data if len(data) == 1 else []


def _is_fixed(tensor: Any) -> bool:
    while tensor.op.type in ("Cast", "Reshape"):
        tensor = tensor.op.inputs[0]
    return tensor.op.type in _FIXED


def _below_dropout(tensor: Any) -> Any | None:
    """Return what dropout was applied to; None: this is not the output of dropout."""
    if tensor.op.type != "SelectV2" or tensor.op.inputs[0].op.type != "GreaterEqual":
        return None
    scaled = tensor.op.inputs[1]
    if scaled.op.type != "Mul" or "random" not in tensor.op.inputs[0].op.inputs[0].op.name:
        return None
    return scaled.op.inputs[0]
