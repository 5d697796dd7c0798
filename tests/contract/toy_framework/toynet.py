"""A toy framework: reverse-mode differentiation of numpy arrays, layers, losses and an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

__version__ = "1.0"
Backward = Callable[[Any], Sequence[Any]]


class Tensor:
    """An array, the operator that computed it, and the gradient of what ``backward`` was called of."""

    def __init__(self, data: Any, kind: str = "input", inputs: Sequence[Tensor] = (), pull: Backward | None = None):
        self.data = np.asarray(data, dtype=np.float64)
        self.kind, self.inputs, self.pull = kind, tuple(inputs), pull
        self.grad: Any = None

    def backward(self) -> None:
        """Add the gradients of the sum of this tensor to all tensors that it was computed from."""
        order: list[Tensor] = []
        seen: set[int] = set()

        def visit(tensor: Tensor) -> None:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                for given in tensor.inputs:
                    visit(given)
                order.append(tensor)

        visit(self)
        gradients = {id(self): np.ones_like(self.data)}
        for tensor in reversed(order):
            gradient = gradients[id(tensor)]
            tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient
            if tensor.pull is not None:
                for given, part in zip(tensor.inputs, tensor.pull(gradient), strict=True):
                    gradients[id(given)] = gradients.get(id(given), 0.0) + part

    def __add__(self, other: Tensor) -> Tensor:
        return Tensor(self.data + other.data, "add", (self, other), lambda g: (g, _fitted(g, other.data.shape)))

    def __matmul__(self, other: Tensor) -> Tensor:
        return Tensor(self.data @ other.data, "matmul", (self, other), lambda g: (g @ other.data.T, self.data.T @ g))


def _fitted(gradient: Any, shape: tuple[int, ...]) -> Any:
    return gradient if gradient.shape == shape else gradient.sum(0)


def relu(x: Tensor) -> Tensor:
    """Return the positive part."""
    return Tensor(np.maximum(x.data, 0), "relu", (x,), lambda g: (g * (x.data > 0),))


def sigmoid(x: Tensor) -> Tensor:
    """Return the logistic function."""
    y = 1 / (1 + np.exp(-x.data))
    return Tensor(y, "sigmoid", (x,), lambda g: (g * y * (1 - y),))


class Layer:
    """A part of a model."""

    name = ""

    def __call__(self, *inputs: Tensor) -> Tensor:
        return self.forward(*inputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute the output."""
        raise NotImplementedError

    def parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the parameters with their names."""
        yield from ()


class Linear(Layer):
    """A linear layer."""

    def __init__(self, name: str, inputs: int, outputs: int, generator: Any):
        self.name = name
        self.weight = Tensor(generator.normal(size=(inputs, outputs)) / inputs**0.5, "parameter")
        self.bias = Tensor(np.zeros(outputs), "parameter")

    def forward(self, *inputs: Tensor) -> Tensor:
        return inputs[0] @ self.weight + self.bias

    def parameters(self) -> Iterator[tuple[str, Tensor]]:
        yield f"{self.name}/weight", self.weight
        yield f"{self.name}/bias", self.bias


class Sequential(Layer):
    """Layers and functions, one after the other."""

    def __init__(self, name: str, *parts: Callable[[Tensor], Tensor]):
        self.name, self.parts = name, parts

    def forward(self, *inputs: Tensor) -> Tensor:
        output = inputs[0]
        for part in self.parts:
            output = part(output)
        return output

    def parameters(self) -> Iterator[tuple[str, Tensor]]:
        for part in self.parts:
            if isinstance(part, Layer):
                yield from part.parameters()


class Loss(Layer):
    """The mean loss of predictions, given labels."""


class MeanSquaredError(Loss):
    """The mean of squared differences."""

    name = "mean_squared_error"

    def forward(self, *inputs: Tensor) -> Tensor:
        predictions, labels = inputs
        difference = predictions.data - labels.data
        loss = np.mean(difference**2)
        return Tensor(loss, self.name, inputs, lambda g: (2 * g * difference / difference.size, 0.0 * difference))


class BinaryCrossEntropy(Loss):
    """The binary cross entropy of probabilities."""

    name = "binary_cross_entropy"

    def forward(self, *inputs: Tensor) -> Tensor:
        p, y = inputs[0].data, inputs[1].data
        loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
        return Tensor(loss, self.name, inputs, lambda g: (g * (p - y) / (p * (1 - p)) / p.size, 0.0 * y))


class Momentum:
    """Gradient descent with momentum."""

    def __init__(self, model: Layer, rate: float, momentum: float = 0.9):
        self.model, self.rate, self.momentum = model, rate, momentum
        self.velocities = {name: np.zeros_like(parameter.data) for name, parameter in model.parameters()}

    def step(self) -> None:
        """Update the parameters, and forget their gradients."""
        for name, parameter in self.model.parameters():
            self.velocities[name] = self.momentum * self.velocities[name] + parameter.grad
            parameter.data = parameter.data - self.rate * self.velocities[name]
            parameter.grad = None
