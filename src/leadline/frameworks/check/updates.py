"""How gradients and updates are judged by the loss of their own batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from leadline.frameworks.check.outcome import Tested, failed, not_applicable, passed
from leadline.records.json_object import JsonObject

MULTIPLES: Final = (-1.0, 0.0, 0.01, 0.1, 0.3, 1.0, 2.0, 4.0, 30.0, 1000.0)
"""Of the update, at which the loss is computed."""
STEPS: Final = 10
"""Steps on the same batch after which momentum is that of its loss."""
FOREIGN: Final = 0.2
"""A cosine below which the gradients are those of another loss."""
PARALLEL: Final = 0.999
EQUAL: Final = 1e-3
_SHRUNK: Final = 1e-4
_GROWN: Final = 1.5
_SMALL: Final = 1e-3
"""The least relative change of the loss by an update; smaller for optimizers that scale each element by themselves."""
_TINY: Final = 1e-6
_BEGUN: Final = 2
"""The step from which a warm-up has raised the rate above 0."""


class Gradients(NamedTuple):
    """The gradients that the optimizer uses, beside those of the loss.

    Attributes:
        cosine: Of both.
        size: The norm of those that are used.
        expected: The norm of those of the loss.
        are_compared: Whether both are of the same samples, as they are in one process.
        has_left_over: Returns whether those of the steps before are in them.
        decay: Returns the cosine of the weights and of what they have beside those of the loss.
    """

    cosine: float
    size: float
    expected: float
    are_compared: bool = True
    has_left_over: Callable[[], bool] = lambda: False
    decay: Callable[[], float] = lambda: 0.0

    @property
    def evidence(self) -> dict[str, float]:
        """The numbers, for the report."""
        return {"cosine": self.cosine, "norm": self.size, "expected_norm": self.expected}


class Update(NamedTuple):
    """The update of a step.

    Attributes:
        losses: The loss at its multiples.
        climb: Returns the cosine of update and gradient once momentum is that of this batch; below 0: it goes down.
        rate: The learning rate; 0: it is not known.
        is_adaptive: Whether the optimizer scales each element by itself.
        is_warming_up: Whether a schedule raises the rate.
    """

    losses: Mapping[float, float]
    climb: Callable[[], float]
    rate: float
    is_adaptive: bool
    is_warming_up: bool

    @property
    def names_rate(self) -> str:
        """The rate in parentheses."""
        return f" ({self.rate:g})" if self.rate else ""


def judge_gradients(given: Gradients) -> Tested | None:
    """Return what is wrong with the gradients; None: nothing."""
    if not math.isfinite(given.size) or not math.isfinite(given.expected):
        return not_applicable("the gradients are not finite")
    if given.expected == 0:
        return not_applicable("the gradient of this batch is 0")
    if given.size == 0:
        return failed(
            "backward passes were made, and the gradients are gone before the update",
            "call zero_grad before backward, not between backward and step",
            expected_norm=given.expected,
        )
    if given.are_compared and given.cosine < FOREIGN:
        what = "the negative of" if given.cosine < -FOREIGN else "not"
        return failed(
            f"the gradients that the optimizer uses are {what} those of this step's loss: their cosine is "
            f"{given.cosine:.2f}",
            "compute and apply the gradients once each, in this order, for the same loss; clear them before, and "
            "unscale them before clipping",
            **given.evidence,
        )
    if given.has_left_over():
        return failed(
            "the gradients that the optimizer uses are those of this step's loss and of the steps before it",
            "call zero_grad before each backward pass that begins a step",
            **given.evidence,
        )
    if given.decay() < -PARALLEL:
        return failed(
            "the gradients that the optimizer uses are those of the loss less a multiple of the weights: weights grow",
            "add the gradient of a penalty, or use the optimizer's weight_decay",
            **given.evidence,
        )
    if given.size < _SHRUNK * given.expected:
        return failed(
            f"the gradients that the optimizer uses are {given.size / given.expected:.1g} times those of this step's "
            "loss",
            "clip to a larger norm, after unscaling; look for a factor in the loss that is applied twice",
            **given.evidence,
        )
    return None


def judge_no_update(rates: Sequence[float], step: int, evidence: Mapping[str, float]) -> Tested:
    """Judge an update that changes no parameter although there are gradients.

    Args:
        rates: The learning rate of each group of parameters.
        step: The train step.
    """
    is_off = bool(rates) and all(float(rate) == 0 for rate in rates)
    if is_off and step < _BEGUN:
        return not_applicable("the learning rate is 0 at the first steps")
    if is_off:
        return failed(
            f"the update changes no parameter: the learning rate is 0 at train step {step:,}",
            "look at the schedule: an integer division, or a warm-up that is counted in epochs, keeps its factor at 0",
            **evidence,
        )
    return failed(
        "the update changes no parameter, although there are gradients: it is rounded away, or not made",
        "keep the parameters in float32, and look at what the optimizer's step does",
        **evidence,
    )


def judge_update(update: Update, evidence: Mapping[str, float], *, cosine: float, is_shared: bool = False) -> Tested:
    """Judge the losses along an update.

    Args:
        cosine: Of the update and the gradient: where it goes up clearly, ``climb`` tells whether that lasts.
        is_shared: Whether the gradient is a mean over processes, whose direction may be another one.
    """
    losses = update.losses
    shown: JsonObject = {**evidence, "losses": [[multiple, loss] for multiple, loss in losses.items()]}
    start, one = losses[0.0], losses[1.0]
    finite = {multiple: loss for multiple, loss in losses.items() if math.isfinite(loss) and multiple >= 0}
    best = min(finite, key=lambda multiple: finite[multiple], default=0.0)
    scale = max(abs(start), 1e-12)
    if cosine > FOREIGN and not is_shared and (climb := update.climb()) > FOREIGN:
        return failed(
            f"the update goes up the gradient of this step's loss: their cosine is {climb:.2f}",
            "subtract the gradient; look at the sign of the rate, and at maximize=True",
            climb=climb,
            **shown,
        )
    is_too_large = not math.isfinite(one) or one > start + _GROWN * scale
    is_of_momentum = best == 0 and cosine > 0  # it goes on for other batches, where this one is learned
    if is_too_large and best <= 0.1 and not is_of_momentum:
        return failed(
            f"the update of this step raises the loss of its own batch from {start:.4g} to {one:.4g}; "
            + (f"{best:g} times the update lowers it to {finite[best]:.4g}" if best else "no part of it lowers it"),
            f"lower the learning rate{update.names_rate}, or warm it up",
            **shown,
        )
    tiny = _TINY if update.is_adaptive else _SMALL
    is_tiny = best >= MULTIPLES[-1] and abs(one - start) < tiny * scale
    if is_tiny and not update.is_warming_up and update.rate > 0:
        return failed(
            f"the update of this step changes the loss of its own batch by {abs(one - start) / scale:.1g} of it, and "
            f"1,000 times the update lowers it from {start:.4g} to {finite[best]:.4g}",
            f"raise the learning rate{update.names_rate}",
            **shown,
        )
    return passed(
        f"the update changes the loss of its own batch from {start:.4g} to {one:.4g}; its best multiple is {best:g}",
        **shown,
    )
