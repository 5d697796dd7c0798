"""Healthy trainings one after another in a process, each from the loss of guessing: FRAMEWORK.

Prints the train step at which each begins, as JSON; an empty list where the first step of some is not counted.
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
    return begins


def keras() -> list[int]:
    import keras

    keras.utils.set_random_seed(0)
    for _ in range(FOLDS):
        model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(2e-2), keras.losses.BinaryCrossentropy(from_logits=True))
        for _ in range(2):  # `fit` of the same model again is the same training
            model.fit(X[:480], Y[:480], epochs=1, batch_size=16, verbose=0, shuffle=False)
    return []


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

    def fresh(seed: int) -> Any:
        first, last = jax.random.split(jax.random.key(seed))
        return {"first": jax.random.normal(first, (20, 32)) * 0.2, "last": jax.random.normal(last, (32, 2)) * 0.1}

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
    return []


def mxnet() -> list[int]:
    import mxnet as mx
    from mxnet import autograd, gluon

    mx.random.seed(0)
    cost = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(FOLDS):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(32, activation="relu"), gluon.nn.Dense(2))
        net.initialize(mx.init.Xavier())
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 2e-2})
        for x, y in batches():
            with autograd.record():
                loss = cost(net(mx.nd.array(x)), mx.nd.array(y)).mean()
            loss.backward()
            trainer.step(1)
    return []


def xgboost() -> list[int]:
    """Boosters of targets in other units, then one that continues the last."""
    import xgboost as xgb

    booster = None
    for scale in (1, 100):
        data = xgb.DMatrix(X, X[:, 0] * scale)
        booster = xgb.train({"max_depth": 2, "nthread": 1}, data, 40, evals=[(data, "train")], verbose_eval=False)
    data = xgb.DMatrix(X, X[:, 1] * 1000)
    xgb.train({"max_depth": 2, "nthread": 1}, data, 40, evals=[(data, "train")], verbose_eval=False, xgb_model=booster)
    return [0, 40, 80]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
