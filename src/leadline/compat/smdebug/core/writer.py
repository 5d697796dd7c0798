"""Event files and index files of a trial, in smdebug's interface."""

from __future__ import annotations

import json
import os
import time
from types import TracebackType
from typing import Any, Self

from leadline.compat.smdebug.core.locations import IndexFileLocationUtils, TensorFileLocation
from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.core.trial_files import write_file
from leadline.compat.smdebug.core.utils import make_numpy_array
from leadline.formats.event_file import nanoseconds, record_of
from leadline.formats.smdebug_json import IndexMeta, PayloadEntry, ShapeEntry


class FileWriter:
    """Writes what one worker saves at one global step; the files appear when it is closed, the index last.

    Args:
        trial_dir: A local folder, or a place in S3.
        verbose, write_checksum: Change nothing.
    """

    def __init__(
        self, trial_dir: str, worker: str, step: int = 0, verbose: bool = False, write_checksum: bool = False
    ) -> None:
        self._trial_dir, self._worker, self._step = trial_dir, worker, int(step)
        self._place = TensorFileLocation(self._step, worker).get_file_location()
        self._events = bytearray()
        self._payload: list[PayloadEntry] = []
        self._shapes: list[ShapeEntry] = []
        self._meta: IndexMeta | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def name(self) -> str:
        """Return the path of the event file."""
        return os.path.join(self._trial_dir, self._place)

    def write_tensor(
        self,
        tname: str,
        tdata: Any,
        mode: ModeKeys | None = ModeKeys.GLOBAL,
        mode_step: int | None = None,
        timestamp: float | None = None,
    ) -> None:
        """Add a tensor.

        Args:
            timestamp: Seconds since the epoch; None: now.
        """
        of_mode, of_step = self._stamp(mode, mode_step)
        time_ns = time.time_ns() if timestamp is None else nanoseconds(timestamp)
        record = record_of(
            tname, make_numpy_array(tdata), step=self._step, time_ns=time_ns, mode=of_mode.value, mode_step=of_step
        )
        self._payload.append({"tensorname": tname, "start_idx": len(self._events), "length": len(record)})
        self._events += record

    def write_shape(
        self, name: str, shape: Any, mode: ModeKeys | None = ModeKeys.GLOBAL, mode_step: int | None = None
    ) -> None:
        """Add the shape of a tensor."""
        self._stamp(mode, mode_step)
        self._shapes.append({"tensorname": name, "originalname": name, "shape": list(shape)})

    def flush(self) -> None:
        """Do nothing: the files appear when the writer is closed."""

    def close(self) -> None:
        """Write the files; nothing if nothing was added."""
        if self._meta is None:
            return
        if self._payload:
            write_file(self.name(), bytes(self._events))
        document = {"meta": self._meta, "tensor_payload": self._payload, "shape_payload": self._shapes}
        path = IndexFileLocationUtils.get_index_key_for_step(self._trial_dir, self._step, self._worker)
        write_file(path, json.dumps(document).encode())
        self._meta = None

    def _stamp(self, mode: ModeKeys | None, mode_step: int | None) -> tuple[ModeKeys, int]:
        of_mode, of_step = mode or ModeKeys.GLOBAL, self._step if mode_step is None else int(mode_step)
        self._meta = {"mode": of_mode.name, "mode_step": of_step, "event_file_name": self._place}
        return of_mode, of_step
