"""Small trainings of the kinds that public programs have, in other frameworks; ``public_kinds.py`` runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
from trainings_in_turn import Training, X, Y, of


def guess(weights: Any, inputs: Any) -> Any:
    import jax.numpy as jnp

    for kernel, bias in weights[:-1]:
        inputs = jnp.tanh(inputs @ kernel + bias)
    return inputs @ weights[-1][0] + weights[-1][1]


@of("jax")
def from_scratch() -> Training:
    """Weights in a list of pairs, updated by hand."""
    import jax
    import jax.numpy as jnp

    x, y = jnp.asarray(X), jnp.asarray(Y)
    sizes = ((8, 16), (16, 2))
    weights = [(jax.random.normal(jax.random.key(at), size) * 0.3, jnp.zeros(size[1])) for at, size in enumerate(sizes)]

    @jax.jit
    def update(weights: Any, inputs: Any, labels: Any) -> Any:
        def loss(weights: Any) -> Any:
            return -jnp.mean(jax.nn.log_softmax(guess(weights, inputs))[jnp.arange(len(labels)), labels])

        slopes = jax.grad(loss)(weights)
        return [(w - 0.2 * dw, b - 0.2 * db) for (w, b), (dw, db) in zip(weights, slopes, strict=True)]

    for _ in range(30):
        weights = update(weights, x, y)
        yield
    return jax.tree.leaves(weights)


@of("jax")
def frozen_part() -> Training:
    """An Equinox model of which only the last layer is trained."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax

    x, y = jnp.asarray(X), jnp.asarray(Y)
    model = eqx.nn.MLP(8, 2, 16, 2, key=jax.random.key(0))
    chosen = eqx.tree_at(
        lambda tree: (tree.layers[-1].weight, tree.layers[-1].bias),
        jax.tree.map(lambda _: False, model),
        replace=(True, True),
    )
    optimizer = optax.adam(1e-2)
    state = optimizer.init(eqx.filter(model, chosen))

    @eqx.filter_jit
    def step(model: Any, state: Any) -> Any:
        moving, fixed = eqx.partition(model, chosen)

        @eqx.filter_value_and_grad
        def loss(moving: Any) -> Any:
            logits = jax.vmap(eqx.combine(moving, fixed))(x)
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        value, slopes = loss(moving)
        changes, state = optimizer.update(slopes, state)
        return eqx.apply_updates(model, changes), state, value

    for _ in range(30):
        model, state, _ = step(model, state)
        yield
    return jax.tree.leaves(eqx.filter(model, eqx.is_array))


@of("jax")
def lifted() -> Training:
    """A model of Flax NNX with a count of its calls, updated in place."""
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    x, y = jnp.asarray(X), jnp.asarray(Y)

    class Count(nnx.Variable):
        pass

    class Model(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.first, self.last = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 2, rngs=rngs)
            self.calls = Count(jnp.array(0))

        def __call__(self, inputs: Any) -> Any:
            self.calls[...] += 1
            return self.last(nnx.relu(self.first(inputs)))

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.2), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any) -> Any:
        def loss(model: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

        value, slopes = nnx.value_and_grad(loss)(model)
        optimizer.update(model, slopes)
        return value

    for _ in range(30):
        step(model, optimizer)
        yield
    return jax.tree.leaves(nnx.state(model))


@of("tensorflow")
def line_by_hand() -> Training:
    """A ``tf.Module`` with the update by ``assign_sub``."""
    import tensorflow as tf

    class Line(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = tf.Variable(tf.zeros((8, 2))), tf.Variable(tf.zeros(2))

        def __call__(self, inputs: Any) -> Any:
            return inputs @ self.w + self.b

    model = Line()
    for _ in range(30):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(Y, model(X)))
        for variable, slope in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
        ):
            variable.assign_sub(0.2 * slope)
        yield
    return [variable.numpy() for variable in model.trainable_variables]


