"""Prints how often the state of an optimizer was made again, and the trainings that begin; 24 steps of each kind."""

import json
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from leadline.frameworks.jax.chain import Chain
from leadline.frameworks.jax.step_count import counted_steps

STEPS = 24
Count = namedtuple("Count", "count mu")


def state_of(parameters):
    return Count(jnp.zeros([], jnp.int32), jax.tree.map(jnp.zeros_like, parameters)), optax.EmptyState()


def step(parameters, state):
    of_count, rest = state
    moments = jax.tree.map(lambda moment: moment + 1.0, of_count.mu)
    return jax.tree.map(lambda one: one - 0.1, parameters), (Count(of_count.count + 1, moments), rest)


def trained(change, parameters):
    """Return how often the state was made again, and how many trainings began after the first one."""
    chain, state, others = Chain(), state_of(parameters), 0
    for index in range(STEPS):
        if index:
            parameters, state = change(index, parameters, state)
        arguments = ((parameters, state), {})
        others += chain.begins_another(arguments)
        parameters, state = result = step(parameters, state)
        chain.end_step(result)
    return [chain.states.made_anew, others]


def layers():
    return {"first": {"w": jnp.ones(3)}, "last": {"w": jnp.ones(2)}}


def at(steps, change):
    return lambda index, parameters, state: change(parameters, state) if index % steps == 0 else (parameters, state)


def again(parameters, state):
    return parameters, state_of(parameters)


def new(parameters, state):
    return layers(), state_of(layers())


def restored(parameters, state):
    return parameters, jax.tree.map(np.asarray, state)


kinds = {
    "kept": trained(lambda index, *given: given, layers()),
    "every_sixth": trained(at(6, again), layers()),
    "every_step": trained(at(1, again), layers()),
    "of_one_array": trained(at(6, again), jnp.ones(3)),
    "folds": trained(at(12, new), layers()),
    "loaded": trained(at(6, restored), layers()),
}


class Halted(Exception):
    pass


def counted(*models):
    """Return the count among what ``nnx.jit`` passes to the compiled function."""
    found = []

    def call(*args, **kwargs):
        found.append(counted_steps((args, kwargs)))
        raise Halted

    function = nnx.jit(lambda *models: None)
    object.__setattr__(function, "jitted_fn", call)
    try:
        function(*models)
    except Halted:
        return found[0]


model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
kinds["nnx_before"] = counted(model, optimizer)
optimizer.step.value = jnp.uint32(7)
kinds["nnx_after"] = counted(model, optimizer)
print(json.dumps(kinds))
