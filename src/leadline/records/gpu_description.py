"""What is known of a GPU that is sampled."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class GpuDescription(TypedDict):
    """A GPU in the document of its node; a key that the driver cannot read is missing."""

    device: str
    """The device of its metrics: ``gpu0``, ``gpu0-mig1``."""
    index: NotRequired[int]
    name: NotRequired[str]
    uuid: NotRequired[str]
    memory_bytes: NotRequired[int]
