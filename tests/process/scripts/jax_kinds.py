"""Trains in many styles of JAX, one after the other; prints digests, losses and traces of each style as JSON.

Arguments: ``bare``, or a folder for the runs with Leadline, one for each style and preset; then the styles, by default
all, of which some are trained with two presets. ``bare`` also computes the truth of each step beside the training,
where a style has one.
"""

# ruff: noqa: E402 - Leadline comes before JAX, as the launcher has it
from __future__ import annotations

import gc
import hashlib
import json
import os
import sys
from functools import cache, partial
from importlib.metadata import version

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
if tuple(map(int, version("jaxlib").split(".")[:2])) >= (0, 8):
    # a device that gets no processor for 40 s would otherwise abort the process
    os.environ["XLA_FLAGS"] += " --xla_cpu_collective_call_terminate_timeout_seconds=600"
os.environ["KERAS_BACKEND"] = "jax"
FOLDER, KINDS = sys.argv[1], sys.argv[2:]
EVERYTHING = ["all:every=1", "layers:every=1", "optimizer_variables:every=1"]
STEPS, LONG_STEPS = 12, 90
OPTIMIZED = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
    "xla_cpu_parallel_codegen_split_count": 32,
}
"""Takes back what ``client.QUICK_XLA`` leaves out, for one style."""

if FOLDER != "bare":
    from leadline.hook import StandaloneRun

    first = StandaloneRun(out=FOLDER, name="imports", preset="standard", capture=[], budget="off")

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
from flax import nnx
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec

traces = 0
truth: list[dict[str, float]] = []
generator = np.random.default_rng(0)
X, Y = generator.normal(size=(32, 8)).astype("float32"), generator.integers(0, 4, 32)


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def parameters():
    drawn = np.random.default_rng(1)
    shapes = {"w1": (8, 16), "b1": (16,), "w2": (16, 4)}
    return {name: jnp.asarray(drawn.normal(size=shape) * 0.3, "float32") for name, shape in shapes.items()}


def network(p, x):
    return jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"]


def loss_of(p, x, y):
    return cross_entropy(network(p, x), y)


def traced():
    global traces
    traces += 1


@cache
def computing(loss):
    return jax.jit(jax.value_and_grad(loss))


def tell(p, x=X, y=Y, *more, loss=loss_of):
    """Compute what a step should capture, on the host in numpy where that is simple."""
    if FOLDER == "bare":
        p = jax.device_get(p)  # also of arrays on several devices
        value, gradients = computing(loss)(p, x, y, *more)
        norm = np.sqrt(sum(float(np.sum(np.asarray(g, "f8") ** 2)) for g in jax.tree.leaves(gradients)))
        found = {"loss": float(value), "gradient_norm": norm}
        for path, leaf in jax.tree_util.tree_flatten_with_path(p)[0]:
            name = "/".join(str(key.key) for key in path)
            found[name] = float(np.linalg.norm(np.asarray(leaf, "f8")))
        for path, leaf in jax.tree_util.tree_flatten_with_path(gradients)[0]:
            name = "/".join(str(key.key) for key in path)
            found[f"gradient/{name}"] = float(np.linalg.norm(np.asarray(leaf, "f8")))
        truth.append(found)


def stepping(tx, loss=loss_of, **options):
    @partial(jax.jit, **options)
    def train_step(p, state, x, y):
        traced()
        value, gradients = jax.value_and_grad(loss)(p, x, y)
        updates, state = tx.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, value

    return train_step


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x, is_training):
        x = nn.relu(nn.Dense(16, name="first")(x))
        x = nn.LayerNorm(name="norm")(nn.remat(nn.Dense)(16, name="second")(x))
        return nn.Dense(4, name="last")(nn.Dropout(0.1, deterministic=not is_training)(x))


def linen():
    net = Linen()
    p = jax.jit(net.init, static_argnums=2)(jax.random.key(0), X, False)["params"]
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2))
    state = TrainState.create(apply_fn=net.apply, params=p, tx=tx)

    def loss_fn(p, x, y, key):
        return cross_entropy(net.apply({"params": p}, x, True, rngs={"dropout": key}), y)

    @partial(jax.jit, donate_argnums=0)
    def train_step(state, x, y, key):
        traced()
        value, gradients = jax.value_and_grad(loss_fn)(state.params, x, y, key)
        return state.apply_gradients(grads=gradients), {"loss": value}

    for step in range(STEPS):
        key = jax.random.key(step)
        tell(state.params, X, Y, key, loss=loss_fn)
        state, _ = train_step(state, X, Y, key)
    return state.params


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first, self.norm = nnx.Linear(8, 16, rngs=rngs), nnx.BatchNorm(16, rngs=rngs)
        self.drop, self.last = nnx.Dropout(0.1, rngs=rngs), nnx.Linear(16, 4, rngs=rngs)
        self.blocks = nnx.List([nnx.Linear(16, 16, rngs=rngs)])

    def __call__(self, x):
        x = self.drop(nnx.relu(self.norm(self.first(x))))
        return self.last(self.blocks[0](x))


