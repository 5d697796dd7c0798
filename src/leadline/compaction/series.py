"""Compaction of a worker's scalars and statistics, sorted by tensor, statistic, mode and step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from leadline.analysis.buckets import Groups
from leadline.analysis.rollup_schema import VALUES, Columns
from leadline.compaction.parts import Key, RollupWriter
from leadline.reader.feed import CLOCK
from leadline.reader.segments import Range
from leadline.records.series import SeriesLayout

_CHUNK_VALUES: Final = 1 << 18
_MIN_REDUCTION: Final = 4


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows of one layout and mode, ascending by step."""

    layout: SeriesLayout
    mode: str
    step: npt.NDArray[np.int64]
    mode_step: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    """``(rows, columns)``."""

    def key(self, column: int) -> Key:
        """Return tensor, statistic and mode of a column."""
        index, statistic = self.layout.columns[column]
        return self.layout.tensors[index].name, statistic, self.mode

    def rows(self, column: int) -> Columns:
        """Return the rows of a column."""
        values = np.ascontiguousarray(self.values[:, column])
        return {"step": self.step, "mode_step": self.mode_step, "time_ns": self.time_ns, "value": values}


def write_values(writer: RollupWriter, ranges: Sequence[Range]) -> dict[str, Any]:
    """Write ranges of a worker's series; return the metadata."""
    blocks = [block for range_ in ranges for block in _blocks(range_)]
    blocks = _concatenated(blocks)
    columns_by_key: dict[Key, list[tuple[_Block, int]]] = {}
    for block in blocks:
        for column, (index, _) in enumerate(block.layout.columns):
            if block.layout.tensors[index].name != CLOCK:
                columns_by_key.setdefault(block.key(column), []).append((block, column))
    for key, columns in columns_by_key.items():
        if len(columns) > 1:
            writer.add(key, _sorted_by_step([block.rows(column) for block, column in columns]))
    for block in blocks:
        single = [
            column for column in range(len(block.layout.columns)) if len(columns_by_key.get(block.key(column), ())) == 1
        ]
        _write_block(writer, block, single)
    times = [int(edge) for block in blocks for edge in (block.time_ns.min(), block.time_ns.max())]
    tensors = {tensor.name: tensor for block in blocks for tensor in block.layout.tensors if tensor.name != CLOCK}
    return {
        "start_ns": min(times, default=None),
        "end_ns": max(times, default=None),
        "tensors": [
            [tensor.name, list(tensor.collections), list(tensor.shape), tensor.dtype] for tensor in tensors.values()
        ],
    }


def _blocks(range_: Range) -> Iterator[_Block]:
    """Yield the rows of a range by mode."""
    assert range_.info.layout is not None
    modes = range_.table["mode"]
    step, mode_step, time_ns, values = (range_.numbers(name) for name in ("step", "mode_step", "time_ns", "values"))
    for mode in pc.unique(modes).to_pylist():
        keep = np.flatnonzero(pc.equal(modes, mode).to_numpy())
        if len(keep) == len(step):
            yield _Block(range_.info.layout, mode, step, mode_step, time_ns, values)
        else:
            yield _Block(range_.info.layout, mode, step[keep], mode_step[keep], time_ns[keep], values[keep])


def _concatenated(blocks: Sequence[_Block]) -> list[_Block]:
    """Concatenate the blocks of the same layout and mode, ordered by step."""
    kinds: dict[tuple[SeriesLayout, str], list[_Block]] = {}
    for block in blocks:
        kinds.setdefault((block.layout, block.mode), []).append(block)
    merged = []
    for (shared, mode), group in kinds.items():
        columns = [
            np.concatenate([getattr(block, name) for block in group]) if len(group) > 1 else getattr(group[0], name)
            for name in ("step", "mode_step", "time_ns", "values")
        ]
        if bool(np.any(np.diff(columns[0]) < 0)):
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        merged.append(_Block(shared, mode, *columns))
    return merged


def _sorted_by_step(parts: Sequence[Columns]) -> Columns:
    joined = {name: np.concatenate([columns[name] for columns in parts]) for name in VALUES.row_columns}
    order = np.argsort(joined["step"], kind="stable")
    return {name: values[order] for name, values in joined.items()}


def _write_block(writer: RollupWriter, block: _Block, columns: Sequence[int]) -> None:
    """Write some columns of a block; their common parts are computed once."""
    chunk = max(1, _CHUNK_VALUES // max(len(block.step), 1))
    grids = _grids(block.step)
    for start in range(0, len(columns), chunk):
        chosen = list(columns[start : start + chunk])
        values = block.values[:, chosen] if len(chosen) < block.values.shape[1] else block.values
        levels = [(width, groups, _level(block, groups, values)) for width, groups in grids]
        transposed = np.ascontiguousarray(values.T)
        common = {"step": block.step, "mode_step": block.mode_step, "time_ns": block.time_ns}
        for index, column in enumerate(chosen):
            kept = {width: {name: rows[index] for name, rows in level.items()} for width, _, level in levels}
            writer.add_levels(block.key(column), {**common, "value": transposed[index]}, kept)


def _grids(steps: npt.NDArray[np.int64]) -> list[tuple[int, Groups]]:
    """Return the widths that reduce the rows enough, with the groups of rows."""
    grids, rows = [], len(steps)
    for width in VALUES.widths:
        groups = Groups(steps // width)
        if len(groups) * _MIN_REDUCTION <= rows:
            grids.append((width, groups))
            rows = len(groups)
    return grids


def _level(block: _Block, groups: Groups, values: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[Any]]:
    """Return the roll-up of some columns, each array ``(columns, buckets)``."""
    is_finite = np.isfinite(values)
    finite = np.where(is_finite, values, np.nan)
    rows = np.arange(len(values))[:, None]
    last = groups.max(np.where(is_finite, rows + len(values), rows)) % max(len(values), 1)
    nonfinite = groups.sum((~is_finite).astype(np.int64))
    sizes = groups.sum(np.ones(len(values), np.int64))
    return {
        "step": block.step[last].T,
        "mode_step": block.mode_step[last].T,
        "time_ns": block.time_ns[last].T,
        "value": np.take_along_axis(values, last, axis=0).T,
        "least": groups.nanmin(finite).T,
        "most": groups.nanmax(finite).T,
        "nonfinite": nonfinite.T,
        "samples": np.broadcast_to(sizes, (values.shape[1], len(sizes))),
    }
