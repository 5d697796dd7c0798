"""The rule identical_units."""

from __future__ import annotations

from typing import ClassVar, Final

from leadline.records.loss_facts import IDENTICAL_UNITS
from leadline.rules import Advice, Fired, TensorReading
from leadline.rules.messages import and_more, fired
from leadline.rules.tensors.layer_pair_rule import LayerPairRule

_ADVICE: Final = Advice(
    "random initial weights, {drawn_by_default}, or those of a trained model that was to be loaded; usually the "
    "weights were set to a constant, which is meant for biases, or a checkpoint was not read"
)


class IdenticalUnits(LayerPairRule, frozen=True, kw_only=True):
    """Fires when all units of a layer start with the same weights, and stay the same for ever.

    Why it matters:
        Units with equal weights compute the same, get the same gradient and remain equal: the layer is as good as a
        single unit, however long the model is trained. Random initial weights exist to prevent that.
    How it decides:
        At the first train step the weights of linear and convolution layers are read from the graph of each backward
        pass. Fires if all units of a layer have the same weights and biases, and a layer that fits its output gives the
        same weight to each of them. Units to which something else is added, as in a residual branch or an adapter that
        starts with zeros, get gradients of their own and are left out, as are units that are divided among several
        uses, as the scale and the shift of a coupling layer.
    Not a number:
        Weights with NaN are equal to none.
    Blind spots:
        The 300 nodes nearest to the loss are looked at; compiled models are not seen. A layer fits the output of
        another one if it has as many inputs, or a multiple of them. Dropout behind the layer makes its units differ in
        the course of the training.
    Source:
        Ours; Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010).
    """

    explains: ClassVar[tuple[str, ...]] = (
        "no_gradient",
        "poor_weight_initialization",
        "metric_not_improving",
        "diverging_loss",
        "loss_not_decreasing",
        "output_collapse",
    )

    fact: ClassVar[str] = IDENTICAL_UNITS

    def finding(self, pairs: list[TensorReading], one: str, other: str, count: int) -> Fired:
        return fired(
            f"all units of layer {one} start with the same weights, and layer {other} weighs them alike"
            f"{and_more(count - 1, 'layer')}: they stay the same for ever",
            *pairs,
            advice=_ADVICE,
            evidence={"first": one, "second": other, "layers": count},
        )
