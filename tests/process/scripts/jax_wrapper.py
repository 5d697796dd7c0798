"""Compares what ``jax.jit`` returns with and without Leadline; prints the differences as JSON."""

# ruff: noqa: E402 - Leadline comes before JAX, as the launcher has it
from __future__ import annotations

import copy
import gc
import inspect
import json
import sys
import tempfile
import weakref
from functools import partial

from leadline.hook import StandaloneRun

run = StandaloneRun(out=tempfile.mkdtemp(), name="run", preset="standard", capture=[], budget="off")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax._src import api

bare_jit = api.jit
found = []


def expect(name, condition):
    if not condition:
        found.append(name)


optimizer = optax.sgd(0.1)
optimizer_state = optimizer.init(1.0)
for _ in range(3):
    loss, step = jax.value_and_grad(lambda x: x)(1.0)  # a number of JAX's own that no device computes
    optimizer.update(step, optimizer_state)
expect("losses that no device computes", isinstance(loss, float))


def scale(x, factor=2.0, *, offset=0.0):
    """Scale a number."""
    return x * factor + offset


watched, bare = jax.jit(scale, static_argnames="factor"), bare_jit(scale, static_argnames="factor")
expect("it is wrapped", type(watched) is not type(bare))
expect("its result", watched(3.0) == bare(3.0) and watched(3.0, factor=4.0, offset=1.0) == 13.0)
expect(
    "name", (watched.__name__, watched.__doc__, watched.__module__) == (bare.__name__, bare.__doc__, bare.__module__)
)
expect("repr", repr(watched).partition(" at ")[0] == repr(bare).partition(" at ")[0])
expect("signature", inspect.signature(watched) == inspect.signature(scale))
expect("__wrapped__", watched.__wrapped__ is scale)
expect("stages.Wrapped", isinstance(watched, jax.stages.Wrapped))
expect("callable", callable(watched))
expect("hash and equality", watched == watched and len({watched, watched}) == 1 and watched != jax.jit(scale))
expect("copy", copy.copy(watched) is watched and copy.deepcopy(watched) is watched)
expect("state", watched.__getstate__()["function_name"] == bare.__getstate__()["function_name"])
expect("weakref", weakref.ref(watched)() is watched)
expect("lower", watched.lower(3.0).as_text() == bare.lower(3.0).as_text())
expect("compile", watched.lower(3.0).compile()(3.0) == 6.0)
expect("trace", str(watched.trace(3.0).jaxpr) == str(bare.trace(3.0).jaxpr))
expect("eval_shape", watched.eval_shape(3.0) == bare.eval_shape(3.0))
expect("vmap", np.array_equal(jax.vmap(watched)(jnp.arange(3.0)), [0, 2, 4]))
expect("grad", jax.grad(watched)(3.0) == 2.0)
expect("jvp", jax.jvp(watched, (3.0,), (1.0,))[1] == 2.0)
expect("jit of it", jax.jit(watched)(3.0) == 6.0)
expect("make_jaxpr", str(jax.make_jaxpr(watched)(3.0)) == str(jax.make_jaxpr(bare)(3.0)))
expect("checkpoint of it", jax.grad(jax.checkpoint(watched))(3.0) == 2.0)
expect("scan of it", jax.lax.scan(lambda c, _: (watched(c), None), 1.0, None, length=3)[0] == 8.0)
expect("export", jax.export.export(watched)(3.0).fun_name == jax.export.export(bare)(3.0).fun_name)

watched.clear_cache()
expect("clear_cache", watched._cache_size() == 0 and watched(3.0) == 6.0)

try:
    watched()
    expect("a wrong call raises", False)
except TypeError:
    pass

calls = []


def counted(x):
    calls.append(x)
    return x + 1


for _ in range(5):
    jax.jit(counted)(1.0)
expect("a function that is compiled again and again is traced once", len(calls) == 1)
calls.clear()
with jax.disable_jit():
    jax.jit(counted)(1.0)
expect("without compilation the function is called once", len(calls) == 1)


class Model:
    def __init__(self, factor):
        self.factor = factor

    @jax.jit
    def plain(x):
        return x + 1

    @partial(jax.jit, static_argnums=0)
    def method(self, x):
        return x * self.factor

    @jax.jit(static_argnums=0)
    def with_options(self, x):
        return x * self.factor

    @staticmethod
    @jax.jit
    def static(x):
        return x + 2

    @classmethod
    @partial(jax.jit, static_argnums=0)
    def of_class(cls, x):
        return x + 3


model = Model(3.0)
expect("method", model.method(2.0) == 6.0 and Model(4.0).method(2.0) == 8.0)
expect("method with options", model.with_options(2.0) == 6.0)
expect("method by its class", Model.method(model, 2.0) == 6.0)
expect("static and class method", model.static(1.0) == 3.0 and model.of_class(1.0) == 4.0)
expect("attributes of a method", model.method.lower(model, 2.0).as_text() != "")

donated = jax.jit(lambda x: x + 1, donate_argnums=0)
value = jnp.ones(4)
donated(value)
expect("donated", value.is_deleted())

kept = jax.jit(lambda x: x)
gone = weakref.ref(kept)
del kept
gc.collect()
expect("it is released", gone() is None)

gradient = jax.value_and_grad(scale, argnums=0)
expect("value_and_grad's results", tuple(map(float, gradient(3.0))) == (6.0, 2.0))
with_aux = jax.grad(lambda x: (x * x, "aux"), has_aux=True)(3.0)
expect("grad with aux", (float(with_aux[0]), with_aux[1]) == (6.0, "aux"))
both = jax.grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 5.0)
expect("several arguments", tuple(map(float, both)) == (5.0, 2.0))
expect("second order", float(jax.grad(jax.grad(lambda x: x**3))(2.0)) == 12.0)
expect("hessian", float(jax.hessian(lambda x: x**3)(2.0)) == 12.0)


@jax.jit
def physics(w, x):
    def energy(w, x):
        return jnp.sum(jnp.tanh(w * x))

    return jax.value_and_grad(lambda w: jnp.sum(jax.grad(energy, argnums=1)(w, x) ** 2))(w)


expected = bare_jit(lambda w, x: physics.__wrapped__(w, x))(0.5, jnp.arange(3.0))
expect("gradients of gradients", np.allclose(physics(0.5, jnp.arange(3.0)), expected))
expect("nothing of Leadline failed", run.session.guard.failure is None)

run.close()
expect("it works without Leadline", watched(5.0) == 10.0 and jax.jit is api.jit)
sys.stdout.write("\n" + json.dumps(found) + "\n")
