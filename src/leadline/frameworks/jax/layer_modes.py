"""The modes of dropout and batch normalization in the program of a train step."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from leadline.frameworks.jax.facts import TapSite
from leadline.frameworks.keras.modes import has_mode, resolved_training
from leadline.frameworks.kit.step_modes import ModelMode

Mode = Literal["", "training", "evaluation", "trained_in_evaluation"]
_ARGUMENTS: Final = ("deterministic", "use_running_average", "inference")
"""What says of a layer of Flax or Equinox that it is in evaluation mode."""
_KINDS: Final = frozenset({"alphadropout", "batchnorm", "dropout"})


def mode_of(layer: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, is_chosen: bool) -> Mode:
    """Return the mode of a layer that was called; empty: it has none.

    Args:
        is_chosen: Whether the script has passed a mode to the model: what that makes of it is meant so.
    """
    if type(layer).__module__.startswith("keras."):
        is_evaluation = not resolved_training() if has_mode(layer) else None
    else:
        is_evaluation = _evaluates(layer, args, kwargs) if _has_mode(layer) else None
    if is_evaluation is None:
        return ""
    return "evaluation" if is_evaluation and not is_chosen else "training"


def is_given_mode(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call is given a mode: a flag."""
    return any(isinstance(value, bool) for value in (*args, *kwargs.values()))


def model_of(sites: Sequence[TapSite]) -> str:
    """Return the model that is called first, by the taps of a program; empty: there is none."""
    names = (site.tap.name for site in sites if site.tap.kind == "layer" and "outputs" in site.tap.collections)
    return next(names, "").rpartition("_output_")[0]


def mode_of_step(sites: Sequence[TapSite]) -> ModelMode | None:
    """Return the mode of what a program trains; None: no dropout and no batch normalization is below its loss."""
    modes = {site.tap.mode for site in sites}
    if "training" in modes:
        return ModelMode(model_of(sites) or "model", False)
    return ModelMode(model_of(sites) or "model", True) if "trained_in_evaluation" in modes else None


def _has_mode(layer: Any) -> bool:
    kinds = {kind.__name__.lower() for kind in type(layer).__mro__}
    rate = getattr(layer, "rate", getattr(layer, "p", 1.0))
    return not kinds.isdisjoint(_KINDS) and (isinstance(rate, float) and rate > 0)


def _evaluates(layer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | None:
    """Return whether a layer is in evaluation mode; None: nothing says so, or only in the program."""
    given = {**dict(_positional(layer, args)), **kwargs}
    for name in _ARGUMENTS:
        for value in (given.get(name), getattr(layer, name, None)):
            if isinstance(value, bool):
                return value
    return None


def _positional(layer: Any, args: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the positional arguments of a layer by name."""
    yield from zip(inspect.signature(type(layer).__call__).parameters, (layer, *args), strict=False)