def of_nnx():
    model = Nnx(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def train_step(model, optimizer, x, y):
        traced()
        value, gradients = nnx.value_and_grad(lambda m: cross_entropy(m(x), y))(model)
        optimizer.update(model, gradients)
        return value

    for _ in range(STEPS):
        train_step(model, optimizer, X, Y)
    return nnx.state(model, nnx.Param)


def equinox():
    model, tx = eqx.nn.MLP(8, 4, 16, 2, key=jax.random.key(0)), optax.adam(1e-2)
    state = tx.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def train_step(model, state, x, y):
        traced()
        value, gradients = eqx.filter_value_and_grad(lambda m: cross_entropy(jax.vmap(m)(x), y))(model)
        updates, state = tx.update(gradients, state, model)
        return eqx.apply_updates(model, updates), state, value

    for _ in range(STEPS):
        model, state, _ = train_step(model, state, X, Y)
    return eqx.filter(model, eqx.is_array)


def plain():
    p = parameters()

    @jax.jit
    def train_step(p, x, y):
        traced()
        value, gradients = jax.value_and_grad(loss_of)(p, x, y)
        return jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, p, gradients), value

    for _ in range(STEPS):
        tell(p)
        p, _ = train_step(p, X, Y)
    return p


def donated():
    p, tx = parameters(), optax.adamw(1e-2)
    state, train_step = tx.init(p), stepping(tx, donate_argnums=(0, 1), compiler_options=OPTIMIZED)
    for _ in range(STEPS):
        tell(p)
        p, state, _ = train_step(p, state, X, Y)
    return p


def long():
    p, tx = parameters(), optax.adam(1e-2)
    state, train_step = tx.init(p), stepping(tx)
    for step in range(LONG_STEPS):
        count = 20 if step % 30 == 29 else len(X)  # the last batch of an epoch is smaller
        tell(p, X[:count], Y[:count])
        p, state, _ = train_step(p, state, X[:count], Y[:count])
    return p


def scanned():
    p, tx = parameters(), optax.sgd(0.1, momentum=0.9)
    state = tx.init(p)

    @partial(jax.jit, donate_argnums=(0, 1))
    def epoch(p, state, xs, ys):
        traced()

        def body(carry, batch):
            p, state = carry
            value, gradients = jax.value_and_grad(loss_of)(p, *batch)
            updates, state = tx.update(gradients, state, p)
            return (optax.apply_updates(p, updates), state), value

        (p, state), losses = jax.lax.scan(body, (p, state), (xs, ys))
        return p, state, losses

    if FOLDER == "bare":
        beside, state_beside, train_step = parameters(), tx.init(parameters()), stepping(tx)
        before = traces
        for _ in range(2 * 10):
            tell(beside)
            beside, state_beside, _ = train_step(beside, state_beside, X, Y)
        globals()["traces"] = before
    for _ in range(2):
        p, state, _ = epoch(p, state, np.stack([X] * 10), np.stack([Y] * 10))
    return p


def rematerialized():
    p, tx = parameters(), optax.adam(1e-2)
    state = tx.init(p)
    train_step = stepping(tx, lambda p, x, y: cross_entropy(jax.checkpoint(network)(p, x), y))
    for _ in range(STEPS):
        tell(p)
        p, state, _ = train_step(p, state, X, Y)
    return p


class Trainer:
    def __init__(self):
        self.p, self.tx = parameters(), optax.inject_hyperparams(optax.adam)(learning_rate=0.01)
        self.state = self.tx.init(self.p)

    @partial(jax.jit, static_argnums=0)
    def train_step(self, p, state, x, y):
        traced()
        value, gradients = jax.value_and_grad(loss_of)(p, x, y)
        updates, state = self.tx.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, value


def method():
    trainer = Trainer()
    for _ in range(STEPS):
        tell(trainer.p)
        trainer.p, trainer.state, _ = trainer.train_step(trainer.p, trainer.state, X, Y)
    return trainer.p


def skipping():
    p, tx = parameters(), optax.adam(1e-2)
    state = tx.init(p)

    @jax.jit
    def train_step(p, state, x, y, step):
        traced()
        value, gradients = jax.value_and_grad(loss_of)(p, x, y)

        def apply(p, state, gradients):
            updates, state = tx.update(gradients, state, p)
            return optax.apply_updates(p, updates), state

        p, state = jax.lax.cond(step % 3 == 0, lambda p, s, _: (p, s), apply, p, state, gradients)
        jax.debug.print("loss {}", value)
        return p, state, value

    for step in range(STEPS):
        p, state, _ = train_step(p, state, X, Y, step)
    return p


def split():
    p, tx = parameters(), optax.adam(1e-2)
    state, compute = tx.init(p), jax.jit(jax.value_and_grad(loss_of))

    @jax.jit
    def apply(p, state, gradients):
        traced()
        updates, state = tx.update(gradients, state, p)
        return optax.apply_updates(p, updates), state

    for _ in range(STEPS):
        tell(p)
        _, gradients = compute(p, X, Y)
        p, state = apply(p, state, gradients)
    return p


