"""A small network of Keras on TensorFlow, for the contract of adapters."""

from __future__ import annotations

import os
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.callbacks.callback_list import CallbackList
from keras.src.optimizers.base_optimizer import BaseOptimizer
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

CAPTURE = [
    "all:every=1",
    "layers:every=1",
    "labels:every=1",
    "predictions:every=1",
    "losses:every=1,modes=eval",
    "optimizer_variables:every=1",
]


def owners() -> list[Any]:
    return [
        Function,
        tf.GradientTape,
        keras.layers.Layer,
        keras.losses.Loss,
        BaseOptimizer,
        TFOptimizer,
        TensorFlowTrainer,
        CallbackList,
    ]


def train() -> bytes:
    keras.utils.set_random_seed(3)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dropout(0.2), layers.Dense(3)], name="network"
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    generator = np.random.default_rng(0)
    samples, labels = generator.normal(size=(96, 5)).astype("float32"), generator.integers(0, 3, 96)
    model.fit(samples, labels, batch_size=16, verbose=0)
    model.evaluate(samples, labels, batch_size=48, verbose=0)
    return b"".join(np.asarray(value).tobytes() for value in [*model.variables, *model.optimizer.variables])
