"""The tap: an identity in the program of a training, at which its values can be found; it is lowered to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from leadline.frameworks.jax.compatibility import Tracer
from leadline.records.loss_facts import LossKind

TrainingKind = Literal["loss", "gradient", "parameter", "used_gradient", "weight", "state", "update", "change", "layer"]
Kind = TrainingKind | Literal["activation", "loss_call", "loss_result"]
UNNAMED: Final = "parameters"
"""The name of a tree that is a single array."""


@dataclass(frozen=True, slots=True, order=True)
class GivenToLoss:
    """What the call of a loss of optax shows.

    Attributes:
        kind: What it computes.
        axis: The axis of the classes, counted from the last one: -1; None: there is no single one.
        has_numbers: Whether its labels are numbers, and all of them count.
        is_outer: Whether predictions and labels of N samples are expanded to N x N.
        repeats: The number of predictions of its sample with which each label is compared.
        is_swapped: Whether its labels depend on what is trained, and its predictions do not; None: not known.
    """

    kind: LossKind
    axis: int | None
    has_numbers: bool
    is_outer: bool
    repeats: int
    is_swapped: bool | None = None


@dataclass(frozen=True, slots=True, order=True)
class Tap:
    """What the values at a tap are.

    Attributes:
        kind: ``loss``, ``gradient`` and ``parameter``: of ``jax.value_and_grad``; ``used_gradient``, ``weight``,
            ``state`` and ``update``: of an optimizer, where an ``update`` has two values, the weight and what is added
            to it; ``change``: a weight before and after an update; ``layer``: an input or output of a layer;
            ``activation``: the output and the input of a function of ``jax.nn``; ``loss_call``: the predictions and
            the labels that a loss is given; ``loss_result``: what it returns.
        group: Tells one call that is tapped from another.
        name: The path in the tree of values, or the name of the layer.
        collections: The collections of a layer.
        axis: That of a softmax, counted from the last one.
        given: What is known of a loss call.
        mode: Of the output of dropout and batch normalization: ``training``; ``evaluation``, and
            ``trained_in_evaluation`` if it depends on what is trained.
    """

    kind: Kind
    group: int
    name: str
    collections: tuple[str, ...] = ()
    axis: int | None = None
    given: GivenToLoss | None = None
    mode: str = ""


tap_p: Final = Primitive("leadline_tap")
tap_p.multiple_results = True
tap_p.def_impl(lambda *values, tap: list(values))
tap_p.def_abstract_eval(lambda *avals, tap: list(avals))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, tap: Tap) -> tuple[Sequence[Any], Sequence[Any]]:
    if tap.given is not None:
        predictions, labels = (type(tangent) is not ad.Zero for tangent in tangents)
        tap = replace(tap, given=replace(tap.given, is_swapped=labels and not predictions))
    if tap.mode == "evaluation" and type(tangents[0]) is not ad.Zero:
        tap = replace(tap, mode="trained_in_evaluation")
    return tap_p.bind(*primals, tap=tap), list(tangents)


def _batch(values: Sequence[Any], axes: Sequence[Any], *, tap: Tap) -> tuple[Sequence[Any], Sequence[Any]]:
    return tap_p.bind(*values, tap=tap), list(axes)


ad.primitive_jvps[tap_p] = _jvp
batching.primitive_batchers[tap_p] = _batch
mlir.register_lowering(tap_p, lambda context, *values, tap: list(values))


def named_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield the numeric arrays of a tree with their paths, as in ``dense/kernel``.

    A part that all paths begin with and that only says how the tree is kept is left out: ``params`` of Flax Linen, and
    ``states/0`` and ``value`` of Flax NNX.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    paths = [_shortened(list(map(_part, path))) for path, _ in leaves]
    if paths and all(len(path) > 1 and path[0] == "params" for path in paths):
        paths = [path[1:] for path in paths]
    for path, (_, leaf) in zip(paths, leaves, strict=True):
        if is_numeric(leaf):
            yield "/".join(path) or UNNAMED, leaf


def is_numeric(leaf: Any) -> bool:
    """Return whether statistics can be computed of a leaf of a tree: not of a random key."""
    kind = getattr(getattr(leaf, "dtype", None), "kind", "")
    return kind in "fiubcV" and kind != "" and not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended)


def is_traced(leaf: Any) -> bool:
    """Return whether a leaf of a tree belongs to a program that is being traced."""
    return isinstance(leaf, Tracer)


def _part(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _shortened(path: list[str]) -> list[str]:
    if len(path) > 3 and path[0] == "states" and path[1].isdigit():
        path = path[2:]
    return path[:-1] if len(path) > 1 and path[-1] == "value" else path