@of("tensorflow")
def opponents_in_one_function() -> Training:
    """Two Keras models with a tape and an optimizer for each in one function."""
    import keras
    import tensorflow as tf

    layers = keras.layers
    maker = keras.Sequential([keras.Input((4,)), layers.Dense(16, "relu"), layers.Dense(8)])
    judge = keras.Sequential([keras.Input((8,)), layers.Dense(16, "relu"), layers.Dense(1)])
    of_maker, of_judge = keras.optimizers.Adam(2e-3), keras.optimizers.Adam(2e-3)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(real: Any, noise: Any) -> Any:
        with tf.GradientTape() as first, tf.GradientTape() as second:
            fakes = maker(noise)
            of_real, of_fakes = judge(real), judge(fakes)
            one = loss(tf.ones_like(of_real), of_real) + loss(tf.zeros_like(of_fakes), of_fakes)
            other = loss(tf.ones_like(of_fakes), of_fakes)
        of_judge.apply(first.gradient(one, judge.trainable_variables), judge.trainable_variables)
        of_maker.apply(second.gradient(other, maker.trainable_variables), maker.trainable_variables)
        return one, other

    for _ in range(30):
        step(tf.constant(X), tf.random.normal((64, 4)))
        yield
    return [variable.numpy() for variable in (*maker.trainable_variables, *judge.trainable_variables)]


@of("tensorflow")
def fitted_beside_torch() -> Training:
    """``fit`` in a script that has PyTorch, too, as for its data."""
    import keras
    import torch

    inputs = torch.from_numpy(X).numpy()
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(inputs, Y, batch_size=16, epochs=3, verbose=0)
    for _ in range(12):
        yield
    return [variable.numpy() for variable in model.trainable_variables]


@of("mxnet")
def scored_sequences() -> Training:
    """A Gluon model with a parameter of its own for passing from tag to tag, as in a CRF; one sequence a step.

    The script calls a method of the model, which calls only its layer.
    """
    import mxnet as mx
    from mxnet import autograd, gluon

    class Tagger(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.last = gluon.nn.Dense(3, flatten=False, in_units=8)
                self.passing = self.params.get("passing", shape=(3, 3))

        def reached(self, inputs: Any) -> Any:
            scores, passing = self.last(inputs), self.passing.data()
            reached = scores[0]
            for at in range(1, len(inputs)):
                both = reached.expand_dims(1) + passing
                reached = mx.nd.log(mx.nd.sum(mx.nd.exp(both), axis=0)) + scores[at]
            return reached

    model = Tagger()
    model.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.05})
    sequences = mx.nd.array(X.reshape(16, 4, 8))
    for at in range(32):
        with autograd.record():
            reached = model.reached(sequences[at % 16])
            loss = mx.nd.log(mx.nd.sum(mx.nd.exp(reached))) - reached[int(Y[at])]
        loss.backward()
        trainer.step(1)
        yield
    return [parameter.data().asnumpy() for parameter in model.collect_params().values()]


@of("trees")
def own_objective() -> Training:
    """A booster with an objective of its own, continued by a second training."""
    import xgboost

    def logistic(guesses: Any, data: Any) -> Any:
        likely = 1 / (1 + np.exp(-guesses))
        return likely - data.get_label(), likely * (1 - likely)

    data = xgboost.DMatrix(X, Y)
    known = {"max_depth": 3, "nthread": 1}
    first = xgboost.train(known, data, 15, obj=logistic)
    second = xgboost.train(known, data, 15, obj=logistic, xgb_model=first)
    for _ in range(30):
        yield
    return [np.frombuffer(second.save_raw(), np.uint8)]


@of("trees")
def folds() -> Training:
    """Three boosters of LightGBM, each trained without a third of the data."""
    import lightgbm

    trained = []
    for fold in range(3):
        rest = np.arange(64) % 3 != fold
        data = lightgbm.Dataset(X[rest], Y[rest])
        held = lightgbm.Dataset(X[~rest], Y[~rest], reference=data)
        settings = {"objective": "binary", "num_threads": 1, "verbose": -1, "min_data_in_leaf": 4}
        booster = lightgbm.train(settings, data, 10, valid_sets=[held])
        trained.append(np.frombuffer(booster.model_to_string().encode(), np.uint8))
        for _ in range(10):
            yield
    return trained
