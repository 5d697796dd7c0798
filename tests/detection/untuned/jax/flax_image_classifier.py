"""A convolutional network with batch normalization in Flax and a TrainState, warm-up and cosine decay, evaluation."""

import sys

import flax.linen as nn
import jax
import numpy as np
import optax
from flax.training import train_state

steps = int(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(12, (3, 3))(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        x = nn.avg_pool(x, (2, 2), (2, 2))
        x = nn.relu(nn.Conv(24, (3, 3))(x))
        x = x.mean((1, 2))
        return nn.Dense(4)(x)


class TrainState(train_state.TrainState):
    batch_stats: dict


patterns = rng.normal(size=(4, 8, 8, 1)).astype("float32") * 1.5


def batch(n=32):
    y = rng.integers(0, 4, n)
    return patterns[y] + rng.normal(size=(n, 8, 8, 1)).astype("float32"), y


model = CNN()
variables = model.init(jax.random.PRNGKey(0), batch()[0], train=True)
schedule = optax.warmup_cosine_decay_schedule(0.0, 5e-3, steps // 10, steps)
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-4))
state = TrainState.create(apply_fn=model.apply, params=variables["params"], tx=tx, batch_stats=variables["batch_stats"])


@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats}, x, train=True, mutable=["batch_stats"]
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), updates

    (loss, updates), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads, batch_stats=updates["batch_stats"]), loss


@jax.jit
def eval_step(state, x, y):
    logits = state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, x, train=False)
    return (logits.argmax(1) == y).mean()


losses = []
for step in range(steps):
    state, loss = train_step(state, *batch())
    losses.append(float(loss))
    if step % 50 == 49:
        print(step, losses[-1], float(eval_step(state, *batch(100))))
print(f"loss fell from {losses[0]:.4g} to {np.mean(losses[-10:]):.4g}")
