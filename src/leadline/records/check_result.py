"""The result of a probe of ``leadline check``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypedDict

from leadline.records.decoding import StrictDocument
from leadline.records.json_object import JsonObject

Outcome = Literal["passed", "failed", "not applicable"]

PROBES: Final = {
    "mixed_samples": "samples of a batch are independent",
    "look_ahead": "no prediction sees what it predicts",
    "padding_influence": "padding has no influence",
    "unused_inputs": "everything enters the loss",
    "loss_direction": "the loss asks for the labels",
    "unlearnable_batch": "one batch can be learned",
    "update_size": "the update fits the loss",
    "gradient_of_parts": "the parts of a step add up",
    "mode_mismatch": "training and evaluation agree",
    "incomplete_state": "the model can be saved",
    "ignored_input": "the input is worth more than guessing",
    "model_inputs": "the model gets sound inputs",
}
"""What each probe tests, by its name, which is that of its rule; in the order in which they are listed."""


class InputSample(TypedDict, total=False):
    """The first samples of an input in the evidence of a probe: images, rows, or its first values."""

    name: str
    images: list[list[list[list[int]]]]
    """Samples x channels x lines x pixels, 0 to 255."""
    low: float
    """The value that is 0 in the images."""
    high: float
    rows: list[list[float]]
    shape: list[int]
    values: list[float]


class CheckOrder(TypedDict):
    """What ``leadline check`` asks of a training."""

    step: int
    """The train step to test."""
    seconds: float
    """The time for all probes."""
    ends: bool
    """Whether the training ends afterwards."""
    probes: list[str]


@dataclass(frozen=True, slots=True)
class CheckResult(StrictDocument):
    """What a probe has found on a copy of the training."""

    probe: str
    outcome: Outcome
    message: str
    """The observation with numbers and names, or why the probe is not applicable, in one line."""
    step: int
    """The train step whose batch was tested."""
    advice: str = ""
    """What to try if it failed."""
    evidence: JsonObject = field(default_factory=dict)
    """The numbers behind the message: plain JSON values."""
    seconds: float = 0.0
    time_ns: int = 0
    """When it was made."""
