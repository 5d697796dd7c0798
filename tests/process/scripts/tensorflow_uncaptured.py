"""Trains in ways that Leadline does not capture, or not wholly. Argument: the way."""

from __future__ import annotations

import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

STEPS = 8
X = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
Y = X[:, :1]


class Trained(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(tf.zeros((4, 1)), name="weight")

    @tf.function(input_signature=[tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1))])
    def train(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ self.weight - y) ** 2)
        self.weight.assign_sub(0.1 * tape.gradient(loss, self.weight))
        return loss


class Printing(Trained):
    @tf.function
    def train(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ self.weight - y) ** 2)
        tf.print("a line", output_stream="file:///dev/null")
        self.weight.assign_sub(0.1 * tape.gradient(loss, self.weight))
        return loss


def train(model):
    for _ in range(STEPS):
        model.train(tf.constant(X), tf.constant(Y))
    return model.weight.numpy()


def restored():
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(Trained(), folder)
        return train(tf.saved_model.load(folder))


def printing():
    return train(Printing())


def session():
    v1 = tf.compat.v1
    v1.disable_v2_behavior()
    weight = v1.get_variable("weight", initializer=np.zeros((4, 1), "float32"))
    loss = tf.reduce_mean((X @ weight - Y) ** 2)
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with v1.Session() as running:
        running.run(v1.global_variables_initializer())
        for _ in range(STEPS):
            running.run(step)
        return running.run(weight)


print(np.asarray(globals()[sys.argv[1]]()).tobytes().hex())
