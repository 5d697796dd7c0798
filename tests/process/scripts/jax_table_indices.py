"""Prints the share of the indices beyond a table of 5 rows that is found in each kind of step; -1: none is."""

import json

import jax
import jax.numpy as jnp

from leadline.frameworks.jax.table_indices import TableIndices

TABLE = jnp.ones((5, 3))
BEYOND, PADDED, WITHIN = jnp.array([0, 5, 7, 2]), jnp.array([0, 5, 5, 2]), jnp.array([0, 4, -1, 2])


def default(table, u):
    return (table[u] ** 2).sum()


def of_parts(table, u):
    return (table[u[:1]] ** 2).sum() + (table[u.reshape(2, 2).T[:, :1]] ** 2).sum() + (table[u[1:3]] ** 2).sum()


def within_functions(table, u):
    return jax.jit(lambda t, v: jax.checkpoint(default)(t, v))(table, u)


def for_samples(table, u):
    return jax.vmap(lambda one: (table[one] ** 2).sum())(u).sum()


def modulo(table, u):
    return (table[u % 5] ** 2).sum()


def clipped(table, u):
    return (table[jnp.clip(u, 0, 4)] ** 2).sum() + (table.at[u].get(mode="clip") ** 2).sum()


def masked(table, u):
    return (jnp.where((u < 5)[:, None], table[u], 0.0) ** 2).sum()


def filled(table, u):
    return (jnp.take(table, u, axis=0) ** 2).sum()


def computed(table, u):
    return ((table * 2)[u] ** 2).sum()


def found(function, u):
    traced = jax.jit(jax.value_and_grad(function)).trace(TABLE, u)
    checks = TableIndices(traced.jaxpr.jaxpr).checks(({"user": TABLE}, u), [TABLE, u])
    return checks.get("user/clamped_indices", -1.0)


kinds = (default, of_parts, within_functions, for_samples, modulo, clipped, masked, filled, computed)
shares = {kind.__name__: found(kind, BEYOND) for kind in kinds}
print(json.dumps(shares | {"padding": found(default, PADDED), "within": found(default, WITHIN)}))
