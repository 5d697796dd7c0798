"""Where a trial finds what was saved at each step: a run of Leadline, or the index files of smdebug."""

from __future__ import annotations

from typing import Any, Protocol

import numpy.typing as npt

from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.formats.smdebug_json import CollectionEntry


class StepSource(Protocol):
    """The saved steps of a trial, by global step as smdebug counts.

    Attributes:
        stamps: Mode and step within it of each global step.
        workers: The workers that saved anything at each global step.
        tensors: The workers that saved a tensor, by its name and global step; with raw elements, reductions or a shape.
        raw: The same for raw tensors and single numbers.
        num_workers: The number of workers of the training.
        has_ended: Whether nothing more will be saved.
    """

    stamps: dict[int, tuple[ModeKeys, int]]
    workers: dict[int, set[str]]
    tensors: dict[str, dict[int, set[str]]]
    raw: dict[str, dict[int, set[str]]]
    num_workers: int
    has_ended: bool

    @property
    def all_workers(self) -> list[str]:
        """The workers, in order."""

    def is_outdated(self) -> bool:
        """Return whether there may be new data."""

    def refreshed(self) -> StepSource | None:
        """Return what was saved by now; None: nothing was added."""

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        """Return the global step of a step of a mode; None if it was not saved."""

    def value(self, name: str, step: int, worker: str) -> npt.NDArray[Any]:
        """Return the elements of a tensor at a global step.

        Shape:
            ``(*shape,)``.
        Raises:
            DamagedRunError: They cannot be read.
        """

    def reductions(self, name: str, step: int, worker: str) -> set[str]:
        """Return the stored reductions of a tensor at a global step: smdebug's names, such as ``abs_max``."""

    def reduction(self, name: str, step: int, worker: str, reduction: str) -> float:
        """Return a stored reduction of a tensor at a global step."""

    def shape(self, name: str, step: int, worker: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor; None if it is unknown."""

    def strangers(self, collection: str) -> frozenset[str]:
        """Return the tensors that only the patterns of a collection match."""

    def collection_entries(self) -> dict[str, CollectionEntry]:
        """Return the collections as in a collections file, with all tensors that they select."""

    def last_index_file(self, step: int) -> str:
        """Return the path of the last index file up to a global step; empty if there is none."""
