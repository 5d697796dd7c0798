"""Which losses belong together: the training's and the validation's of one name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading

Role = Literal["train", "validation"]

_PREFIX: Final = re.compile(
    r"^(train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)\d*[-_/. ](?=.)", re.IGNORECASE
)


def role_of(reading: TensorReading) -> tuple[Role, str]:
    """Whether a loss is of training or of validation, and what both are called without that.

    A loss of an eval step is of validation; else what stands in front of its name decides, as trees and Keras have
    it (``validation-rmse``, ``val_loss``); else it is of training.
    """
    prefix = _PREFIX.match(reading.tensor)
    stem = reading.tensor[prefix.end() :] if prefix else reading.tensor
    is_training = prefix is None or prefix[1].lower().startswith("train")
    return ("validation" if reading.mode == "eval" or not is_training else "train"), stem
