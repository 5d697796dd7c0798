"""A wrapper of the result of ``jax.jit``, which calls the script's function unchanged."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, Protocol

import jax

from leadline.frameworks.jax import compatibility
from leadline.frameworks.jax.facts import TracedFacts, facts_of
from leadline.frameworks.jax.replay import Programs


class CallObserver(Protocol):
    """Sees the calls of compiled functions while a session runs."""

    @property
    def sees_all_calls(self) -> bool:
        """Whether also the calls of functions are of interest that do not train."""

    def call(self, function: JitWrapper, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the script."""

    def call_traced(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function within the program of another one."""

    def lower_ahead_of_time(self, function: JitWrapper, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Lower a function ahead of its calls."""


class Watch(Protocol):
    """Wrapped functions outlive a session and report to the next one."""

    @property
    def steps(self) -> CallObserver | None:
        """The observer; None: nothing is observed."""


class JitWrapper:
    """A compiled function of the script.

    It passes everything on to the function that ``jax.jit`` has returned, and is in its place: as a method, as a key,
    within other transformations, and for ``jax.stages.Wrapped``.

    Args:
        jitted: What ``jax.jit`` has returned.
        function: What it was given.
        options: Its options.
        watch: Receives the calls.
    """

    def __init__(self, jitted: Any, function: Any, options: dict[str, Any], watch: Watch) -> None:
        self._jitted, self._options, self._watch = jitted, options, watch
        functools.update_wrapper(self, jitted, updated=())
        self.__wrapped__ = function
        self._passes = False
        """Whether no call so far was of interest."""
        self._size = -1
        """The number of compiled forms when a call was looked at."""
        self._programs: dict[int, Programs] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        jitted, steps = self._jitted, self._watch.steps
        if steps is None or (self._passes and jitted._cache_size() == self._size and not steps.sees_all_calls):
            return jitted(*args, **kwargs)
        if jax.config.jax_disable_jit:
            return jitted(*args, **kwargs)  # it runs operation by operation, as code outside of compiled functions
        if not compatibility.is_trace_clean():
            return steps.call_traced(jitted, args, kwargs)
        return steps.call(self, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "_jitted":  # while it is copied
            raise AttributeError(name)
        return getattr(self._jitted, name)

    def __repr__(self) -> str:
        return repr(self._jitted)

    def __copy__(self) -> JitWrapper:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> JitWrapper:
        return self

    def __getstate__(self) -> Any:
        return self._jitted.__getstate__()

    def __reduce__(self) -> Any:
        return _itself, (self._jitted,)

    # --- for the adapter ----------------------------------------------------------------------------------

    @property
    def compiled(self) -> Any:
        """The function that ``jax.jit`` has returned."""
        return self._jitted

    @property
    def function(self) -> Any:
        """The script's function."""
        return self.__wrapped__

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Lower the function ahead of its calls, which are not observed then."""
        steps = self._watch.steps
        if steps is None:
            return self._jitted.lower(*args, **kwargs)
        return steps.lower_ahead_of_time(self, args, kwargs)

    def programs_of(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Programs:
        """Return what is known of the function for some arguments; it is traced as its call would do."""
        known = self._programs
        if self.is_known:
            return next(iter(known.values()))
        if (
            self._jitted._cache_size() == self._size
            and len({_kept(programs.facts) for programs in known.values()}) == 1
        ):
            return next(iter(known.values()))
        return self.retrace(args, kwargs)

    @property
    def is_known(self) -> bool:
        """Whether its calls so far have traced it once."""
        return len(self._programs) == 1 and bool(self._jitted._cache_size() == self._size)

    def retrace(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Programs:
        """Return the trace for some arguments, which JAX keeps."""
        traced = self._jitted.trace(*args, **kwargs)
        key = id(traced.jaxpr)
        if key not in self._programs:
            self._programs[key] = Programs(traced, facts_of(traced))
        return self._programs[key]

    @property
    def is_ambiguous(self) -> bool:
        """Whether the trace depends on the arguments."""
        return len(self._programs) > 1

    def note_size(self, *, passes: bool) -> None:
        """Note that a call was looked at, and whether it was of no interest."""
        self._passes = passes and not any(programs.facts.trains for programs in self._programs.values())
        self._size = self._jitted._cache_size()
        if self._passes:
            self._programs.clear()

    def leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the arrays among some arguments, in the order of the arguments of the traced program."""
        positions, names = self.static_arguments
        count = len(args)
        static = {at % count if at < 0 else at for at in positions if -count <= at < count}
        dynamic = tuple(arg for at, arg in enumerate(args) if at not in static)
        named = {name: value for name, value in kwargs.items() if name not in names}
        return list(jax.tree_util.tree_leaves((dynamic, named)))

    @functools.cached_property
    def static_arguments(self) -> tuple[frozenset[int], frozenset[str]]:
        """The positions and the names of its arguments that are no arrays."""
        positions, names = self._options.get("static_argnums"), self._options.get("static_argnames")
        if positions is None and names is None:
            return frozenset(), frozenset()
        known_positions = (positions,) if isinstance(positions, int) else tuple(positions or ())
        known_names = (names,) if isinstance(names, str) else tuple(names or ())
        try:
            parameters = list(inspect.signature(self.function).parameters)
        except (TypeError, ValueError):
            parameters = []
        if positions is None:
            known_positions = tuple(at for at, name in enumerate(parameters) if name in known_names)
        elif names is None:
            known_names = tuple(parameters[at] for at in known_positions if -len(parameters) <= at < len(parameters))
        return frozenset(known_positions), frozenset(known_names)


def _itself(jitted: Any) -> Any:
    return jitted


def _kept(facts: TracedFacts) -> Any:
    return facts.trains, facts.steps, facts.losses, facts.is_separate_update


def make_jit(original: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    """Return ``jax.jit`` with wrapped results."""

    def jit(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if args:
            return wrapped(result, args[0], kwargs, watch)
        return lambda function: wrapped(result(function), function, kwargs, watch)  # a decorator with options

    return jit


def make_cached_shard_map(original: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    """Return the function that compiles what ``jax.pmap`` maps over devices, with wrapped results."""
    known: dict[int, Any] = {}

    def cached_shard_map(function: Any, *args: Any) -> Any:
        cached = original(function, *args)
        compiled = cached.jitted_f_with_shardings
        if id(compiled) not in known:
            known[id(compiled)] = result = wrapped(compiled, compiled.__wrapped__, {}, watch)
            result.__name__ = function.__name__
        return cached._replace(jitted_f_with_shardings=known[id(compiled)])

    return cached_shard_map


def wrapped(jitted: Any, function: Any, options: dict[str, Any], watch: Watch) -> Any:
    """Return a compiled function, wrapped; as it is if it is of another kind than expected."""
    if not all(hasattr(jitted, name) for name in ("_cache_size", "trace", "lower")):
        return jitted
    return JitWrapper(jitted, function, options, watch)
