"""The records of an event file, in smdebug's interface."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypedDict

import numpy.typing as npt

from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.core.trial_files import read_file
from leadline.formats.event_file import RecordedTensor
from leadline.formats.event_file import read_file as read_records


class ReadEvent(TypedDict):
    """A tensor of an event file, with its time in seconds since the epoch."""

    name: str
    step: int
    timestamp: float
    value: npt.NDArray[Any]
    mode: ModeKeys
    mode_step: int


class FileReader:
    """Reads an event file of a trial.

    Args:
        fname: The path of a file, or its place in S3.
        wait: Changes nothing.
    """

    def __init__(self, fname: str, wait: bool = False) -> None:
        self._path = fname

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: no file stays open."""

    def read_tensors(self, check: str = "minimal") -> Iterator[tuple[str, int, npt.NDArray[Any], ModeKeys, int]]:
        """Yield name, global step, elements, mode and step within it of each tensor.

        Raises:
            ValueError: The file is damaged.
        """
        for tensor in self._records():
            yield tensor.name, tensor.step, tensor.values, *_stamp(tensor)

    def read_events(self, check: str = "minimal", regex_list: Iterable[str] | None = None) -> list[ReadEvent]:
        """Return the tensors whose names contain a match of any regular expression; without one, all.

        Raises:
            ValueError: The file is damaged.
        """
        patterns = list(regex_list or ())
        found = []
        for tensor in self._records():
            if not patterns or any(re.search(pattern, tensor.name) for pattern in patterns):
                mode, mode_step = _stamp(tensor)
                found.append(
                    ReadEvent(
                        name=tensor.name,
                        step=tensor.step,
                        timestamp=tensor.time_ns / 10**9,
                        value=tensor.values,
                        mode=mode,
                        mode_step=mode_step,
                    )
                )
        return found

    def _records(self) -> list[RecordedTensor]:
        return list(read_records(read_file(self._path)))


def _stamp(tensor: RecordedTensor) -> tuple[ModeKeys, int]:
    mode = ModeKeys(tensor.mode) if tensor.mode else ModeKeys.GLOBAL
    return mode, tensor.step if tensor.mode_step is None else tensor.mode_step
