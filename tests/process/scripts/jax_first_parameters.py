"""Prints what is found of functions that do not train, by their names: how many first parameters they use wrongly."""

import json
import weakref
from types import SimpleNamespace

import jax
import jax.numpy as jnp

from leadline.frameworks.jax.facts import facts_of
from leadline.frameworks.jax.initial_parameters import InitialParameters
from leadline.frameworks.jax.jit_wrapper import JitWrapper
from leadline.frameworks.jax.replay import Programs

first, current = {"w": jnp.ones(3), "b": jnp.zeros(2)}, {"w": jnp.full(3, 2.0), "b": jnp.ones(2)}
batch, other = jnp.arange(4.0), jnp.arange(3.0)


def ignores(params, x):
    return (first["w"].sum() + first["b"].sum()) * x.sum()


def uses(params, x):
    return params["w"].sum() * x.sum()


def reference(x):
    return first["w"].sum() * x.sum()


def compares(params, x):
    return ((params["w"] - first["w"]) ** 2).sum() + params["b"].sum() * x.sum()


def of_first_batch(params, x):
    return batch.sum()


def of_other_constant(params, x):
    return other.sum() * x.sum()


found = InitialParameters()
chain = SimpleNamespace(ends=[weakref.ref(current["w"]), weakref.ref(current["b"])])
found.follow(chain, ((first, batch), {}))
for function in (ignores, uses, reference, compares, of_first_batch, of_other_constant):
    jitted = jax.jit(function)
    wrapper = JitWrapper(jitted, function, {}, SimpleNamespace(steps=None))
    args = (batch,) if function is reference else (current, batch)
    traced = jitted.trace(*args)
    found.look(wrapper, Programs(traced, facts_of(traced)), args, {})
print(json.dumps(found.checks))
