"""A small network of Keras on PyTorch, for the contract of adapters."""

from __future__ import annotations

import os
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
from keras.src.optimizers.base_optimizer import BaseOptimizer

CAPTURE = ["all:every=1", "layers:every=1", "losses:every=1,modes=eval", "optimizer_variables:every=1"]


def owners() -> list[Any]:
    return [BaseOptimizer, torch.nn.Module]


def train() -> bytes:
    torch.set_num_threads(1)
    keras.utils.set_random_seed(3)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dropout(0.2), layers.Dense(3)], name="network"
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    generator = np.random.default_rng(0)
    samples, labels = generator.normal(size=(96, 5)).astype("float32"), generator.integers(0, 3, 96)
    model.fit(samples, labels, batch_size=16, verbose=0)
    model.evaluate(samples, labels, batch_size=48, verbose=0)
    return b"".join(value.numpy().tobytes() for value in [*model.variables, *model.optimizer.variables])
