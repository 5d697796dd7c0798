"""Running averages of batch normalizations that evaluation cannot use: not finite, or those of the start."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn.modules.batchnorm import _NormBase

from leadline.frameworks.torch.capture.device_copy import Copy, copier_of
from leadline.frameworks.torch.naming.model_names import unwrap
from leadline.records.names import INITIAL_AVERAGE, INITIAL_AVERAGES, NONFINITE_AVERAGE, NONFINITE_AVERAGES

_NO_AVERAGES: Final = -1.0


@dataclass(frozen=True, slots=True)
class _Look:
    """The averages on one device at one step; their numbers may still be on their way."""

    names: Sequence[str]
    """The normalizations."""
    have_run: Sequence[bool]
    """Whether each was in training mode and its weight has a gradient."""
    numbers: Sequence[float] | Copy
    """The largest absolute mean of each, then the largest variance, then the largest distance of a variance from 1."""

    def is_done(self) -> bool:
        """Whether the numbers have arrived."""
        return isinstance(self.numbers, Sequence) or self.numbers.is_done()

    def results(self) -> dict[str, float]:
        """Return 1 for each average that evaluation cannot use, by the name of the check; only once it is done."""
        numbers = self.numbers if isinstance(self.numbers, Sequence) else self.numbers.numbers().tolist()
        count = len(self.names)
        means, variances, distances = numbers[:count], numbers[count : 2 * count], numbers[2 * count :]
        found = {}
        for name, has_run, mean, variance, distance in zip(
            self.names, self.have_run, means, variances, distances, strict=True
        ):
            for buffer, size in (("running_mean", mean), ("running_var", variance)):
                if not math.isfinite(size):
                    found[f"{name}.{buffer}/{NONFINITE_AVERAGE}"] = 1.0
            if has_run and mean == 0 and distance == 0:
                found[f"{name}/{INITIAL_AVERAGE}"] = 1.0
        return found


class RunningAverages:
    """Looks at the running averages of one model's batch normalizations.

    A look takes four operations for each device, on the host fewer as long as nothing is found, and never waits: what
    is on an accelerator is known at the next look. Modules that the model gets later are not found.
    """

    def __init__(self, roots: Mapping[torch.nn.Module, str]) -> None:
        """
        Args:
            roots: The outermost modules of the model, with the prefixes of their names.
        """
        self._modules = [
            (prefix + (name or type(module).__name__), weakref.ref(module))
            for root, prefix in roots.items()
            for name, module in unwrap(root).named_modules()
            if isinstance(module, _NormBase) and _averages(module) is not None
        ]
        self._pending: dict[torch.device, _Look] = {}
        self._has_moved = False
        """Whether none of the averages on the host is that of the start any more."""

    def results(self, label: str) -> dict[str, float]:
        """Return how many averages evaluation cannot use, and 1 for each of them; empty: nothing is known yet.

        Args:
            label: The optimizer of the model.
        """
        if not self._modules:
            return {f"{label}/{NONFINITE_AVERAGES}": _NO_AVERAGES}
        found: dict[str, float] = {}
        is_known = False
        for device, named in self._by_device().items():
            look = self._pending.get(device)
            if look is not None and not look.is_done():
                continue
            if self._has_moved and copier_of(device) is None and _are_finite(named):
                is_known = True
                continue
            latest = _look(device, named)
            if latest is not None and isinstance(latest.numbers, Sequence):
                look = latest
                self._has_moved = all(map(max, latest.numbers, latest.numbers[2 * len(named) :]))
            elif latest is not None:
                self._pending[device] = latest
            if look is not None:
                is_known = True
                found |= look.results()
        counts = {
            f"{label}/{total}": float(sum(name.endswith(f"/{check}") for name in found))
            for total, check in ((NONFINITE_AVERAGES, NONFINITE_AVERAGE), (INITIAL_AVERAGES, INITIAL_AVERAGE))
        }
        return found | counts if is_known else {}

    def _by_device(self) -> dict[torch.device, list[tuple[str, Any]]]:
        found: dict[torch.device, list[tuple[str, Any]]] = {}
        for name, reference in self._modules:
            module = reference()
            averages = _averages(module) if module is not None else None
            if averages is not None and not averages[0].is_meta:
                found.setdefault(averages[0].device, []).append((name, module))
        return found


def _averages(module: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the running mean and variance of a module; None: it has none, one for each channel."""
    mean, variance = module._buffers.get("running_mean"), module._buffers.get("running_var")
    return None if mean is None or variance is None or mean.dim() != 1 else (mean, variance)


def _look(device: torch.device, named: Sequence[tuple[str, Any]]) -> _Look | None:
    """Look at the averages of modules on one device; None while its computation is recorded in a graph."""
    copier = copier_of(device)
    if copier is not None and copier.is_recording():
        return None
    means, variances = zip(*(averages for _, module in named if (averages := _averages(module))), strict=True)
    distances = torch._foreach_sub(list(variances), 1.0)
    sizes = torch._foreach_norm([*means, *variances, *distances], math.inf)
    numbers = torch.stack(sizes).double()
    return _Look(
        [name for name, _ in named],
        [_has_run(module) for _, module in named],
        numbers.tolist() if copier is None else copier.fetch(numbers),
    )


def _are_finite(named: Sequence[tuple[str, Any]]) -> bool:
    """Return whether all averages are finite: ten times as fast as a look."""
    averages = [buffer for _, module in named for buffer in _averages(module) or ()]
    return bool(torch.cat(averages).isfinite().all())


def _has_run(module: Any) -> bool:
    """Return whether the current step trains a module in training mode."""
    weight = module.weight
    return module.training and weight is not None and weight.requires_grad and weight.grad is not None
