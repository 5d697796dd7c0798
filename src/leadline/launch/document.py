"""Reading of the document that another process hands over; see ``config.launch_document``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import msgspec

from leadline.config.capture import capture_item, capture_table
from leadline.config.launch_document import VERSION, LaunchDocument
from leadline.config.options import parse_triggered_action
from leadline.config.run_config import RunConfig
from leadline.errors import ConfigurationError, located
from leadline.records.formatting import printable
from leadline.records.json_object import JsonObject
from leadline.records.version import __version__


def read_document(data: bytes, source: str) -> LaunchDocument:
    """Return the document that a text contains.

    Args:
        source: Where it was read, for errors.
    Raises:
        ConfigurationError: It is no JSON object of this version, a field is unknown or invalid, or not exactly one of
            configuration and manifest is given.
    """
    with located(source):
        given = _parse(data)
        if given.get("version") != VERSION:
            raise ConfigurationError(f"Leadline {__version__} reads documents with version = {VERSION}")
        document = _decode(given)
        if (document.config is None) == (document.manifest is None):
            raise ConfigurationError("give one of the fields config and manifest")
        if document.config is not None:
            _check(document.config)
            _check_paths(out=document.config.out, at=document.config.at, config=document.config.config)
        else:
            assert document.manifest is not None
            _check_paths(uri=document.manifest.uri)
    return document


def _parse(data: bytes) -> JsonObject:
    try:
        given = json.loads(data)
    except RecursionError:
        raise ConfigurationError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise ConfigurationError(f"not valid JSON: {printable(str(error))}") from None
    if not isinstance(given, dict):
        raise ConfigurationError("a JSON object is expected")
    return given


def _decode(given: JsonObject) -> LaunchDocument:
    try:
        document = msgspec.convert(given, LaunchDocument)
        unknown = next(_unknown(given, asdict(document)), None)
    except RecursionError:
        raise ConfigurationError("the JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise ConfigurationError("the name of a field is no valid Unicode") from None
    except msgspec.ValidationError as error:
        raise ConfigurationError(printable(str(error))) from None
    if unknown is not None:
        raise ConfigurationError(f"unknown field {printable(unknown)}")
    return document


def _unknown(given: Any, known: Any, prefix: str = "") -> Iterator[str]:
    """Yield the paths of the fields of a document that a record made of it does not have."""
    if isinstance(given, dict) and isinstance(known, dict):
        for name, value in given.items():
            if name not in known:
                yield f"{prefix}{name}"
            else:
                yield from _unknown(value, known[name], f"{prefix}{name}.")
    elif isinstance(given, list):
        for index, (value, counterpart) in enumerate(zip(given, known, strict=True)):
            yield from _unknown(value, counterpart, f"{prefix}{index}.")


def _check(config: RunConfig) -> None:
    """Check what otherwise the syntax of an option ensures; ``resolve`` checks the rest."""
    for preset, part in {"": config, **config.presets}.items():
        with located(f"presets.{preset}.capture" if preset else "capture"):
            for item in part.capture:
                capture_item(*capture_table(item))
    for entry in config.on:
        parse_triggered_action(entry.trigger, {"action": entry.action}, entry.folder, entry.source, "on")


def _check_paths(**paths: str | None) -> None:
    for name, path in paths.items():
        try:
            is_valid = b"\0" not in os.fsencode(path or "")
        except UnicodeEncodeError:
            is_valid = False
        if not is_valid:
            raise ConfigurationError(f"{name} is no valid path")
