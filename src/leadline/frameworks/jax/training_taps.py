"""Taps at gradients and updates: at the outermost ``jax.value_and_grad`` or ``jax.grad``, and at optimizers."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import jax

from leadline.frameworks.jax import compatibility
from leadline.frameworks.jax.steps import TrainingSteps
from leadline.frameworks.jax.tap import Kind, Tap, is_traced, named_leaves, tap_p
from leadline.frameworks.jax.watch import ProcessWatch

Original = Callable[..., Any]
_MAX_OPTIMIZERS: Final = 1024


class _Local(threading.local):
    gradients = 0
    """How many computations of gradients run within one another."""
    is_updating = False


_LOCAL = _Local()
"""One for all sessions: libraries keep functions that an earlier one has replaced."""


class TrainingTaps:
    """Taps the values of the script's gradients and updates.

    Args:
        watch: Has the steps of the training.
    """

    def __init__(self, watch: ProcessWatch) -> None:
        self._watch = watch
        self._local = _LOCAL
        self._groups = itertools.count()

    # --- gradients ----------------------------------------------------------------------------------------

    def make_value_and_grad(self, original: Original) -> Original:
        """Return ``jax.value_and_grad`` with taps."""

        def value_and_grad(fun: Any, *args: Any, **kwargs: Any) -> Any:
            return self._marked(fun, original(fun, *args, **kwargs), args, kwargs)

        return value_and_grad

    def make_grad(self, original: Original, value_and_grad: Original) -> Original:
        """Return ``jax.grad`` with taps, which computes the loss as well, as ``jax.grad`` itself does."""

        def grad(fun: Any, *args: Any, **kwargs: Any) -> Any:
            marked = self._marked(fun, value_and_grad(fun, *args, **kwargs), args, kwargs)
            has_aux = _has_aux(args, kwargs)

            @functools.wraps(original(fun, *args, **kwargs))
            def only_gradients(*values: Any, **named: Any) -> Any:
                value, gradients = marked(*values, **named)
                return (gradients, value[1]) if has_aux else gradients

            return only_gradients

        return grad

    def _marked(self, function: Any, inner: Original, args: Sequence[Any], kwargs: dict[str, Any]) -> Original:
        local, watch = self._local, self._watch
        argnums = kwargs.get("argnums", args[0] if args else 0)
        has_aux = _has_aux(args, kwargs)

        @functools.wraps(inner)
        def value_and_gradients(*values: Any, **named: Any) -> Any:
            steps = self._watch.steps
            if steps is None or local.gradients or local.is_updating:
                return inner(*values, **named)
            if compatibility.is_trace_clean():
                watch.guard.run(steps.begin_eager_gradients)
            local.gradients += 1
            try:
                result = inner(*values, **named)
            finally:
                local.gradients -= 1
            loss, gradients = (result[0][0] if has_aux else result[0]), result[1]
            weights = values[argnums] if isinstance(argnums, int) else tuple(values[at] for at in argnums)
            watch.guard.run(self._mark_gradients, steps, function, weights, loss, gradients)
            return result

        return value_and_gradients

    def _mark_gradients(self, steps: TrainingSteps, function: Any, weights: Any, loss: Any, gradients: Any) -> None:
        group = next(self._groups)
        is_eager = compatibility.is_trace_clean()
        self._tap(steps, "parameter", group, named_leaves(weights))
        self._tap(steps, "gradient", group, named_leaves(gradients))
        if not is_eager:
            self._tap(steps, "loss", group, [("loss", loss)])
            steps.notice_traced()
        else:
            steps.end_eager_gradients(function, loss if jax.numpy.ndim(loss) == 0 else None)

    def _tap(self, steps: TrainingSteps, kind: Kind, group: int, leaves: Iterable[tuple[str, Any]]) -> None:
        for name, leaf in leaves:
            values = leaf if isinstance(leaf, tuple) else (leaf,)
            if any(map(is_traced, values)):
                tap_p.bind(*values, tap=Tap(kind, group, name))
            elif compatibility.is_trace_clean():
                steps.begin_eager().add(Tap(kind, group, name), values)

    # --- optimizers of optax ------------------------------------------------------------------------------

    def make_update(self, getter: Any) -> property:
        """Return ``optax.GradientTransformation.update`` with taps in the outermost call.

        Args:
            getter: The field of the named tuple.
        """
        marked = functools.lru_cache(_MAX_OPTIMIZERS)(self._marked_update)

        def update(transformation: Any) -> Any:
            inner = getter.__get__(transformation, type(transformation))
            if self._watch.steps is None or self._local.is_updating:
                return inner
            try:
                return marked(inner)
            except TypeError:  # it cannot be a key
                return self._marked_update(inner)

        return property(update, doc=getter.__doc__)

    def _marked_update(self, inner: Original) -> Original:
        local, watch = self._local, self._watch

        @functools.wraps(inner)
        def update(gradients: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            steps = self._watch.steps
            if steps is None or local.is_updating:
                return inner(gradients, state, *args, **kwargs)
            params = args[0] if args else kwargs.get("params")
            group = next(self._groups)
            local.is_updating = True
            try:
                watch.guard.run(self._begin_update, steps, inner, group, gradients, state, params)
                result = inner(gradients, state, *args, **kwargs)
            finally:
                local.is_updating = False
            watch.guard.run(self._end_update, steps, group, params, result[0])
            return result

        return update

    def _begin_update(
        self, steps: TrainingSteps, inner: Any, group: int, gradients: Any, state: Any, params: Any
    ) -> None:
        self._tap(steps, "used_gradient", group, named_leaves(gradients))
        self._tap(steps, "weight", group, named_leaves(params))
        self._tap(steps, "state", group, named_leaves(state))
        if compatibility.is_trace_clean():
            steps.begin_eager_update(inner)

    def _end_update(self, steps: TrainingSteps, group: int, params: Any, updates: Any) -> None:
        weights, changes = dict(named_leaves(params)), dict(named_leaves(updates))
        pairs = [(name, (weights[name], change)) for name, change in changes.items() if name in weights]
        self._tap(steps, "update", group, pairs)
        if compatibility.is_trace_clean():
            steps.end_eager_update()

    # --- optimizers of Keras ------------------------------------------------------------------------------

    def begin_keras_update(self, optimizer: Any, gradients: Sequence[Any], variables: Any) -> list[tuple[Any, Any]]:
        """Tap what an optimizer of Keras is given; return its variables with their values."""
        found = self._watch.guard.call(self._tap_keras_update, optimizer, gradients, variables)
        return found or []

    def _tap_keras_update(
        self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any] | None
    ) -> list[tuple[Any, Any]]:
        steps = self._watch.steps
        if steps is None or compatibility.is_trace_clean():
            return []
        chosen = variables if variables is not None else optimizer._trainable_variables
        group, inner = next(self._groups), getattr(optimizer, "inner_optimizer", optimizer)
        pairs = [(variable, variable.value) for variable in chosen]
        named = zip(chosen, gradients, strict=True)
        self._tap(steps, "used_gradient", group, [(v.path, g) for v, g in named if g is not None])
        self._tap(steps, "weight", group, [(variable.path, value) for variable, value in pairs])
        own = [variable for variable in inner.variables if len(variable.shape)]
        self._tap(steps, "state", group, [(variable.path.partition("/")[2], variable.value) for variable in own])
        return pairs

    def end_keras_update(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Tap what an optimizer of Keras has made of its variables."""
        if pairs:
            self._watch.guard.call(self._tap_keras_change, pairs)

    def _tap_keras_change(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        steps = self._watch.steps
        if steps is not None:
            values = [(variable.path, (before, variable.value)) for variable, before in pairs]
            self._tap(steps, "change", next(self._groups), values)


def _has_aux(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    return bool(kwargs.get("has_aux", args[1] if len(args) > 1 else False))
