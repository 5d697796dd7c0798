"""REINFORCE with rollouts in lax.scan: the loss is no measure, the return rises."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

steps = int(sys.argv[1])
optimizer = optax.adam(1e-2)


def init(key):
    a, b = jax.random.split(key)
    return {"w1": jax.random.normal(a, (2, 32)) * 0.7, "b1": jnp.zeros(32), "w2": jax.random.normal(b, (32, 2)) * 0.1}


def logits(params, state):
    return jnp.tanh(state @ params["w1"] + params["b1"]) @ params["w2"]


def rollout(params, key):
    def one(carry, key):
        state = carry
        action = jax.random.categorical(key, jax.lax.stop_gradient(logits(params, state)))
        logp = jax.nn.log_softmax(logits(params, state))
        logp = jnp.take_along_axis(logp, action[:, None], 1)[:, 0]
        position = state[:, 0] + 0.2 * (2.0 * action - 1)
        state = jnp.stack([position, state[:, 1]], 1)
        return state, (logp, -jnp.abs(position - state[:, 1]))

    start, keys = jax.random.uniform(key, (32, 2), minval=-1.0), jax.random.split(key, 12)
    _, (logps, rewards) = jax.lax.scan(one, start, keys)
    return logps, rewards


@jax.jit
def update(params, state, key):
    def loss_fn(params):
        logps, rewards = rollout(params, key)
        returns = jnp.cumsum(rewards[::-1], 0)[::-1]
        advantages = (returns - returns.mean(1, keepdims=True)) / (returns.std(1, keepdims=True) + 1e-6)
        return -(logps * jax.lax.stop_gradient(advantages)).mean(), rewards.mean()

    (loss, reward), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss, reward


key = jax.random.PRNGKey(int(sys.argv[2]))
params = init(key)
state = optimizer.init(params)
rewards = []
for step in range(steps):
    key, sub = jax.random.split(key)
    params, state, loss, reward = update(params, state, sub)
    rewards.append(float(reward))
    if step % 50 == 0:
        print(step, float(loss), rewards[-1])
print(f"reward rose from {np.mean(rewards[:5]):.4g} to {np.mean(rewards[-5:]):.4g}")
