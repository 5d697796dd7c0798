"""The rule consecutive_linear."""

from __future__ import annotations

from typing import ClassVar, Final

from leadline.records.loss_facts import CONSECUTIVE_LINEAR, FACT_STEPS
from leadline.rules import Advice, Fired, Severity, TensorReading
from leadline.rules.messages import and_more, fired
from leadline.rules.tensors.layer_pair_rule import LayerPairRule

_ADVICE: Final = Advice(
    "an activation such as ReLU between {one} and {other}, or one layer in place of both; usually an activation was "
    "forgotten",
    "one",
    "other",
)


class ConsecutiveLinear(LayerPairRule, frozen=True, kw_only=True):
    """Fires when two linear or convolution layers follow each other without anything in between.

    Why it matters:
        Two linear maps in a row are one linear map: the second layer costs time and memory, and the model is less deep
        than it looks. Usually an activation is missing.
    How it decides:
        At the first train step the graph of each backward pass is walked from the loss. Fires if the only input of a
        linear layer is the output of another one, or that of a convolution the output of a convolution, and nothing
        else uses that output.
    Not a number:
        Only the structure of the graph is evaluated.
    Blind spots:
        The 300 nodes nearest to the loss are looked at, which are not all of a large model; compiled models are not
        seen. Pairs that are factors of one layer on purpose are left out: a narrow layer between two wider ones, a pair
        that is added to a frozen layer or to data (an adapter, such as LoRA), convolutions with groups or with a kernel
        of size 1 in some dimension, the output projection of an attention. So are a convolution and a linear layer in a
        row.
    Source:
        Ours; Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear
        neural networks" (2014).
    """

    severity: ClassVar[Severity] = "advice"
    fact: ClassVar[str] = CONSECUTIVE_LINEAR
    first_steps: ClassVar[int] = FACT_STEPS

    def finding(self, pairs: list[TensorReading], one: str, other: str, count: int) -> Fired:
        return fired(
            f"layer {other} follows layer {one} without anything in between{and_more(count - 1, 'pair')}: "
            "together they are one linear layer",
            *pairs,
            advice=_ADVICE.given(one=one, other=other),
            evidence={"first": one, "second": other, "pairs": count},
        )
