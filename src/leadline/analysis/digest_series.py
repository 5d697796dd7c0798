"""Scalars and tensor statistics of a run, and step buckets of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from leadline.analysis.segment_rows import SegmentValues
from leadline.analysis.stored_rows import Series, StoredSteppedRows, Stream, common_width
from leadline.analysis.train_axis import LayerMatrix
from leadline.reader.rollups import VALUES, Columns, Key
from leadline.reader.step_axis import Stamps
from leadline.reader.tables import with_text_columns
from leadline.records.series import TensorInfo, merged_infos
from leadline.store.codec import parse_tensor_fields

_STAMPED: Final = 6
"""The number of series of a mode whose rows tell its steps."""
SCALAR_BUCKETS: Final = pa.schema(
    [
        ("name", pa.string()),
        ("mode", pa.string()),
        ("worker", pa.string()),
        ("step", pa.int64()),
        ("mode_step", pa.int64()),
        ("time_ns", pa.int64()),
        ("value", pa.float64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
        ("nonfinite", pa.int64()),
        ("samples", pa.int64()),
    ]
)


class StoredValues(StoredSteppedRows[SegmentValues]):
    """All series of a run."""

    table_schema = SCALAR_BUCKETS

    def __init__(self, run: str) -> None:
        super().__init__(run, VALUES, lambda stream: SegmentValues(stream.ranges))

    def stamps(self, worker: str) -> Iterator[Stamps]:
        """Yield the stamps of the rows of a worker."""
        if worker in self.streams:
            yield from _stamps(self.streams[worker])

    def infos(self) -> dict[str, TensorInfo]:
        """Return the metadata of each tensor, in the order of appearance."""
        infos: list[TensorInfo] = []
        for stream in self.streams.values():
            for part in stream.parts:
                infos += map(parse_tensor_fields, part.metadata["tensors"])
            infos += stream.tail.tensors
        return merged_infos(infos)

    def modes_of(self, statistic: str) -> dict[str, set[str]]:
        """Return the modes of each tensor that has a statistic."""
        modes: dict[str, set[str]] = {}
        for stream in self.streams.values():
            for name, tensor, mode in stream.keys:
                if name == statistic:
                    modes.setdefault(tensor, set()).add(mode)
        return modes

    def captured(self) -> dict[str, dict[str, set[str]]]:
        """Return the workers that captured a statistic, by tensor and statistic."""
        workers: dict[str, dict[str, set[str]]] = {}
        for worker, stream in self.streams.items():
            for statistic, tensor, _ in stream.keys:
                workers.setdefault(tensor, {}).setdefault(statistic, set()).add(worker)
        return workers

    def _table(self, worker: str, key: Key, buckets: Columns) -> pa.Table:
        _, tensor, mode = key
        names = ("step", "mode_step", "time_ns", "value", "least", "most", "nonfinite", "samples")
        return with_text_columns(
            pa.table({name: buckets[name] for name in names}), SCALAR_BUCKETS, tensor, mode, worker
        )

    def matrix(self, series: Sequence[Series], points: int) -> LayerMatrix:
        """Return one series of each of several tensors on one grid, as in ``Digest.layers``."""
        if not series:
            return {"tensors": [], "steps": [], "values": np.zeros((0, 0))}
        bounds = [self.bounds(item) for item in series]
        width = common_width([(min(first for first, _ in bounds), max(last for _, last in bounds))], points)
        parts = []
        for worker in dict.fromkeys(worker for worker, _ in series):
            places = np.array([place for place, (of_worker, _) in enumerate(series) if of_worker == worker])
            buckets = self.streams[worker].buckets([series[place][1] for place in places], width)
            parts.append({**buckets, "key": places[buckets["key"]]})
        return _matrix([tensor for _, (_, tensor, _) in series], VALUES.joined(parts), width)


def _stamps(stream: Stream[SegmentValues]) -> Iterator[Stamps]:
    """Yield the stamps of a few series of each mode, those of scalars first, which are captured most often."""
    by_mode: dict[str, list[Key]] = {}
    for key in sorted(stream.keys, key=lambda key: (key[0] != "value", key)):
        by_mode.setdefault(key[-1], []).append(key)
    for mode, keys in by_mode.items():
        chosen = sorted(keys[:_STAMPED])
        columns = [stream.columns(chosen, name) for name in ("step", "mode_step")]
        for steps, mode_steps in zip(*columns, strict=True):
            yield mode, steps, mode_steps


def _matrix(tensors: Sequence[str], buckets: Columns, width: int) -> LayerMatrix:
    present, rows = np.unique(buckets["key"], return_inverse=True)
    slots, columns = np.unique(buckets["step"] // width, return_inverse=True)
    values = np.full((len(present), len(slots)), np.nan)
    values[rows, columns] = np.where(buckets["nonfinite"] > 0, np.inf, buckets["value"])
    return {"tensors": [tensors[place] for place in present], "steps": (slots * width).tolist(), "values": values}


def scalar_order(info: TensorInfo) -> int:
    """Return the sort key of scalars: losses, then metrics, then others."""
    kinds = ("losses", "metrics")
    return next((position for position, kind in enumerate(kinds) if kind in info.collections), len(kinds))
