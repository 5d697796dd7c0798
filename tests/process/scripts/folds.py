"""Healthy trainings one after another in a process, each from the loss of guessing: FRAMEWORK.

What trained before is kept alive. Prints the train step at which each begins, and the number of all steps, as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

FOLDS, STEPS = 3, 60
draws = np.random.default_rng(0)
X = draws.normal(size=(STEPS * 16, 20)).astype("float32")
Y = (X[:, :10].sum(1) > 0).astype("int64")


def batches() -> list[tuple[Any, Any]]:
    return [(X[at : at + 16], Y[at : at + 16]) for at in range(0, len(X), 16)]


def torch() -> list[int]:
    """Folds, then stages of one model: other parameters, another class of optimizer, and weights that are reset."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    begins, step = [], 0

    def train(net: Any, optimizer: Any, steps: int = STEPS) -> None:
        nonlocal step
        for x, y in batches()[:steps]:
            loss = nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1

    def model() -> Any:
        return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))

    for _ in range(FOLDS):
        begins.append(step)
        net = model()
        train(net, torch.optim.Adam(net.parameters(), 2e-2))
    net[0].requires_grad_(False)
    net[2] = nn.Linear(32, 2)
    begins.append(step)
    train(net, torch.optim.Adam(net[2].parameters(), 2e-2))
    net[0].requires_grad_(True)
    begins.append(step)
    train(net, torch.optim.SGD(net.parameters(), 1e-3))
    for layer in (net[0], net[2]):
        layer.reset_parameters()
    begins.append(step)
    train(net, torch.optim.SGD(net.parameters(), 2e-1))
    for _ in range(3):  # as an optimizer that is built again in every epoch: the same training
        train(net, torch.optim.SGD(net.parameters(), 1e-2), 20)
    critic, generator = model(), model()  # two optimizers that alternate are one training
    of_critic, of_generator = (torch.optim.Adam(each.parameters(), 2e-3) for each in (critic, generator))
    begins.append(step)
    for _ in range(20):
        train(critic, of_critic, 1)
        train(generator, of_generator, 1)
        step -= 1
    return [*begins, step]


