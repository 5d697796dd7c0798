"""What is known of a traced function: whether it trains, what it updates, and where its losses are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import jax

from leadline.frameworks.jax import compatibility
from leadline.frameworks.jax.loss_calls import TracedLossCall, loss_calls_in
from leadline.frameworks.jax.tap import Tap, tap_p

_SAME: Final = frozenset(
    {"broadcast_in_dim", "convert_element_type", "copy", "optimization_barrier", "pcast", "pvary", "reshape", "squeeze"}
    | {"sharding_constraint", tap_p.name}
)
_OF_LOSSES: Final = frozenset({"predictions", "labels"})
_SUMS_OVER_DEVICES: Final = frozenset({"psum", "psum2", "psum_invariant"})


class TapSite(NamedTuple):
    """A tap in a program.

    Attributes:
        loops: The lengths of the loops around it, from the outside.
        avals: The shapes and types of its values.
    """

    tap: Tap
    loops: tuple[int, ...]
    avals: tuple[Any, ...]


class _Loss(NamedTuple):
    """A variable that holds a loss."""

    tap: Tap
    is_summed: bool = False
    """Whether it is the sum over devices, which is divided by their number."""


@dataclass(frozen=True, slots=True)
class TracedFacts:
    """What is known of a function for arguments of some types.

    Attributes:
        sites: Its taps in the order of the program, each once.
        steps: The training steps of a call.
        loops: The number of loops around a step.
        losses: Positions of losses among the results.
        is_separate_update: Whether it only applies gradients that were computed elsewhere.
        refusal: Why it cannot be replayed; empty: it can.
        loss_calls: The losses of optax that it calls.
        trains: Whether a call of it is a part of a training step.
        has_optimizer: Whether it calls an optimizer.
        has_layers: Whether it calls layers.
    """

    sites: tuple[TapSite, ...] = ()
    steps: int = 1
    loops: int = 0
    losses: tuple[int, ...] = ()
    is_separate_update: bool = False
    refusal: str = ""
    loss_calls: tuple[TracedLossCall, ...] = ()
    trains: bool = field(init=False)
    has_optimizer: bool = field(init=False)
    has_layers: bool = field(init=False)

    def __post_init__(self) -> None:
        kinds = {site.tap.kind for site in self.sites}
        object.__setattr__(self, "trains", bool(kinds & {"gradient", "used_gradient"}))
        object.__setattr__(self, "has_optimizer", "used_gradient" in kinds)
        object.__setattr__(self, "has_layers", any(map(_is_of_layer, self.sites)))


def _is_of_layer(site: TapSite) -> bool:
    """Return whether a tap is at a layer, and not at what a loss is given."""
    return site.tap.kind == "layer" and _OF_LOSSES.isdisjoint(site.tap.collections)


def facts_of(traced: Any) -> TracedFacts:
    """Return the facts about a traced function."""
    jaxpr = traced.jaxpr.jaxpr
    sites: dict[Tap, TapSite] = {}
    for site in _sites(jaxpr, ()):
        sites.setdefault(site.tap, site)
    kinds = {tap.kind for tap in sites}
    kind = "used_gradient" if "used_gradient" in kinds else "gradient"
    loops = next((site.loops for site in sites.values() if site.tap.kind == kind), ())
    effects = compatibility.effects_of(jaxpr)
    return TracedFacts(
        tuple(sites.values()),
        steps=math.prod(loops),
        loops=len(loops),
        losses=tuple(at for at, loss in enumerate(_losses(jaxpr, [None] * len(jaxpr.invars))) if loss is not None),
        is_separate_update="used_gradient" in kinds and "gradient" not in kinds,
        refusal=f"it has effects that cannot be repeated ({', '.join(effects)})" if effects else "",
        loss_calls=loss_calls_in(jaxpr) if "loss_call" in kinds else (),
    )


def _sites(jaxpr: Any, loops: tuple[int, ...]) -> Iterator[TapSite]:
    for equation in jaxpr.eqns:
        if equation.primitive is tap_p:
            yield TapSite(equation.params["tap"], loops, tuple(variable.aval for variable in equation.invars))
        name = equation.primitive.name
        if name == "while":
            continue
        around = (*loops, equation.params["length"]) if name == "scan" else loops
        for body in compatibility.bodies_of(equation):
            yield from _sites(body, around)


def _losses(jaxpr: Any, given: Sequence[_Loss | None]) -> list[_Loss | None]:
    """Return which results of a program are losses, each loss once.

    Args:
        given: Which of its arguments are losses.
    """
    known: dict[Any, _Loss] = {v: loss for v, loss in zip(jaxpr.invars, given, strict=True) if loss is not None}

    def loss_of(variable: Any) -> _Loss | None:
        return known.get(variable) if not hasattr(variable, "val") else None

    for equation in jaxpr.eqns:
        if equation.primitive is tap_p and equation.params["tap"].kind == "loss":
            known[equation.invars[0]] = known[equation.outvars[0]] = _Loss(equation.params["tap"])
            continue
        for variable, loss in zip(
            equation.outvars, _through(equation, list(map(loss_of, equation.invars))), strict=False
        ):
            if loss is not None:
                known[variable] = loss
    results: list[_Loss | None] = []
    for variable in jaxpr.outvars:
        loss = loss_of(variable)
        results.append(loss if loss not in results else None)
    return results


def _through(equation: Any, given: list[_Loss | None]) -> Sequence[_Loss | None]:
    """Return which results of an equation are losses."""
    name, params = equation.primitive.name, equation.params
    if name in _SAME:
        return given
    if name in _SUMS_OVER_DEVICES:
        return [loss and loss._replace(is_summed=True) for loss in given]
    if name == "div":
        return [given[0]._replace(is_summed=False) if given[0] is not None and given[0].is_summed else None]
    if name in compatibility.BODIES or name == "shard_map":
        body = params[compatibility.BODIES.get(name, "jaxpr")]
        return _losses(compatibility.program_of(body)[0], given)
    if name == "scan":
        results = _losses(compatibility.program_of(params["jaxpr"])[0], given)
        return [None] * params["num_carry"] + results[params["num_carry"] :]
    if name == "cond":
        branches = [_losses(compatibility.program_of(branch)[0], given[1:]) for branch in params["branches"]]
        return [next(filter(None, losses), None) for losses in zip(*branches, strict=True)]
    return ()


class LossPlace(NamedTuple):
    """Where a loss is in a tree of results.

    Attributes:
        path: Its path.
        position: Its position among all leaves.
    """

    path: tuple[Any, ...]
    position: int

    def find(self, tree: Any) -> Any:
        """Return the loss in a tree."""
        leaf = tree
        for key in self.path:
            if hasattr(key, "idx"):
                leaf = leaf[key.idx] if isinstance(leaf, (tuple, list)) else _children(leaf)[key.idx]
            elif type(key).__name__ == "DictKey":
                leaf = leaf[key.key]
            elif hasattr(key, "name"):
                leaf = getattr(leaf, key.name)
            else:
                return jax.tree_util.tree_leaves(tree)[self.position]
        return leaf


def _children(node: Any) -> Sequence[Any]:
    """Return what a node of a tree holds; what it returns for an index may be something else."""
    flattened = jax.tree_util.default_registry.flatten_one_level(node)
    return list(flattened[0]) if flattened is not None else ()


def places_in(tree: Any, positions: Sequence[int]) -> list[LossPlace]:
    """Return the places of some leaves in a tree of results."""
    filled = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(filled)[0]]
    return [LossPlace(tuple(paths[at]), at) for at in positions]


def losses_in(result: Any) -> list[tuple[str | None, Any]]:
    """Return what is a loss in the result of an evaluation: a number that is all of it, or that is called a loss."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(result)
    numbers = [(path, leaf) for path, leaf in leaves if not leaf.shape and leaf.dtype.kind == "f"]
    if len(leaves) == 1 and numbers:
        return [(None, numbers[0][1])]
    named = [(str(getattr(path[-1], "key", getattr(path[-1], "name", ""))), leaf) for path, leaf in numbers if path]
    return [(name, leaf) for name, leaf in named if "loss" in name.lower()]
