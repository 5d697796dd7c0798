"""The JSON files of smdebug's trials: collections, and the index of what a worker saved at a step."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypedDict

from leadline.records.json_object import JsonObject


class CollectionEntry(TypedDict, total=False):
    """A collection in a collections file; versions of smdebug differ in what it has."""

    name: str
    include_regex: list[str]
    tensor_names: Collection[str]
    reduction_config: JsonObject | None
    save_config: JsonObject | None
    """Of each mode, by its name."""
    save_histogram: bool


class PayloadEntry(TypedDict):
    """A tensor, and where in the event file it is."""

    tensorname: str
    start_idx: int
    length: int


class ShapeEntry(TypedDict):
    """The shape of a tensor whose values were not saved."""

    tensorname: str
    originalname: str
    shape: list[int]


class IndexMeta(TypedDict):
    """The step that an index file is about."""

    mode: str
    mode_step: int
    event_file_name: str
