"""Taps at the inputs and outputs of layers: of Flax Linen, Flax NNX and Equinox, and of activations in ``jax.nn``."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import jax

from leadline.frameworks.jax import compatibility
from leadline.frameworks.jax.layer_modes import is_given_mode, mode_of
from leadline.frameworks.jax.tap import Tap, is_numeric, is_traced, tap_p
from leadline.frameworks.jax.watch import ProcessWatch
from leadline.frameworks.patches import Patches

Original = Callable[..., Any]
_MAX_DEPTH: Final = 12
_ACTIVATIONS: Final = ("relu", "relu6", "elu", "gelu", "leaky_relu", "selu", "sigmoid", "silu", "softmax", "softplus")
_FUNCTIONS: Final = (*_ACTIVATIONS, "celu", "hard_tanh", "log_sigmoid", "log_softmax")
"""What may come right before a loss; only the outputs of ``_ACTIVATIONS`` are captured."""


class _Local(threading.local):
    running: tuple[str, ...] = ()
    """The names of the layers that are running, from the outside."""
    paths: dict[int, str]
    """The paths of the layers in the outermost one, by their ids."""
    keep: Sequence[Any]
    """The layers themselves, so that their ids stay unique."""
    calls: Counter[str]
    """How often each activation was called in each layer."""
    is_mode_given: bool
    """Whether the outermost layer was called with a flag, such as ``train=True``."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.paths, self.keep, self.calls = {}, (), Counter()
        self.is_mode_given = False


_LOCAL = _Local()
"""One for all sessions: libraries keep functions that an earlier one has replaced."""


