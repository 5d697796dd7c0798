"""What an adapter adds to the worker's document."""

from __future__ import annotations

from typing import TypedDict

from leadline.records.json_object import JsonObject


class TrainingDescription(TypedDict, total=False):
    """The description of a booster's training; empty for other frameworks."""

    hyperparameters: JsonObject
    features: tuple[str, ...]
    evaluated_on: str | None
