"""Transfer learning in Flax linen: the backbone is kept, the head is trained with Optax."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.training import train_state
from flax.traverse_util import path_aware_map

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
FEATURES = 12


class Backbone(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.gelu(nn.Dense(64)(x))
        return nn.gelu(nn.Dense(64)(x))


class Model(nn.Module):
    outputs: int

    @nn.compact
    def __call__(self, x):
        x = Backbone(name="backbone")(x)
        return nn.Dense(self.outputs, name="head")(x)


def make_data(count, seed):
    """Pairs of signs agree or not; the second task is about how many do."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (count, FEATURES)).astype("float32")
    agree = (x[:, 0::2] * x[:, 1::2] > 0).astype("float32")
    return x + rng.normal(0, 0.2, x.shape).astype("float32"), agree


@jax.jit
def pretrain_step(state, x, agree):
    def loss_fn(params):
        return optax.sigmoid_binary_cross_entropy(state.apply_fn({"params": params}, x), agree).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


@jax.jit
def finetune_step(state, x, labels):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def head_only(params):
    """An Adam that leaves the backbone's weights as they are."""
    if FIXED:
        groups = path_aware_map(lambda path, _: "train" if path[0] == "head" else "keep", params)
        return optax.multi_transform({"train": optax.adam(3e-3), "keep": optax.set_to_zero()}, groups)
    mask = path_aware_map(lambda path, _: path[0] == "head", params)
    return optax.masked(optax.adam(3e-3), mask)


def run(state, step, x, y, steps, name):
    rng = np.random.default_rng(0)
    losses = []
    for i in range(steps):
        batch = rng.integers(0, len(x), 64)
        state, loss = step(state, jnp.asarray(x[batch]), jnp.asarray(y[batch]))
        losses.append(float(loss))
        if i % 500 == 499:
            print(f"{name} step {i + 1}: loss {np.mean(losses[-500:]):.4f}")
    return state


def main():
    x, agree = make_data(20000, 0)
    model = Model(agree.shape[1])
    params = model.init(jax.random.PRNGKey(0), x[:1])["params"]
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(2e-3))
    state = run(state, pretrain_step, x, agree, 3000, "pretraining")

    small_x, small_agree = make_data(400, 1)
    labels = np.clip(small_agree.sum(1).astype(int) - 2, 0, 2)
    model = Model(3)
    params = model.init(jax.random.PRNGKey(1), x[:1])["params"]
    params = {"backbone": state.params["backbone"], "head": params["head"]}
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=head_only(params))
    state = run(state, finetune_step, small_x, labels, 2000, "finetuning")

    test_x, test_agree = make_data(2000, 2)
    test_labels = np.clip(test_agree.sum(1).astype(int) - 2, 0, 2)
    predicted = model.apply({"params": state.params}, test_x).argmax(1)
    print(f"test accuracy {np.mean(predicted == test_labels):.3f}")


if __name__ == "__main__":
    main()
