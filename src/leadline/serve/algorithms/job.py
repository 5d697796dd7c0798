"""What a built-in algorithm finds in the folder of its job."""

from __future__ import annotations

import json
import os
import sys
from typing import Final

from leadline.records.json_object import JsonObject
from leadline.serve.algorithms.data import ChannelData, content_type, read_channel
from leadline.serve.algorithms.errors import UserError

TRAIN: Final = "train"
VALIDATION: Final = "validation"
_CHECKPOINTS: Final = "CHECKPOINT_CONFIG_FILE_PATH"
_HOOK: Final = "SMDEBUG_CONFIG_FILE_PATH"


def hyperparameters() -> dict[str, str]:
    """Return the hyperparameters as they were sent; SDK v2 encodes texts for some images as JSON."""
    given = _document("hyperparameters.json")
    return {name: _text(value) for name, value in given.items() if not name.startswith("sagemaker_")}


def _text(value: str) -> str:
    try:
        decoded = json.loads(value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, str) else value


def channels(*, has_weights: bool = False) -> tuple[ChannelData, ChannelData | None]:
    """Return the samples to train on, and those to validate with, if there is such a channel.

    Raises:
        UserError: A channel is missing, empty, or of another format.
    """
    given = _document("inputdataconfig.json")
    if TRAIN not in given:
        raise UserError(f"Missing required channel: {TRAIN}")
    for name in given:
        if name not in (TRAIN, VALIDATION, "code"):
            raise UserError(f"Extraneous channel found: {name}")
    train = _samples(TRAIN, given[TRAIN], has_weights=has_weights)
    if train is None:
        raise UserError(f"No data in training channel path {_folder(TRAIN)}")
    if VALIDATION not in given:
        return train, None
    validation = _samples(VALIDATION, given[TRAIN] | given[VALIDATION], has_weights=has_weights)
    if validation is None:
        raise UserError(f"No data in validation channel path {_folder(VALIDATION)}")
    return train, validation


def _samples(name: str, channel: JsonObject, *, has_weights: bool) -> ChannelData | None:
    return read_channel(_folder(name), content_type(channel.get("ContentType")), has_weights=has_weights)


def _folder(channel: str) -> str:
    return os.environ[f"SM_CHANNEL_{channel.upper()}"]


def model_folder() -> str:
    """Return the folder whose files are the model."""
    return os.environ["SM_MODEL_DIR"]


def checkpoint_folder() -> str | None:
    """Return the folder of checkpoints; None: the job has none."""
    path = os.environ.get(_CHECKPOINTS)
    if path is None:
        return None
    with open(path, encoding="utf-8") as file:
        return str(json.load(file)["LocalPath"])


def has_debugger() -> bool:
    """Return whether the job has a configuration of Debugger's hook."""
    return _HOOK in os.environ


def write_failure(message: str) -> None:
    """Write why the training failed where the job finds it."""
    with open(os.path.join(os.environ["SM_OUTPUT_DIR"], "failure"), "w", encoding="utf-8") as file:
        file.write(message)


def say(line: str) -> None:
    """Write a line to the log of the job."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _document(name: str) -> JsonObject:
    with open(os.path.join(os.environ["SM_INPUT_CONFIG_DIR"], name), encoding="utf-8") as file:
        return dict(json.load(file))
