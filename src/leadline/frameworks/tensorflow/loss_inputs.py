"""What TensorFlow computes between the last layer and a loss of Keras, from the graph of a function."""

from __future__ import annotations

from typing import Any, Final

from leadline.records.loss_facts import Activation

_MAX_OPERATIONS: Final = 24
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
_FIXED: Final = frozenset({"Const", "ReadVariableOp"})
"""What is added to the output of a layer, such as its bias, or multiplied with it."""


class GraphTrace:
    """What lies between a loss and the layer before it."""

    def __init__(self) -> None:
        self.activation = self.inner = Activation.UNKNOWN
        self.is_rescaled = self.has_dropout = False

    def follow(self, tensor: Any) -> GraphTrace:
        """Follow a symbolic tensor back to a layer, or to an operation that is not known; return the trace."""
        is_inner = False
        for _ in range(_MAX_OPERATIONS):
            noisy = _below_dropout(tensor)
            if noisy is not None:
                self.has_dropout, tensor = True, noisy
                continue
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
            data = [each for each in tensor.op.inputs if not _is_fixed(each)] if kind in _ARITHMETIC else []
            if kind in _ARITHMETIC and len(data) != 1:
                break
            tensor = data[0] if data else tensor.op.inputs[0]
        return self

    def _end(self, activation: Activation, *, is_inner: bool) -> None:
        if is_inner:
            self.inner = activation
        else:
            self.activation = activation


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
