"""A training step as a pure function: probes call it with other inputs and weights, and the training never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy.typing as npt

from leadline.frameworks.check.outcome import Tested

Array = npt.NDArray[Any]
Role = Literal["input", "label", "weight", ""]
"""What an array of the batch is: an input of the model, a label, or the weight of a sample; "": it is not known."""


class Leaf(NamedTuple):
    """An array that the step is given, and that is part of its batch.

    Attributes:
        key: What tells it from the others.
        is_scaled_later: Whether the model may scale it itself.
    """

    key: int
    name: str
    value: Array
    role: Role = ""
    is_scaled_later: bool = True


@dataclass(frozen=True, slots=True)
class Computed:
    """What a step has computed.

    Attributes:
        predictions: What the model has returned, those that the loss is computed from first.
        gradients: Those of the loss for each weight; None: the loss does not depend on it. Empty: not asked for.
    """

    loss: float
    predictions: Sequence[Array] = ()
    gradients: Sequence[Array | None] = ()


@dataclass(frozen=True, slots=True)
class StepVariant:
    """How a step is to be computed once more.

    Attributes:
        given: Arrays in place of those of the batch, by their keys.
        weights: Other weights; None: those of the step.
        evaluates: Whether models are in evaluation mode, where they have one.
        seed: Draws other random numbers; None: those of the step.
    """

    given: Mapping[int, Array]
    weights: Sequence[Array] | None
    evaluates: bool
    seed: int | None


class OwnOptimizer(Protocol):
    """The optimizer of the script, on copies of its weights and of its state."""

    def advance(self, seed: int | None) -> tuple[float, Sequence[Array]]:
        """Make a step on the batch; return the loss before it, and the weights after it.

        Args:
            seed: Draws other random numbers than the step itself; None: the same.
        """


class PureStep(Protocol):
    """A train step that can be computed again and again without an effect.

    Attributes:
        number: The train step, counted from 0.
        deadline: When the time for all probes ends, by the monotonic clock, in seconds.
        leaves: The arrays of its batch.
        weights: The trained parameters, as they are before the step, by ``names``.
        optimizer: The class or the library of the optimizer.
        rate: Its learning rate; 0: it is not known.
        is_adaptive: Whether it scales each element by itself.
        is_warming_up: Whether a schedule raises its rate.
        mode: The mode of ``compute(evaluates=True)``.
        tolerance: The share of the predictions' standard deviation below which a difference is rounding.
        separator: What separates the parts of names.
    """

    number: int
    deadline: float
    leaves: Sequence[Leaf]
    weights: Sequence[Array]
    names: Sequence[str]
    optimizer: str
    rate: float
    is_adaptive: bool
    is_warming_up: bool
    mode: Literal["evaluation", "training"]
    tolerance: float
    separator: str

    def compute(
        self,
        given: Mapping[int, Array] | None = None,
        *,
        weights: Sequence[Array] | None = None,
        evaluates: bool = False,
        seed: int | None = None,
        gradients: bool = False,
    ) -> Computed:
        """Compute the step, without its update.

        Args:
            given, weights, evaluates, seed: As in ``StepVariant``.
            gradients: Whether gradients are wanted.
        """
        return self.compute_variant(StepVariant(given or {}, weights, evaluates, seed), gradients=gradients)

    def compute_variant(self, variant: StepVariant, *, gradients: bool) -> Computed:
        """Compute a variant of the step, as ``compute`` does."""

    def layers(self, given: Mapping[int, Array]) -> Sequence[tuple[str, Array]]:
        """Return the outputs of layers in the mode ``mode``, in their order; empty: they are not known."""

    def used_gradients(self) -> Sequence[Array | None] | None:
        """Return the gradients that the optimizer is given; None: they are not seen."""

    def own_optimizer(self) -> OwnOptimizer | None:
        """Return the script's optimizer as it is before the step; None: it cannot be repeated."""

    def input_gradient(self, key: int) -> Array | None:
        """Return the gradient of a random projection of the predictions for an input; None: it is not known."""

    def why_mixed(self) -> str:
        """Return why the samples of this step are mixed on purpose; "": they are not."""

    def keeps_samples(self, size: int) -> bool:
        """Return whether the model keeps values of ``size`` samples from step to step that are none of its leaves."""

    def why_padding_is_read(self) -> str:
        """Return why padding has an influence on purpose; "": it should have none."""

    def test_modes(self) -> Tested:
        """Make the probe ``mode_mismatch``."""

    def test_state(self) -> Tested:
        """Make the probe ``incomplete_state``."""

    def test_parts(self) -> Tested:
        """Make the probe ``gradient_of_parts``."""
