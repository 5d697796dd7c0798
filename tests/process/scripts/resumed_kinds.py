"""Trains with a checkpoint before step 7, is killed after step 11, and continues from the checkpoint.

Arguments: the framework, the folder of the checkpoint.
"""

import os
import pickle
import signal
import sys
import time
from pathlib import Path

import numpy as np

STEPS, SAVED_AT, KILLED_AT = 20, 7, 12
CHECKPOINT = Path(sys.argv[2]) / f"{sys.argv[1]}.checkpoint"
IS_RESUMED = CHECKPOINT.exists()
FIRST = SAVED_AT if IS_RESUMED else 0
generator = np.random.default_rng(0)
inputs = generator.normal(size=(64, 4)).astype(np.float32)
labels = inputs.sum(1, keepdims=True)


def kill_at(step: int) -> None:
    if step == KILLED_AT and not IS_RESUMED:
        time.sleep(0.6)  # everything until here is flushed
        os.kill(os.getpid(), signal.SIGKILL)


def keras() -> None:
    import keras

    file = CHECKPOINT.with_suffix(".keras")
    if IS_RESUMED:
        model = keras.models.load_model(file)
    else:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    for step in range(FIRST, STEPS):
        if step == SAVED_AT and not IS_RESUMED:
            model.save(file)
            CHECKPOINT.touch()
        kill_at(step)
        model.train_on_batch(inputs, labels)


def optax() -> None:
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.adam(1e-2)
    weights = jnp.zeros((4, 1))
    state = optimizer.init(weights)
    if IS_RESUMED:
        weights, state = jax.tree.map(jnp.asarray, pickle.loads(CHECKPOINT.read_bytes()))

    @jax.jit
    def train(weights: jax.Array, state: optax.OptState) -> tuple[jax.Array, optax.OptState, jax.Array]:
        loss, gradients = jax.value_and_grad(lambda weights: jnp.mean((inputs @ weights - labels) ** 2))(weights)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, loss

    for step in range(FIRST, STEPS):
        if step == SAVED_AT and not IS_RESUMED:
            CHECKPOINT.write_bytes(pickle.dumps(jax.tree.map(np.asarray, (weights, state))))
        kill_at(step)
        weights, state, _ = train(weights, state)


def mxnet() -> None:
    from mxnet import autograd, gluon, nd

    network = gluon.nn.Dense(1, in_units=4)
    network.initialize()
    trainer = gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.5})
    if IS_RESUMED:
        network.load_parameters(f"{CHECKPOINT}.parameters")
        trainer.load_states(str(CHECKPOINT))
    for step in range(FIRST, STEPS):
        if step == SAVED_AT and not IS_RESUMED:
            network.save_parameters(f"{CHECKPOINT}.parameters")
            trainer.save_states(str(CHECKPOINT))
        kill_at(step)
        with autograd.record():
            loss = gluon.loss.L2Loss()(network(nd.array(inputs)), nd.array(labels))
        loss.backward()
        trainer.step(len(inputs))


def xgboost() -> None:
    import xgboost as library

    class Checkpoints(library.callback.TrainingCallback):
        def after_iteration(self, model: library.Booster, epoch: int, evals_log: object) -> bool:
            if epoch == SAVED_AT - 1 and not IS_RESUMED:
                model.save_model(f"{CHECKPOINT}.json")
                CHECKPOINT.touch()
            kill_at(epoch)
            return False

    data = library.DMatrix(inputs, labels)
    before = f"{CHECKPOINT}.json" if IS_RESUMED else None
    library.train({}, data, STEPS - FIRST, [(data, "train")], xgb_model=before, callbacks=[Checkpoints()])


def lightgbm() -> None:
    import lightgbm as library

    def checkpoint(environment: library.callback.CallbackEnv) -> None:
        if environment.iteration == SAVED_AT - 1 and not IS_RESUMED:
            environment.model.save_model(CHECKPOINT)
        kill_at(environment.iteration)

    data = library.Dataset(inputs, labels[:, 0])
    before = str(CHECKPOINT) if IS_RESUMED else None
    library.train({"verbose": -1}, data, STEPS - FIRST, init_model=before, callbacks=[checkpoint])


{function.__name__: function for function in (keras, optax, mxnet, xgboost, lightgbm)}[sys.argv[1]]()