def keras() -> list[int]:
    """Folds by ``fit``, folds and stages in functions and eager, and a critic with its generator."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    cost = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    begins, kept, step = [], [], 0

    def model(outputs: int = 2) -> Any:
        hidden = keras.layers.Dense(16, activation="relu")
        kept.append(keras.Sequential([keras.Input((20,)), hidden, keras.layers.Dense(outputs)]))
        return kept[-1]

    def stepping(variables: Any, loss_of: Any, *, is_function: bool, optimizer: Any) -> Any:
        def train_step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(x, y)
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        kept.append(optimizer)
        return tf.function(train_step) if is_function else train_step

    def train(train_step: Any, steps: int = 20) -> None:
        nonlocal step
        for x, y in batches()[:steps]:
            train_step(x, y)
            step += 1

    for _ in range(FOLDS):
        net = model()
        net.compile(keras.optimizers.Adam(2e-2), cost)
        begins.append(step)
        for _ in range(2):  # `fit` of the same model again is the same training
            net.fit(X[:320], Y[:320], epochs=1, batch_size=16, verbose=0, shuffle=False)
            step += 20
    for is_function in (True, False):
        for _ in range(2):
            net = model()
            begins.append(step)
            adam = keras.optimizers.Adam(2e-2)
            classify = lambda x, y, net=net: cost(y, net(x, training=True))  # noqa: E731
            train(stepping(net.trainable_variables, classify, is_function=is_function, optimizer=adam))
        for variables in (net.layers[-1].trainable_variables, net.trainable_variables):  # the head, then everything
            begins.append(step)
            sgd = keras.optimizers.SGD(1e-2)
            train(stepping(variables, classify, is_function=is_function, optimizer=sgd))
    critic, generator = model(1), model(20)
    of_critic, of_generator = (
        stepping(net.trainable_variables, loss_of, is_function=True, optimizer=keras.optimizers.SGD(1e-3))
        for net, loss_of in (
            (critic, lambda x, y: tf.reduce_mean(critic(generator(x))) - tf.reduce_mean(critic(x))),
            (generator, lambda x, y: -tf.reduce_mean(critic(generator(x)))),
        )
    )
    begins.append(step)
    for _ in range(4):  # a step of the generator after five of its critic begins no training
        train(of_critic, 5)
        of_generator(*batches()[0])
    return [*begins, step]


def fresh(seed: int) -> Any:
    """Return the parameters of two layers, for JAX."""
    from jax import random

    first, last = random.split(random.key(seed))
    return {"first": random.normal(first, (20, 32)) * 0.2, "last": random.normal(last, (32, 2)) * 0.1}


def jax() -> list[int]:
    import jax
    import jax.numpy as jnp
    import optax

    adam = optax.adam(2e-2)

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        logits = jax.nn.relu(x @ params["first"]) @ params["last"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = adam.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    @jax.jit
    def step_by_hand(params: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        return jax.tree.map(lambda weight, gradient: weight - 0.2 * gradient, params, gradients), loss

    for fold in range(FOLDS):
        params = fresh(fold)
        state = adam.init(params)
        for at, (x, y) in enumerate(batches()):
            params, state, _ = step(params, state, x, y)
            if at == 5:
                state = adam.init(params)  # an optimizer that is made again goes on with the training
            if at % 20 == 19:  # a projection of the weights between two steps begins no training
                params = jax.tree.map(lambda weight: jnp.clip(weight, -3, 3), params)
    params = params | {"last": fresh(0)["last"]}  # the trained layer below a new head, with a new optimizer
    state = adam.init(params)
    for x, y in batches():
        params, state, _ = step(params, state, x, y)
    for fold in range(2):
        params = fresh(fold)
        for x, y in batches():
            params, _ = step_by_hand(params, x, y)
    return [0, 60, 120, 180, 240, 300, 360]


def jax_stages() -> list[int]:
    """Folds with a function each, a stage that trains the head of the last one, and a critic with its generator."""
    import jax

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        logits = jax.nn.relu(x @ params["first"]) @ params["last"]
        return -(jax.nn.one_hot(y, 2) * jax.nn.log_softmax(logits)).sum(1).mean()

    def descend(params: Any, gradients: Any) -> Any:
        return jax.tree.map(lambda weight, gradient: weight - 0.2 * gradient, params, gradients)

    def step(params: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        return descend(params, gradients), loss

    @jax.jit
    def step_of_last(params: Any, x: Any, y: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda last: loss_of({**params, "last": last}, x, y))(params["last"])
        return {**params, "last": descend(params["last"], gradient)}, loss

    def distance(critic: Any, generator: Any, x: Any) -> Any:
        made = x @ generator["first"] @ generator["first"].T
        return (jax.nn.relu(made @ critic["first"]) @ critic["last"]).mean()

    @jax.jit
    def step_of_critic(critic: Any, generator: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(distance)(critic, generator, x)
        return descend(critic, gradients), loss

    @jax.jit
    def step_of_generator(critic: Any, generator: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda made: -distance(critic, made, x))(generator)
        return descend(generator, gradients), loss

    begins, count = [], 0
    params: Any = None
    folds = [jax.jit(lambda *args: step(*args)) for _ in range(2)]
    for at, train_step in enumerate((*folds, step_of_last)):
        params = params if train_step is step_of_last else fresh(at)
        begins.append(count)
        for x, y in batches()[:20]:
            params, _ = train_step(params, x, y)
            count += 1
    critic, generator = fresh(1), fresh(2)
    begins.append(count)
    for _ in range(4):  # a step of the generator after five of its critic begins no training
        for x, _ in batches()[:5]:
            critic, _ = step_of_critic(critic, generator, x)
            count += 1
        generator, _ = step_of_generator(critic, generator, x)
    return [*begins, count]


def mxnet() -> list[int]:
    import mxnet as mx
    from mxnet import autograd, gluon

    mx.random.seed(0)
    cost = gluon.loss.SoftmaxCrossEntropyLoss()
    begins, kept, step = [], [], 0
    net: Any = None
    for name in ("fold", "fold", "fold", "stage", "stage"):
        if name == "fold":
            net = gluon.nn.HybridSequential()
            net.add(gluon.nn.Dense(32, activation="relu"), gluon.nn.Dense(2))
            net.initialize(mx.init.Xavier())
        trained = net[1] if name == "stage" and len(kept) == FOLDS else net  # the head, then everything
        kept.append(
            gluon.Trainer(trained.collect_params(), "adam", {"learning_rate": 2e-2 if name == "fold" else 1e-3})
        )
        begins.append(step)
        for x, y in batches():
            with autograd.record():
                loss = cost(net(mx.nd.array(x)), mx.nd.array(y)).mean()
            loss.backward()
            kept[-1].step(1, ignore_stale_grad=True)
            step += 1
    return [*begins, step]


def xgboost() -> list[int]:
    """Boosters of targets in other units, then one that continues the last."""
    import xgboost as xgb

    booster = None
    for scale in (1, 100):
        data = xgb.DMatrix(X, X[:, 0] * scale)
        booster = xgb.train({"max_depth": 2, "nthread": 1}, data, 40, evals=[(data, "train")], verbose_eval=False)
    data = xgb.DMatrix(X, X[:, 1] * 1000)
    xgb.train({"max_depth": 2, "nthread": 1}, data, 40, evals=[(data, "train")], verbose_eval=False, xgb_model=booster)
    return [0, 40, 80, 120]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
