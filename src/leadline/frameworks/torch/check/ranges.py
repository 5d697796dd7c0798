"""Targets that no prediction can reach, since the last function of the model has a range."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.check.loss_calls import loss_calls, target_of
from leadline.frameworks.torch.check.step_copy import StepCopy

_DISTANCES: Final = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
"""Losses that are least where the prediction equals its target."""
_RANGES: Final = {
    "Tanh": (-1.0, 1.0),
    "Sigmoid": (0.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Relu": (0.0, math.inf),
    "Softplus": (0.0, math.inf),
}
"""The range of each function, by the name of its node of autograd without ``Backward0``."""
_SHAPING: Final = ("View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Permute", "T", "Alias")
"""Nodes of autograd that change only the shape."""
_MARGIN: Final = 0.01
"""Beyond a range, as a part of the targets' standard deviation: that of rounding and noise."""
_SHARE: Final = 0.05


def out_of_reach(step: StepCopy) -> Tested | None:
    """Return the failure of a step many of whose targets are outside of what predictions can be; None: there is none.

    Only losses that measure a distance are looked at, and only if the function with the range is the last one.
    """
    for call in loss_calls(step.calls):
        name = getattr(call.function, "__name__", "")
        target = target_of(call)
        prediction = next(iter(call.args), call.kwargs.get("input"))
        if name not in _DISTANCES or target is None or not isinstance(prediction, torch.Tensor):
            continue
        function = _last_function(prediction.grad_fn)
        if function is None:
            continue
        low, high = _RANGES[function]
        values = target.detach().double()
        margin = _MARGIN * float(values.std()) if values.numel() > 1 else 0.0
        share = float(((values < low - margin) | (values > high + margin)).double().mean())
        if share > _SHARE:
            reach = f"below {low:g}" if high == math.inf else f"outside of {low:g} to {high:g}"
            return failed(
                f"{share:.0%} of the targets are {reach}, where no prediction can be: the model ends with "
                f"{function.lower()}; they go from {float(values.min()):.4g} to {float(values.max()):.4g}",
                f"leave {function.lower()} out, or scale the targets to its range",
                share=share,
            )
    return None


def _last_function(node: Any) -> str | None:
    """Return the function with a range that a tensor was computed by, apart from changes of its shape."""
    while node is not None:
        name = type(node).__name__.rstrip("0123456789").removesuffix("Backward")
        if name in _RANGES:
            return name
        if name not in _SHAPING:
            return None
        node = node.next_functions[0][0]
    return None
