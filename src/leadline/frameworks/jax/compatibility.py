"""What differs between the compatibility of JAX, and what has no public name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import jax
import jax.experimental
from jax._src import core, distributed

if jax.__version_info__ < (0, 7):
    raise ImportError("JAX 0.7 or later is needed")

Tracer: Final = core.Tracer
is_trace_clean: Final[Callable[[], bool]] = core.trace_state_clean
"""Return whether nothing is being traced in this thread."""

BODIES: Final = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",  # before 0.8 the name of remat2
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
"""The parameter that holds the program of each primitive which only calls it."""
PRINTS: Final = frozenset({"debug_callback", "debug_print"})
"""Primitives whose only effect is a message to the user."""


def processes() -> int:
    """Return the number of processes of the job.

    ``jax.process_count()`` would start the backend, which must not be before ``jax.distributed.initialize()``.
    """
    return distributed.global_state.num_processes or 1


def process_index() -> int | None:
    """Return the index of this process in the job; None if it is the only one."""
    return distributed.global_state.process_id if processes() > 1 else None


def program_of(body: Any) -> tuple[Any, Sequence[Any]]:
    """Return the jaxpr and the constants of an open or closed jaxpr."""
    return (body.jaxpr, body.consts) if hasattr(body, "consts") else (body, ())


def bodies_of(equation: Any) -> list[Any]:
    """Return the jaxprs among the parameters of an equation."""
    found = []
    for value in equation.params.values():
        for body in value if isinstance(value, (tuple, list)) else (value,):
            jaxpr = program_of(body)[0] if hasattr(body, "consts") else body
            if hasattr(jaxpr, "eqns"):
                found.append(jaxpr)
    return found


def bind(equation: Any, values: Sequence[Any]) -> Sequence[Any]:
    """Evaluate an equation."""
    params = equation.primitive.get_bind_params(equation.params)
    functions: Sequence[Any] = ()
    if isinstance(params, tuple):  # before 0.8
        functions, params = params
    with equation.ctx.manager:
        result = equation.primitive.bind(*functions, *values, **params)
    return result if equation.primitive.multiple_results else [result]


def result_tree(traced: Any) -> Any:
    """Return the structure of the results of a traced function."""
    return traced.out_tree if hasattr(traced, "out_tree") else traced._out_tree  # before 0.8


def effects_of(jaxpr: Any) -> list[str]:
    """Return the names of the effects of a program beside messages to the user."""
    names = {type(effect).__name__ for effect in jaxpr.effects}
    return sorted(names - {"DebugEffect", "OrderedDebugEffect", "NamedAxisEffect"})


def shard_map(function: Callable[..., Any], params: dict[str, Any], out_specs: Any) -> Callable[..., Any]:
    """Return the function, mapped over devices as an equation's parameters say."""
    specs, mesh = params["in_specs"], params["mesh"]
    axes = params.get("newly_manual_axes", params.get("manual_axes"))
    keywords = {} if axes is None else {"axis_names": set(axes)}
    mapped: Callable[..., Any] = jax.shard_map(
        function, mesh=mesh, in_specs=tuple(specs), out_specs=out_specs, check_vma=False, **keywords
    )
    return mapped


def mapping_module() -> Any:
    """Return the module whose ``_cached_shard_map`` compiles what ``jax.pmap`` maps; None before 0.9.1."""
    module: Any = importlib.import_module(jax.pmap.__module__)
    fields = getattr(getattr(module, "CachedShardMap", None), "_fields", ())
    return module if "jitted_f_with_shardings" in fields else None


def enable_x64(is_enabled: bool) -> AbstractContextManager[None]:
    """Return the context in which arrays may have 64 bits."""
    module: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # before 0.8
    context: AbstractContextManager[None] = module.enable_x64(is_enabled)
    return context
