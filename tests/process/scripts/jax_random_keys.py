"""Prints at how many of six steps each kind of step drew random numbers by the same keys; -1: nothing is compared."""

import json

import jax
import jax.numpy as jnp

from leadline.frameworks.jax.random_keys import RandomKeys

STEPS = 6
KEY = jax.random.key(1)
DROPOUT = frozenset({"dropout_output"})


def drop(key, x):
    return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0.0)


def given(x, step, key):
    return drop(key, x).sum()


def old_style(x, step, key):
    return drop(jax.random.PRNGKey(3), x).sum() + drop(jax.random.wrap_key_data(jax.random.key_data(key)), x).sum()


def made_within(x, step, key):
    return drop(jax.random.key(0), x).sum()


def captured(x, step, key):
    return drop(KEY, x).sum()


def folded(x, step, key):
    return drop(jax.random.fold_in(key, step), x).sum()


def folded_in_part(x, step, key):
    return drop(key, x).sum() + drop(jax.random.fold_in(key, step), x).sum()


def within_functions(x, step, key):
    return jax.jit(lambda k, v: jax.checkpoint(drop)(jax.random.split(k)[0], v))(key, x).sum()


def of_data(x, step, key):
    return drop(jax.random.key(x[0].astype("int32")), x).sum()


def in_loop(x, step, key):
    return jax.lax.scan(lambda k, _: (jax.random.split(k)[0], drop(k, x).sum()), key, None, length=3)[1].sum()


def nothing(x, step, key):
    return x.sum()


def counted(function, collections=DROPOUT):
    data = [jnp.arange(4.0) + at for at in range(STEPS)]
    traced = jax.jit(jax.value_and_grad(function)).trace(data[0], 0, KEY)
    keys, found = RandomKeys("step", traced.jaxpr.jaxpr, collections), {}
    for step in range(STEPS):
        found = keys.checks([data[step], jnp.asarray(step), KEY])
    return next(iter(found.values()), -1.0)


kinds = (given, old_style, made_within, captured, folded, folded_in_part, within_functions, of_data, in_loop, nothing)
found = {kind.__name__: counted(kind) for kind in kinds}
found["fixed_projection"] = counted(made_within, frozenset())
print(json.dumps(found))
