"""The named tensors at the taps of a function or of an eager step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from leadline.frameworks.capture_requests import primaries_of, request_with_norm
from leadline.frameworks.jax.facts import TapSite
from leadline.frameworks.jax.loss_calls import TracedLossCall
from leadline.frameworks.kit.named_tensor import GRADIENTS, NamedTensor, parameter_collections
from leadline.records.names import OPTIMIZER_VARIABLES, gradient_name
from leadline.records.plan import CaptureItem
from leadline.records.series import TensorInfo

LOSS: Final = "loss"
_HYPERPARAMETERS: Final = "hyperparams"
"""The part of the state of ``optax.inject_hyperparams`` that holds them."""


class Wanted(NamedTuple):
    """What is captured of a tensor."""

    info: TensorInfo
    primaries: tuple[str, ...]
    has_copy: bool
    loss_call: TracedLossCall | None = None
    """The call whose facts are captured in place of statistics."""


def tensors_of(sites: Sequence[TapSite], prefix: str) -> list[NamedTensor]:
    """Return the tensors at some taps: gradients and weights as the optimizers get them, if there are any.

    Args:
        prefix: The beginning of their names; empty for the first function that trains.
    """
    kinds = {site.tap.kind for site in sites}
    of_gradients = "used_gradient" if "used_gradient" in kinds else "gradient"
    of_weights = "weight" if "weight" in kinds else "parameter"
    makers: dict[str, tuple[Callable[[str], str], Callable[[str], tuple[str, ...]]]] = {
        of_gradients: (gradient_name, lambda _: GRADIENTS),
        of_weights: (str, parameter_collections),
        "state": (lambda path: f"optimizer/{path}", lambda _: (OPTIMIZER_VARIABLES,)),
    }
    groups = _prefixes(sites, prefix)
    tensors: dict[str, NamedTensor] = {}
    for site in sites:
        tap = site.tap
        if tap.kind == "layer":
            found = NamedTensor(prefix + tap.name, tap.collections, site)
        elif tap.kind in makers and not (tap.kind == "state" and not site.avals[0].shape):
            name, collections = makers[tap.kind]
            path = groups[tap.group] + tap.name
            found = NamedTensor(name(path), collections(path), site)
        else:
            continue
        tensors.setdefault(found.name, found)
    return list(tensors.values())


def info_of(tensor: NamedTensor, items: Sequence[CaptureItem]) -> TensorInfo:
    """Return how a tensor is recorded for some items; its shape is without the axes of loops around it."""
    aval = tensor.source.avals[0]
    return tensor.info(items, aval.shape, np.dtype(aval.dtype).name)


def ratios_of(sites: Sequence[TapSite], prefix: str) -> dict[str, TapSite]:
    """Return the taps of the updates by the names of the weights."""
    groups = _prefixes(sites, prefix)
    updates: dict[str, TapSite] = {}
    for site in sites:
        if site.tap.kind in ("update", "change"):
            updates.setdefault(groups[site.tap.group] + site.tap.name, site)
    return updates


def settings_of(sites: Sequence[TapSite], prefix: str) -> dict[str, TapSite]:
    """Return the taps of the hyperparameters that an optimizer keeps in its state, by their names."""
    groups = _prefixes(sites, prefix)
    found: dict[str, TapSite] = {}
    for site in sites:
        before, _, name = site.tap.name.rpartition("/")
        if site.tap.kind == "state" and not site.avals[0].shape and before.split("/")[-1] == _HYPERPARAMETERS:
            found.setdefault(f"{groups[site.tap.group]}{name}", site)
    return found


def _prefixes(sites: Sequence[TapSite], prefix: str) -> dict[int, str]:
    """Return the beginning of the names of each call that is tapped: several calls may have equal names."""
    calls: dict[int, dict[str, set[str]]] = {}
    for site in sites:
        calls.setdefault(site.tap.group, {}).setdefault(site.tap.kind, set()).add(site.tap.name)
    prefixes: dict[int, str] = {}
    used: dict[str, list[set[str]]] = {}
    for group, kinds in calls.items():
        before = max((sum(bool(names & other) for other in used.get(kind, [])) for kind, names in kinds.items()))
        for kind, names in kinds.items():
            used.setdefault(kind, []).append(names)
        prefixes[group] = f"{prefix}{before}/" if before else prefix
    return prefixes


def wanted_of(tensor: NamedTensor, items: Sequence[CaptureItem], prefix: str) -> Wanted | None:
    """Return what some items request of a tensor; None: nothing.

    Args:
        prefix: The beginning of the name of the norm of all gradients.
    """
    request = request_with_norm(items, tensor, prefix)
    if not (request.on_device or request.needs_copy):
        return None
    return Wanted(info_of(tensor, items), primaries_of(request.on_device), request.needs_copy)
