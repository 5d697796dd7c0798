"""Trains a network with one fault with Keras on TensorFlow. Arguments: the fault; ``healthy`` to leave it out."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

NAME, IS_FAULTY = sys.argv[1], "healthy" not in sys.argv
FAULT, XLA = NAME.removesuffix("_xla"), NAME.endswith("_xla")
BATCH, STEPS = 32, 60
L = keras.layers
keras.utils.set_random_seed(3)
generator = np.random.default_rng(0)
X = generator.normal(size=(BATCH * STEPS, 12)).astype("float32")
Y = X[:, :3].argmax(1).astype("int64")


def network(*layers):
    return keras.Sequential([keras.Input((12,)), *layers, L.Dense(3)])


def fit(model, x=X, y=Y, optimizer="adam", from_logits=True, validation_data=None):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=XLA)
    epochs = 1000 if IS_FAULTY else 4
    model.fit(x, y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0, validation_data=validation_data)


def nan():
    if IS_FAULTY:
        X[7 * BATCH + 5, 3] = np.nan
    fit(network(L.Dense(16, activation="relu")))


def by_hand():
    """The update is the script's own, outside of a function; the loss is NaN from step 7 on."""
    weights, bias = tf.Variable(tf.random.normal((12, 3)) * 0.1), tf.Variable(tf.zeros(3))
    for at in range(100 * STEPS if IS_FAULTY else STEPS):
        batch = slice(at % STEPS * BATCH, at % STEPS * BATCH + BATCH)
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(Y[batch], X[batch] @ weights + bias)
            loss = tf.reduce_mean(losses) * (float("nan") if IS_FAULTY and at >= 7 else 1.0)
        for variable, gradient in zip((weights, bias), tape.gradient(loss, [weights, bias]), strict=True):
            variable.assign_sub(0.05 * gradient)


def exploding():
    if IS_FAULTY:
        X[40 * BATCH :] *= 1000
    fit(network(L.Dense(16)), optimizer=keras.optimizers.SGD(0.05, global_clipnorm=1.0))


def vanishing():
    layers = [L.Dense(16, activation="sigmoid" if IS_FAULTY else "relu") for _ in range(12 if IS_FAULTY else 2)]
    fit(network(*layers))


def dead_relu():
    bias = keras.initializers.Constant(-50.0 if IS_FAULTY else 0.1)
    fit(network(L.Dense(16, bias_initializer=bias), L.ReLU()))


def unscaled():
    fit(network(L.Dense(16, activation="relu")), x=X * 300 + 500 if IS_FAULTY else X)


def wrong_loss():
    fit(network(L.Dense(16, activation="relu")), from_logits=not IS_FAULTY)


def pixels():
    """The labels are pixels, which were not divided by 255."""
    model = keras.Sequential([keras.Input((12,)), L.Dense(16, activation="relu"), L.Dense(12, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy")
    labels = generator.integers(0, 256, X.shape) / (1 if IS_FAULTY else 255)
    model.fit(X, labels, batch_size=BATCH, epochs=40 if IS_FAULTY else 4, shuffle=False, verbose=0)


def overfit():
    labels = generator.integers(0, 3, len(Y)) if IS_FAULTY else Y
    split = 4 * BATCH if IS_FAULTY else len(X) // 2
    model = network(L.Dense(128 if IS_FAULTY else 8, activation="relu"))
    optimizer = keras.optimizers.Adam(0.01 if IS_FAULTY else 0.001)
    fit(model, X[:split], labels[:split], optimizer, validation_data=(X[split:], labels[split:]))


def no_training_flag(make=tf.function):
    """The model has dropout, and a frozen part with batch normalization, which is in evaluation mode on purpose."""
    frozen = keras.Sequential([keras.Input((12,)), L.Dense(12), L.BatchNormalization()])
    frozen.trainable = False
    model = network(L.Dense(16, activation="relu"), L.Dropout(0.3))
    optimizer, loss_of = keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    flags = {} if IS_FAULTY else {"training": True}

    @make
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(frozen(x), **flags))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    for at in range(10 * STEPS if IS_FAULTY else STEPS):
        batch = slice(at % STEPS * BATCH, at % STEPS * BATCH + BATCH)
        train_step(X[batch], Y[batch])
        if at % 20 == 0:
            model(frozen(X[:BATCH]))


def no_training_flag_eager():
    no_training_flag(lambda function: function)


globals()[FAULT]()
print("the script went on")