def eager_update():
    p, tx = parameters(), optax.adam(1e-2)
    state, compute = tx.init(p), jax.jit(jax.value_and_grad(loss_of))
    for _ in range(STEPS):
        tell(p)
        _, gradients = compute(p, X, Y)
        updates, state = tx.update(gradients, state, p)
        p = optax.apply_updates(p, updates)
    return p


def eager():
    p, tx = parameters(), optax.adam(1e-2)
    state = tx.init(p)
    for _ in range(STEPS):
        tell(p)
        _, gradients = jax.value_and_grad(lambda p: loss_of(p, X, Y))(p)
        updates, state = tx.update(gradients, state, p)
        p = optax.apply_updates(p, updates)
    return p


def eager_plain():
    p = parameters()
    for _ in range(STEPS):
        tell(p)
        gradients = jax.grad(lambda p: loss_of(p, X, Y))(p)
        p = jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, p, gradients)
    return p


def gspmd():
    mesh, tx = Mesh(np.array(jax.devices()), ("d",)), optax.adam(1e-2)

    def placed(*spec):
        return NamedSharding(mesh, PartitionSpec(*spec))

    p = jax.device_put(parameters(), {"w1": placed(None, "d"), "b1": placed("d"), "w2": placed("d")})
    x, y = jax.device_put(X, placed("d")), jax.device_put(Y, placed("d"))
    state, train_step = tx.init(p), stepping(tx)
    for _ in range(STEPS):
        tell(p)
        p, state, _ = train_step(p, state, x, y)
    return p


def shard_mapped():
    mesh, tx, p = Mesh(np.array(jax.devices()), ("d",)), optax.adam(1e-2), parameters()
    state, whole, divided = tx.init(p), PartitionSpec(), PartitionSpec("d")

    def on_each(p, state, x, y):
        value, gradients = jax.value_and_grad(loss_of)(p, x, y)
        gradients = jax.lax.pmean(gradients, "d")
        updates, state = tx.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, jax.lax.pmean(value, "d")

    @jax.jit
    def train_step(p, state, x, y):
        traced()
        specs = {"in_specs": (whole, whole, divided, divided), "out_specs": (whole, whole, whole)}
        return jax.shard_map(on_each, mesh=mesh, check_vma=False, **specs)(p, state, x, y)

    for _ in range(STEPS):
        tell(p)
        p, state, _ = train_step(p, state, X, Y)
    return p


def mapped():
    tx, p = optax.adam(1e-2), parameters()

    @partial(jax.pmap, axis_name="d", donate_argnums=(0, 1))
    def train_step(p, state, x, y):
        traced()
        value, gradients = jax.value_and_grad(loss_of)(p, x, y)
        gradients = jax.lax.pmean(gradients, "d")
        updates, state = tx.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, jax.lax.pmean(value, "d")

    p, state = jax.tree.map(lambda leaf: jnp.stack([leaf] * 4), (p, tx.init(p)))
    for _ in range(STEPS):
        tell(jax.tree.map(lambda leaf: leaf[0], p))
        p, state, loss = train_step(p, state, X.reshape(4, 8, 8), Y.reshape(4, 8))
        loss.block_until_ready()
    return p


def of_keras():
    keras.utils.set_random_seed(3)
    layers = [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(4)]
    model = keras.Sequential(layers, name="network")
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(X, Y, batch_size=8, epochs=3, verbose=0)
    return [np.asarray(variable.value) for variable in [*model.variables, *model.optimizer.variables]]


STYLES = {
    function.__name__: function
    for function in [
        *(linen, of_nnx, equinox, plain, donated, long, scanned, rematerialized, method, skipping, split),
        *(eager_update, eager, eager_plain, gspmd, shard_mapped, mapped, of_keras),
    ]
}


STANDARD = ("linen", "donated", "long", "split", "eager", "mapped", "of_keras")
"""The styles that are also run with the default preset, which captures a part of what the full one does."""


def train(kind):
    global traces
    traces = 0
    truth.clear()
    leaves = jax.tree.leaves(STYLES[kind]())
    jax.effects_barrier()
    digest = hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest()
    return {"digest": digest, "traces": traces, "truth": list(truth)}


gc.collect()
gc.freeze()  # the searches of the garbage collector leave out what was imported
if FOLDER != "bare":
    first.close()
results = {}
for kind in KINDS or STYLES:
    if FOLDER == "bare":
        results[kind] = train(kind)
        continue
    for preset, capture in (("full", EVERYTHING), ("standard", []))[: 2 if kind in STANDARD and not KINDS else 1]:
        run = StandaloneRun(out=FOLDER, name=f"{kind}-{preset}", preset=preset, capture=capture, budget="off")
        results[f"{kind}-{preset}"] = train(kind)
        run.close()
sys.stdout.write("\n" + json.dumps(results) + "\n")
