"""Many kinds of training with TensorFlow, one process per kind, which TensorFlow is imported for only once.

Usage: tensorflow_kinds.py [--truth] FOLDER KIND…; writes ``FOLDER/<kind>.json`` with the pid and a digest of the final
weights and optimizer variables; with ``--truth`` also what each step should have captured, computed eagerly beside it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from forks import fork_for_each

options = argparse.ArgumentParser()
options.add_argument("folder")
options.add_argument("kinds", nargs="+")
options.add_argument("--truth", action="store_true")
given = options.parse_args()
KIND = fork_for_each(given.kinds)  # TensorFlow has started nothing yet
if KIND == "convolution_xla":
    os.environ.pop("XLA_FLAGS", None)  # compiled as users have it
BASE, XLA = KIND.removesuffix("_xla"), KIND.endswith("_xla")
BATCH, BATCHES, EPOCHS = 16, 8, 2
L = keras.layers

if BASE == "mirrored":
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
if BASE == "mixed":
    keras.mixed_precision.set_global_policy("mixed_float16")
keras.utils.set_random_seed(3)
generator = np.random.default_rng(0)
X = generator.normal(size=(BATCH * BATCHES, 12)).astype("float32")
Y = X[:, :3].argmax(1).astype("int64")
truth: list[dict[str, float]] = []


def dense(*more):
    return keras.Sequential(
        [
            keras.Input((12,)),
            L.Dense(16, activation="relu", name="first"),
            *more,
            L.Dense(3, name="last", dtype="float32"),
        ]
    )


def convolution():
    return keras.Sequential(
        [
            keras.Input((12,)),
            L.Reshape((3, 4, 1)),
            L.Conv2D(4, 2, padding="same"),
            L.BatchNormalization(),
            L.ReLU(),
            L.GlobalAveragePooling2D(),
            L.Dropout(0.2),
            L.Dense(3),
        ]
    )


def make_loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def batch(number):
    at = number % BATCHES * BATCH
    return X[at : at + BATCH], Y[at : at + BATCH]


def note_truth(model, x, y):
    """Note the loss, the gradients and an activation of a batch, computed eagerly."""
    if not given.truth:
        return
    with tf.GradientTape() as tape:
        loss = make_loss()(y, model(x, training=True))
    grads = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    first = next(layer for layer in model._flatten_layers(include_self=False) if layer.name == "first")
    values = {"loss": loss, "first_output_abs_mean": tf.reduce_mean(tf.abs(tf.cast(first(x), tf.float32)))}
    values |= {f"gradient/{v.path}": tf.norm(g) for v, g in zip(model.trainable_variables, grads, strict=True)}
    values |= {variable.path: tf.norm(variable) for variable in model.trainable_variables}
    truth.append({name: float(value) for name, value in values.items()})


class NotesTruth(keras.callbacks.Callback):
    """Notes the truth about each batch before it."""

    number = 0

    def on_train_batch_begin(self, at, logs=None):
        note_truth(self.model, *batch(self.number))
        self.number += getattr(self.model, "steps_per_execution", 1)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.last = L.Dense(16, activation="relu", name="first"), L.Dense(3, name="last")

    def call(self, x, training=False):
        return self.last(self.first(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(grads, self.trainable_variables)
        return {"loss": loss}


def fit(model, *, optimizer=None, has_truth=True, epochs=EPOCHS, **settings):
    model.compile(optimizer or keras.optimizers.Adam(1e-2), make_loss(), jit_compile=XLA, **settings)
    callbacks = [NotesTruth()] if has_truth else []
    model.fit(X, Y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)
    return [*model.variables, *model.optimizer.variables]


def loop(model, optimizer, *, forward=lambda model, x: model(x, training=True), is_eager=False, has_truth=True):
    loss_function = make_loss()

    def train(x, y):
        with tf.GradientTape() as tape:
            loss = loss_function(y, forward(model, x))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    step = train if is_eager else tf.function(train, jit_compile=XLA or None)
    for number in range(BATCHES * EPOCHS):
        x, y = map(tf.constant, batch(number))
        if has_truth:
            note_truth(model, x, y)
        step(x, y)
    return [*model.variables, *optimizer.variables]


def mirrored():
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        return fit(dense(), optimizer=keras.optimizers.Adam(1e-2), has_truth=False)


def accumulation():
    return fit(dense(), optimizer=keras.optimizers.SGD(0.1, gradient_accumulation_steps=4), has_truth=False)


def train_on_batch():
    model = dense()
    model.compile("sgd", make_loss(), jit_compile=XLA)
    for number in range(BATCHES * EPOCHS):
        note_truth(model, *batch(number))
        model.train_on_batch(*batch(number))
    return [*model.variables, *model.optimizer.variables]


def adversaries():
    generating, judging = (
        keras.Sequential([keras.Input((4,)), L.Dense(12)]),
        keras.Sequential([keras.Input((12,)), L.Dense(1)]),
    )
    optimizers = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)
    bce = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function(jit_compile=XLA or None)
    def step(real, noise):
        with tf.GradientTape() as of_judge, tf.GradientTape() as of_generator:
            made = generating(noise, training=True)
            of_real, of_made = judging(real, training=True), judging(made, training=True)
            judged = bce(tf.ones_like(of_real), of_real) + bce(tf.zeros_like(of_made), of_made)
            fooled = bce(tf.ones_like(of_made), of_made)
        for model, tape, loss, optimizer in (
            (judging, of_judge, judged, optimizers[0]),
            (generating, of_generator, fooled, optimizers[1]),
        ):
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return judged, fooled

    for number in range(BATCHES * EPOCHS):
        x, _ = batch(number)
        step(tf.constant(x), tf.constant(x[:, :4]))
    return [*generating.variables, *judging.variables, *optimizers[0].variables, *optimizers[1].variables]


def embedding():
    model = keras.Sequential([keras.Input((4,), dtype="int32"), L.Embedding(50, 8), L.Flatten(), L.Dense(3)])
    model.compile("adam", make_loss(), jit_compile=XLA)
    model.fit(np.abs(X[:, :4] * 10).astype("int32"), Y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    return [*model.variables, *model.optimizer.variables]


def recurrent():
    model = keras.Sequential([keras.Input((3, 4)), L.LSTM(6), L.Dense(3)])
    model.compile("rmsprop", make_loss(), jit_compile=XLA)
    model.fit(X.reshape(-1, 3, 4), Y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    return [*model.variables, *model.optimizer.variables]


def plain_variables():
    weight, bias = tf.Variable(tf.ones((12, 3)), name="weight"), tf.Variable(tf.zeros((3,)), name="bias")

    @tf.function(jit_compile=XLA or None)
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = tf.matmul(x, weight) + bias
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        for variable, grad in zip((weight, bias), tape.gradient(loss, (weight, bias)), strict=True):
            variable.assign_sub(0.1 * grad)
        return loss

    for number in range(BATCHES * EPOCHS):
        step(*map(tf.constant, batch(number)))
    return [weight, bias]


def from_iterator():
    model, optimizer, loss_function = dense(), keras.optimizers.SGD(0.1), make_loss()

    @tf.function(jit_compile=None)
    def step(batches):
        x, y = next(batches)
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    batches = iter(tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH).repeat(EPOCHS))
    for _ in range(BATCHES * EPOCHS):
        step(batches)
    return [*model.variables, *optimizer.variables]


def evaluated():
    model = dense()
    model.compile("adam", make_loss(), metrics=["accuracy"], jit_compile=XLA)
    model.fit(X, Y, batch_size=BATCH, epochs=EPOCHS, validation_data=(X[:40], Y[:40]), verbose=0)
    model.evaluate(X, Y, batch_size=32, verbose=0)
    model.predict(X, batch_size=32, verbose=0)
    return [*model.variables, *model.optimizer.variables]


def endless_data():
    model = dense()
    model.compile("adam", make_loss(), jit_compile=XLA)

    def batches():
        yield from (batch(number) for number in range(BATCHES))

    data = tf.data.Dataset.from_generator(
        batches, output_signature=(tf.TensorSpec((None, 12), tf.float32), tf.TensorSpec((None,), tf.int64))
    )
    model.fit(data, epochs=EPOCHS, verbose=0)
    return [*model.variables, *model.optimizer.variables]


schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5)
KINDS = {
    "fit": lambda: fit(dense()),
    "long": lambda: fit(dense(), epochs=4 * EPOCHS, metrics=["accuracy"]),
    "convolution": lambda: fit(convolution(), has_truth=False, metrics=["accuracy"]),
    "subclassed": lambda: fit(Subclassed(), has_truth=False),
    "function": lambda: loop(dense(), keras.optimizers.Adam(1e-2)),
    "eager": lambda: loop(dense(), keras.optimizers.Adam(1e-2), is_eager=True),
    "run_eagerly": lambda: fit(dense(), run_eagerly=True),
    "mixed": lambda: fit(dense(), has_truth=False),
    "mirrored": mirrored,
    "steps_per_execution": lambda: fit(dense(), steps_per_execution=3),
    "accumulation": accumulation,
    "clipped": lambda: fit(dense(), optimizer=keras.optimizers.SGD(0.1, global_clipnorm=0.1), has_truth=False),
    "random": lambda: loop(
        dense(),
        keras.optimizers.Adam(1e-2),
        forward=lambda model, x: tf.nn.dropout(model(x, training=True), 0.2),
        has_truth=False,
    ),
    "random_layer": lambda: fit(dense(L.Lambda(lambda x: x + tf.random.normal(tf.shape(x)))), has_truth=False),
    "train_on_batch": train_on_batch,
    "adversaries": adversaries,
    "embedding": embedding,
    "recurrent": recurrent,
    "plain_variables": plain_variables,
    "from_iterator": from_iterator,
    "evaluated": evaluated,
    "endless_data": endless_data,
    "scheduled": lambda: fit(
        dense(L.Dropout(0.3)), optimizer=keras.optimizers.AdamW(schedule, use_ema=True), has_truth=False
    ),
}

values = b"".join(np.asarray(variable).tobytes() for variable in KINDS[BASE]())
told = {"pid": os.getpid(), "digest": hashlib.sha256(values).hexdigest(), "truth": truth}
with open(os.path.join(given.folder, f"{KIND}.json"), "w") as file:
    json.dump(told, file)
