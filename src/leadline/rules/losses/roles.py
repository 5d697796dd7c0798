"""Which losses belong together: the training's and the validation's of one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.records import loss_roles
from leadline.records.loss_roles import Role as Role

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading


def role_of(reading: TensorReading) -> tuple[Role, str]:
    """Whether a loss is of training or of validation, and what both are called without that."""
    return loss_roles.role_of(reading.tensor, reading.mode, reading.collections)