class Layers:
    """Taps what layers are given and return.

    Args:
        watch: Has the steps of the training.
    """

    def __init__(self, watch: ProcessWatch) -> None:
        self._watch = watch
        self._local = _LOCAL
        self._patches = Patches()
        self._roots: list[Any] = []
        """Classes that tell of their subclasses."""

    def install(self) -> None:
        """Tap the activations in ``jax.nn``."""
        for name in _FUNCTIONS:
            self._patches.replace(jax.nn, name, self._make_activation, is_optional=True)

    def uninstall(self) -> None:
        """Restore the functions and methods."""
        self._patches.restore()
        while self._roots:
            del self._roots.pop().__init_subclass__

    # --- Flax Linen ---------------------------------------------------------------------------------------

    def follow_linen(self, module: ModuleType) -> None:
        """Tap the modules of Flax Linen, whose calls all go through one method."""

        def make(original: Original) -> Original:
            def _call_wrapped_method(layer: Any, function: Any, args: Any, kwargs: Any) -> Any:
                is_call = getattr(function, "__name__", "") == "__call__"
                if self._watch.steps is None or not is_call or layer.scope is None:
                    return original(layer, function, args, kwargs)
                path = "/".join(map(str, layer.path))
                return self.call(layer, path, lambda: original(layer, function, args, kwargs), (args, kwargs))

            return _call_wrapped_method

        self._patches.replace(module.Module, "_call_wrapped_method", make)

    # --- Flax NNX and Equinox -----------------------------------------------------------------------------

    def follow_classes(self, module: ModuleType) -> None:
        """Tap the modules of Flax NNX or Equinox: each class below ``Module``, now and when it is defined."""
        root = module.Module
        for owner in _subclasses(root):
            self._replace_call(owner, root)

        def __init_subclass__(owner: type, **kwargs: Any) -> None:
            super(root, owner).__init_subclass__(**kwargs)  # type: ignore[misc]
            self._watch.guard.call(self._replace_call, owner, root)

        if "__init_subclass__" not in vars(root):
            root.__init_subclass__ = classmethod(__init_subclass__)  # type: ignore[arg-type]
            self._roots.append(root)

    def _replace_call(self, owner: type, root: type) -> None:
        if "__call__" not in vars(owner) or owner.__name__.startswith("_"):
            return  # a private class is what a library makes of a function, such as that of ``equinox.filter_jit``

        def make(original: Original) -> Original:
            def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
                path = self._watch.guard.call(self._path, layer, root) if self._watch.steps is not None else None
                if path is None:
                    return original(layer, *args, **kwargs)
                return self.call(layer, path, lambda: original(layer, *args, **kwargs), (args, kwargs))

            return __call__

        self._patches.replace(owner, "__call__", make)

    def _path(self, layer: Any, root: type) -> str | None:
        """Return the path of a layer in the outermost one that is running; None: it is not a part of that."""
        local = self._local
        if local.running:
            return local.paths.get(id(layer))
        found = list(_layers_in(layer, root, "", 0))
        local.paths = {id(layer): path for path, layer in reversed(found)}
        local.keep = [layer for _, layer in found]
        return ""

    # --- Keras --------------------------------------------------------------------------------------------

    def path_of_keras(self, layer: Any) -> str | None:
        """Return the path of a layer of Keras; None: it is not observed."""
        if self._watch.steps is None:
            return None
        running = self._local.running
        return str(layer.path or "/".join((*running[-1:], layer.name)))

    # --- calls --------------------------------------------------------------------------------------------

    def call(
        self,
        layer: Any,
        path: str,
        call: Callable[[], Any],
        inputs: tuple[Sequence[Any], Mapping[str, Any]],
        *,
        returns_state: bool = False,
    ) -> Any:
        """Call a layer, and return its result, tapped where it is traced.

        Args:
            inputs: Its arguments, positional and by name.
            returns_state: Whether the result is a tuple of which the first part is that of the layer.
        """
        local = self._local
        outer, kind = local.running, type(layer).__name__
        name = path or kind
        if not outer:
            local.is_mode_given = is_given_mode(*inputs)
        self._guarded(self._tap, inputs, f"{name}_input", _collections(kind, "input", not outer))
        local.running = (*outer, name)
        try:
            result = call()
        finally:
            local.running = outer
            is_mode_given = local.is_mode_given
            if not outer:
                local.reset()
        output, rest = (result[0], result[1:]) if returns_state else (result, ())
        tapped = self._guarded(self._tap_output, layer, name, inputs, output, not outer, is_mode_given)
        if tapped is None:
            return result
        return (tapped[0], *rest) if returns_state else tapped[0]

    def _tap_output(
        self, layer: Any, name: str, inputs: Any, output: Any, is_outermost: bool, is_mode_given: bool
    ) -> tuple[Any] | None:
        mode = mode_of(layer, *inputs, is_chosen=is_mode_given)
        return self._tap(output, f"{name}_output", _collections(type(layer).__name__, "output", is_outermost), mode)

    def _make_activation(self, original: Original) -> Original:
        name, local = original.__name__, self._local
        is_captured = name in _ACTIVATIONS

        def activation(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._watch.steps is None:
                return result
            if is_traced(result):
                tapped = self._guarded(_tap_function, name, result, args, kwargs)
                result = result if tapped is None else tapped[0]
            if not (is_captured and local.running):
                return result
            tapped = self._guarded(self._tap_activation, name, result)
            return result if tapped is None else tapped[0]

        return activation

    def _guarded(self, tap: Callable[..., tuple[Any] | None], *args: Any) -> tuple[Any] | None:
        """Tap what a script computes; None: nothing is tapped, or that has failed."""
        steps = self._watch.steps
        return self._watch.guard.call(steps.layers_read.call, tap, *args) if steps is not None else None

    def _tap_activation(self, activation: str, result: Any) -> tuple[Any] | None:
        local = self._local
        path = local.running[-1] if len(local.running) > 1 else ""
        name = f"{path}/{activation}".lstrip("/")
        count, local.calls[name] = local.calls[name], local.calls[name] + 1
        numbered = f"{name}_{count}" if count else name
        return self._tap(result, f"{numbered}_output", ("layers", f"{activation}_output"))

    def _tap(self, tree: Any, name: str, collections: tuple[str, ...], mode: str = "") -> tuple[Any] | None:
        """Return a tree with its arrays tapped; None if none needs to be."""
        steps, is_eager = self._watch.steps, compatibility.is_trace_clean()
        if steps is None or (is_eager and not steps.wants_eager_layers()):
            return None
        leaves, form = jax.tree_util.tree_flatten(tree)
        at = 0
        for position, leaf in enumerate(leaves):
            if not is_numeric(leaf):
                continue
            tap = Tap("layer", 0, f"{name}_{at}", collections, mode=mode)
            at += 1
            if is_traced(leaf):
                (leaves[position],) = tap_p.bind(leaf, tap=tap)
            elif is_eager:
                steps.begin_eager().add(tap, [leaf])
        return (form.unflatten(leaves),)


def _tap_function(name: str, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any] | None:
    """Return the output of a function of ``jax.nn``, tapped together with its input; None: it has another form."""
    given = args[0] if args else kwargs.get("x")
    if not is_numeric(given):
        return None
    axis = kwargs.get("axis", args[1] if len(args) > 1 else -1) if name in ("softmax", "log_softmax") else None
    if isinstance(axis, int) and axis >= 0:
        axis -= result.ndim
    tap = Tap("activation", 0, name, axis=axis if isinstance(axis, int) else None)
    return (tap_p.bind(result, given, tap=tap)[0],)


def _collections(kind: str, side: str, is_outermost: bool) -> tuple[str, ...]:
    collections = ("layers", f"{kind.lower()}_{side}")
    return (f"{side}s", *collections) if is_outermost else collections


def _subclasses(root: type) -> Iterator[type]:
    owner: type
    for owner in root.__subclasses__():
        yield owner
        yield from _subclasses(owner)


def _layers_in(value: Any, root: type, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the layers within a layer or a collection of layers, with their paths."""
    parts: Iterator[tuple[Any, Any]]
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, root):
        yield path, value
        parts = iter(list(vars(value).items()))
    elif isinstance(value, (list, tuple)):
        parts = ((at, part) for at, part in enumerate(value))
    elif isinstance(value, dict):
        parts = iter(list(value.items()))
    else:
        return
    for name, part in parts:
        if isinstance(part, (root, list, tuple, dict)):
            yield from _layers_in(part, root, f"{path}/{name}".lstrip("/"), depth + 1)
