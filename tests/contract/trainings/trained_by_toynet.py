"""A small network of the toy framework, for the contract of adapters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "toy_framework"))

import toynet
import toynet_adapter  # noqa: F401 - Leadline then waits for toynet

CAPTURE = [
    "all:every=1",
    "layers:every=1",
    "labels:every=1",
    "predictions:every=1",
    "optimizer_variables:every=1",
    "checks:every=1",
]


def owners() -> list[Any]:
    return [toynet, toynet.Layer, toynet.Loss, toynet.Tensor, toynet.Momentum]


def train() -> bytes:
    generator = np.random.default_rng(0)
    x = toynet.Tensor(generator.normal(size=(16, 5)))
    y = toynet.Tensor(np.eye(3)[generator.integers(0, 3, 16)])
    first, last = toynet.Linear("first", 5, 8, generator), toynet.Linear("last", 8, 3, generator)
    model = toynet.Sequential("network", first, toynet.relu, last, toynet.sigmoid)
    loss_of, optimizer = toynet.BinaryCrossEntropy(), toynet.Momentum(model, 0.1)
    for _ in range(6):
        loss_of(model(x), y).backward()
        optimizer.step()
    return b"".join(parameter.data.tobytes() for _, parameter in model.parameters())
