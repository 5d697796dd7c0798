"""Trains with a framework, and gives it one odd value after the other; prints the loss of each usual step in between.

Usage: odd_values.py {tensorflow|jax|mxnet|xgboost|lightgbm}. What the framework itself refuses is skipped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

generator = np.random.default_rng(0)
X = generator.normal(size=(12, 4)).astype("float32")
Y = np.arange(12) % 3
ONE = np.float32(1.0)
NUMBERS = (0.0, -0.0, 1e-38, 1e38, float("nan"), float("inf"), float("-inf"))
BATCHES: dict[str, Callable[[], np.ndarray]] = {
    "nan": lambda: np.full_like(X, np.nan),
    "inf": lambda: np.full_like(X, np.inf),
    "-inf": lambda: np.full_like(X, -np.inf),
    "huge": lambda: np.full_like(X, 3e38),
    "zero": lambda: np.zeros_like(X),
    "one": lambda: X[:1],
    "empty": lambda: X[:0],
    "float64": lambda: X.astype("float64"),
    "float16": lambda: X.astype("float16"),
    "int8": lambda: X.astype("int8"),
    "bool": lambda: X > 0,
}


def say(step: str, loss: Any) -> None:
    print(step, repr(float(loss)), flush=True)


def in_turn(usual: Callable[[], float], odd: Iterable[tuple[str, Callable[[], Any]]]) -> None:
    """Take a usual step after each odd one, and say its loss."""
    say("first", usual())
    for name, step in odd:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the framework refuses this value
            print(f"refused {name}: {type(error).__name__}", file=sys.stderr)
        say(f"after {name}", usual())


def train_tensorflow() -> None:
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(3)])
    model.build((None, 4))
    optimizer = tf.keras.optimizers.SGD(1e-3)
    start = [tf.identity(weight) for weight in model.weights]

    def step(inputs: Any, labels: Any, finish: Callable[[Any], Any] = tf.reduce_mean) -> Any:
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)
            loss = finish(tf.keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def usual() -> float:
        for weight, value in zip(model.weights, start, strict=True):
            weight.assign(value)
        return float(step(tf.constant(X), tf.constant(Y)))

    def odd() -> Iterable[tuple[str, Callable[[], Any]]]:
        for name, make in BATCHES.items():
            yield name, lambda make=make: step(tf.constant(make()), tf.constant(Y[: len(make())]))
        for number in NUMBERS:
            yield f"times {number}", lambda n=number: step(X, Y, lambda each: tf.reduce_mean(each) * n)
            yield f"by {number}", lambda n=number: step(X, Y, lambda each: tf.reduce_sum(each) / n)
        yield "vector", lambda: step(X, Y, lambda each: each)
        yield "one element", lambda: step(X, Y, lambda each: tf.reshape(tf.reduce_mean(each), (1,)))
        for kind in (tf.float16, tf.bfloat16, tf.float64):
            yield kind.name, lambda kind=kind: step(X, Y, lambda each: tf.cast(tf.reduce_mean(each), kind))
        yield "negative labels", lambda: step(X, np.full(12, -1))
        yield "bool labels", lambda: step(X, Y > 0)

    in_turn(usual, odd())
    fitted = tf.keras.Sequential([tf.keras.layers.Dense(3)])
    fitted.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    for make in (BATCHES["nan"], BATCHES["huge"], BATCHES["one"]):
        fitted.fit(make(), Y[: len(make())], sample_weight=np.zeros(len(make())), batch_size=6, verbose=0)


def train_jax() -> None:
    import jax
    import jax.numpy as jnp
    import optax

    keys = jax.random.split(jax.random.PRNGKey(0), 2)
    weights = {"a": jax.random.normal(keys[0], (4, 8)) * 0.3, "b": jax.random.normal(keys[1], (8, 3)) * 0.3}
    optimizer = optax.sgd(1e-3)
    state = optimizer.init(weights)

    def loss_of(weights: Any, x: Any, y: Any, factor: Any) -> Any:
        logits = jax.nn.relu(x.astype(weights["a"].dtype) @ weights["a"]) @ weights["b"]
        return (optax.softmax_cross_entropy_with_integer_labels(logits, y).mean() * factor).astype(factor.dtype)

    @jax.jit
    def train_step(weights: Any, state: Any, x: Any, y: Any, factor: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y, factor)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    def step(inputs: Any, labels: Any, factor: Any = ONE) -> Any:
        return train_step(weights, state, jnp.asarray(inputs), jnp.asarray(labels), jnp.asarray(factor))[2]

    def odd() -> Iterable[tuple[str, Callable[[], Any]]]:
        for name, make in BATCHES.items():
            yield name, lambda make=make: step(make(), Y[: len(make())])
        for number in NUMBERS:
            yield f"times {number}", lambda n=number: step(X, Y, np.float32(n))
            yield f"by {number}", lambda n=number: step(X, Y, np.float32(1.0) / np.float32(n))
        for kind in (jnp.float16, jnp.bfloat16):
            yield str(kind), lambda kind=kind: step(X, Y, jnp.ones((), kind))
        yield "int8 labels", lambda: step(X, Y.astype("int8"))

    in_turn(lambda: float(step(X, Y)), odd())


def train_mxnet() -> None:
    import mxnet as mx
    from mxnet import autograd, gluon, nd

    mx.random.seed(0)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(8, activation="relu", in_units=4), gluon.nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    start = {name: parameter.data().copy() for name, parameter in net.collect_params().items()}

    def step(inputs: Any, labels: Any, finish: Callable[[Any], Any] = lambda loss: loss, size: int = 12) -> Any:
        with autograd.record():
            loss = finish(loss_of(net(nd.array(inputs, dtype="float32")), nd.array(labels)))
        loss.backward()
        trainer.step(size)
        return loss

    def usual() -> float:
        for name, parameter in net.collect_params().items():
            parameter.set_data(start[name])
        return float(step(X, Y).mean().asscalar())

    def odd() -> Iterable[tuple[str, Callable[[], Any]]]:
        for name, make in BATCHES.items():
            yield name, lambda make=make: step(make(), Y[: len(make())])
        for number in NUMBERS:
            yield f"times {number}", lambda n=number: step(X, Y, lambda loss: loss * n)
            yield f"by {number}", lambda n=number: step(X, Y, lambda loss: loss.sum() / n)
        yield "no samples", lambda: step(X, Y, size=0)
        yield "float16", lambda: step(X, Y, lambda loss: loss.astype("float16"))
        yield "negative labels", lambda: step(X, np.full(12, -1))

    in_turn(usual, odd())


SCORES: tuple[Any, ...] = (*NUMBERS, True, 7, np.float32(0.5), np.float64("nan"), np.int8(3), 10**30)


def train_xgboost() -> None:
    import xgboost as xgb

    scores = iter(SCORES)
    data = xgb.DMatrix(X, label=Y % 2)
    settings = {"objective": "binary:logistic", "max_depth": 2, "seed": 0, "interaction_constraints": "[[0, 1]]"}
    for odd in ({}, {"eta": 0.0}, {"base_score": 0.1, "eval_metric": ["auc", "logloss"]}):
        xgb.train(
            settings | odd,
            data,
            5,
            evals=[(data, "train")],
            verbose_eval=False,
            custom_metric=lambda *_: ("odd", next(scores, 1.0)),
        )
    print("trained", repr(1.0), flush=True)


def train_lightgbm() -> None:
    import lightgbm as lgb

    scores = iter(SCORES)
    wide = np.repeat(X, 20, axis=0)
    for odd in ({}, {"learning_rate": 1e-300}, {"lambda_l1": 1e9}):
        data = lgb.Dataset(wide, label=np.repeat(Y % 2, 20))
        lgb.train(
            {"objective": "binary", "verbose": -1, "num_leaves": 3, **odd},
            data,
            5,
            valid_sets=[data],
            feval=lambda *_: ("odd", next(scores, 1.0), True),
        )
    print("trained", repr(1.0), flush=True)


globals()[f"train_{sys.argv[1]}"]()
