"""The file that W&B writes beside each run (``run-ID.wandb``), also offline: a log of messages in LevelDB's framing."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Final

from leadline.formats.protobuf import content, fields, signed
from leadline.logs.training_log import TrainingLog, number, numbered
from leadline.records.json_object import JsonObject

_MAGIC: Final = b":W&B"
_FILE_HEAD: Final = 7
_BLOCK: Final = 32_768
_RECORD: Final = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HISTORY, _CONFIG = 2, 5
"""Fields of ``Record``."""
_MAX_SETTINGS: Final = 64


def wandb_log(data: bytes) -> TrainingLog:
    """Return the log in the bytes of a ``.wandb`` file; a file that is still written is read as far as it goes.

    Source:
        wandb 0.22: ``wandb/sdk/internal/datastore.py`` and ``wandb_internal.proto``.
    Raises:
        ValueError: It is no such file.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("it does not begin as a file of W&B does")
    records, settings, damage = [], JsonObject(), list[str]()
    try:
        for message in _messages(data):
            for kind, value in fields(message):
                if kind == _HISTORY:
                    records.append(_history(content(value)))
                elif kind == _CONFIG:
                    settings |= _items(content(value), entry=1)
    except (ValueError, IndexError) as error:
        damage.append(f"it is read up to a damaged place: {error}")
    log = numbered("a run of W&B", records)
    log.damage += damage
    log.hyperparameters = {
        name: value for name, value in settings.items() if isinstance(value, (int, float, str)) and name[:1] != "_"
    }
    while len(log.hyperparameters) > _MAX_SETTINGS:
        log.hyperparameters.popitem()
    return log


def _messages(data: bytes) -> Iterator[bytes]:
    """Yield the messages; the last one may be incomplete, and is then left out."""
    at, parts = _FILE_HEAD, list[bytes]()
    while at + _RECORD.size <= len(data):
        if _BLOCK - at % _BLOCK < _RECORD.size:
            at += _BLOCK - at % _BLOCK
            continue
        _, length, kind = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            raise ValueError(f"byte {at:,}: its record has the unknown type {kind}")
        if at + length > len(data):
            return
        parts = [*parts, data[at : at + length]] if kind in (_MIDDLE, _LAST) else [data[at : at + length]]
        at += length
        if kind in (_FULL, _LAST):
            yield b"".join(parts)


def _history(message: bytes) -> JsonObject:
    """Return a row of the history: names and numbers, the step under ``_step``."""
    row = _items(message, entry=1)
    for kind, value in fields(message):
        if kind == 2:
            row["_step"] = next((signed(part) for name, part in fields(content(value)) if name == 1), 0)
    return {name: value for name, value in row.items() if number(value) is not None}


def _items(message: bytes, *, entry: int) -> JsonObject:
    """Return keys with their decoded values; nested keys are joined with a slash."""
    found: JsonObject = {}
    for kind, value in fields(message):
        if kind != entry:
            continue
        keys, text = list[str](), ""
        for name, part in fields(content(value)):
            if name in (1, 2):
                keys.append(content(part).decode(errors="replace"))
            elif name == 16:
                text = content(part).decode(errors="replace")
        try:
            decoded = json.loads(text)
        except ValueError:
            continue
        found["/".join(key for key in keys if key)] = decoded
    return found
