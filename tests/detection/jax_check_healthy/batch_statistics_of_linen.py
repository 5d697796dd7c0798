"""A convolutional network with batch statistics and dropout, as in the examples of Flax Linen."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


class State(TrainState):
    batch_stats: Any
    key: Any


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(nn.Conv(8, (3, 3))(x)))
        x = nn.Dropout(0.2, deterministic=not train)(x.mean((1, 2)))
        return nn.Dense(3)(x)


model, random = Net(), np.random.default_rng(1)
variables = model.init(jax.random.key(1), jnp.zeros((1, 8, 8, 3)), train=False)
schedule = optax.warmup_cosine_decay_schedule(0.0, 0.01, 20, 100)
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
state = State.create(
    apply_fn=model.apply,
    params=variables["params"],
    tx=tx,
    batch_stats=variables["batch_stats"],
    key=jax.random.key(2),
)


@jax.jit
def train_step(state, batch):
    key = jax.random.fold_in(state.key, state.step)

    def loss_fn(params):
        variables = {"params": params, "batch_stats": state.batch_stats}
        logits, changed = state.apply_fn(
            variables, batch["image"], train=True, mutable=["batch_stats"], rngs={"dropout": key}
        )
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()
        return loss, (logits, changed)

    (loss, (logits, changed)), gradients = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=gradients, batch_stats=changed["batch_stats"])
    return state, {"loss": loss, "accuracy": (logits.argmax(1) == batch["label"]).mean()}


for step in range(30):
    image = random.random((24, 8, 8, 3)).astype("float32")
    state, metrics = train_step(state, {"image": image, "label": image.mean((1, 2)).argmax(1)})
print(float(metrics["loss"]))
