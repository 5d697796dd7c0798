"""The modes of smdebug's interface."""

from __future__ import annotations

from enum import Enum


class ModeKeys(Enum):
    """The mode of a step; ``GLOBAL`` stands for all modes, and for steps of a script that sets none."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4
