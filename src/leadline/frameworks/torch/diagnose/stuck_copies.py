"""Copies of a trained model that are written again and again, and stay what they were: targets, and averages."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from leadline.frameworks.torch.capture.device_copy import Copy, copier_of
from leadline.frameworks.torch.naming.model_names import unwrap
from leadline.records.names import STUCK_COPY

_MAX_MODELS, _MAX_PARAMETERS, _MAX_ELEMENTS = 4, 16, 64
_MIN_LOOKS = 3
_WHOLE = (torch.Tensor, torch.nn.Parameter)
"""The types of parameters that are not sharded, quantized, or otherwise more than one tensor."""
_MOVED, _SHARE = 0.01, 1e-4
"""By which share of its norm the trained model must have moved, and by which of that the copy may have.

An average with a decay of 0.9999 has moved by more after a few updates; the rounding of a number mixed with itself is
less."""


@dataclass(slots=True)
class _Copied:
    """A model without an optimizer that was called without gradients."""

    looks: int = 0
    first: torch.Tensor | None = None
    """The first elements of its first parameters at the first look, ``(n,)``."""
    first_trained: torch.Tensor | None = None
    """Those of the trained model."""
    version: int = -1
    is_always_written: bool = True
    """Whether parameters were written in place between all looks."""
    pending: Sequence[float] | Copy | None = None
    """The latest look; it may still be on its way."""


class StuckCopies:
    """Compares such models with a trained one that has parameters of the same shapes.

    A copy counts as written if its parameters were changed in place between all looks, or if the bits of a value are
    others: one that is frozen on purpose, as a reference, is not. A look takes some operations for each of these
    models, and never waits: what is on an accelerator is known at the next look.
    """

    def __init__(self) -> None:
        self._called: weakref.WeakKeyDictionary[torch.nn.Module, _Copied] = weakref.WeakKeyDictionary()

    def note(self, called: torch.nn.Module) -> None:
        """Note that an outermost module, which no optimizer trains, was called without gradients."""
        if called not in self._called and len(self._called) < _MAX_MODELS:
            self._called[called] = _Copied()

    def results(self, trained: Iterable[torch.nn.Module]) -> dict[str, float]:
        """Return by copy at how many looks it was where it began, 0: it has moved; empty: there is none.

        Args:
            trained: The outermost modules of trained models.
        """
        if not self._called:
            return {}
        found: dict[str, float] = {}
        originals = [list(islice(root.parameters(), _MAX_PARAMETERS)) for root in trained]
        own = {id(parameter) for parameters in originals for parameter in parameters}
        for model, known in list(self._called.items()):
            parameters = list(islice(model.parameters(), _MAX_PARAMETERS))
            original = next((one for one in originals if _are_alike(one, parameters)), None)
            if original is None or any(id(parameter) in own for parameter in parameters):
                continue
            is_stuck = _look(known, parameters, original)
            if is_stuck is not None:
                name = f"{type(unwrap(model)).__name__}/{STUCK_COPY}"
                found[name] = max(found.get(name, 0.0), float(known.looks if is_stuck else 0))
        return found


def _are_alike(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    shapes = [[parameter.shape for parameter in parameters] for parameters in (one, other)]
    are_whole = all(type(parameter) in _WHOLE and not parameter.is_inference() for parameter in (*one, *other))
    return bool(one) and are_whole and shapes[0] == shapes[1]


def _look(known: _Copied, parameters: Sequence[torch.Tensor], original: Sequence[torch.Tensor]) -> bool | None:
    """Look at a copy, and return whether it is stuck by the latest look that has arrived; None: it is not known."""
    before = known.pending
    if before is None or isinstance(before, Sequence) or before.is_done():
        device = parameters[0].device
        copier = copier_of(device)
        is_recording = copier is not None and copier.is_recording()
        if is_recording or any(one.device != device or one.is_meta for one in (*parameters, *original)):
            return None
        values, trained = _sample(parameters), _sample(original)
        version = sum(parameter._version for parameter in parameters)
        if known.first is None or known.first_trained is None:
            known.first, known.first_trained, known.version = values, trained, version
            return None
        if values.shape != known.first.shape or trained.shape != known.first_trained.shape:
            return None
        known.is_always_written &= version != known.version
        known.version, known.looks = version, known.looks + 1
        distances = [values - known.first, known.first, trained - known.first_trained]
        numbers = torch.stack([torch.linalg.vector_norm(distance) for distance in distances])
        known.pending = numbers.tolist() if copier is None else copier.fetch(numbers)
        before = known.pending if copier is None else before
    if before is None or not (isinstance(before, Sequence) or before.is_done()):
        return None
    moved, size, of_trained = before if isinstance(before, Sequence) else before.numbers().tolist()
    if known.looks < _MIN_LOOKS or not of_trained >= _MOVED * size > 0:
        return None
    return bool((moved > 0 or known.is_always_written) and moved <= _SHARE * of_trained)


def _sample(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1)[:_MAX_ELEMENTS].double() for parameter in parameters])
