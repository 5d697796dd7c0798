"""Scalars and statistics of a worker, sorted by tensor, statistic, mode and step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from leadline.analysis.buckets import Groups
from leadline.analysis.rollup_schema import VALUES, Columns
from leadline.compaction.parts import FormWriter, Key
from leadline.reader.bulk import Range
from leadline.reader.feed import CLOCK
from leadline.records.series import SeriesLayout

_CHUNK_VALUES: Final = 1 << 18
_WORTH: Final = 4


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
        """Tensor, statistic and mode of a column."""
        index, statistic = self.layout.columns[column]
        return self.layout.tensors[index].name, statistic, self.mode

    def own(self, column: int) -> Columns:
        """The rows of a column."""
        values = np.ascontiguousarray(self.values[:, column])
        return {"step": self.step, "mode_step": self.mode_step, "time_ns": self.time_ns, "value": values}


def write_values(writer: FormWriter, ranges: Sequence[Range]) -> dict[str, Any]:
    """Write what was read of a worker's series; what there is to say of it."""
    blocks = [block for each in ranges for block in _blocks(each)]
    blocks = _joined(blocks)
    places: dict[Key, list[tuple[_Block, int]]] = {}
    for block in blocks:
        for column, (index, _) in enumerate(block.layout.columns):
            if block.layout.tensors[index].name != CLOCK:
                places.setdefault(block.key(column), []).append((block, column))
    for key, found in places.items():
        if len(found) > 1:
            writer.add(key, _together([block.own(column) for block, column in found]))
    for block in blocks:
        alone = [column for column in range(len(block.layout.columns)) if len(places.get(block.key(column), ())) == 1]
        _write_block(writer, block, alone)
    times = [int(edge) for block in blocks for edge in (block.time_ns.min(), block.time_ns.max())]
    tensors = {each.name: each for block in blocks for each in block.layout.tensors if each.name != CLOCK}
    return {
        "start_ns": min(times, default=None),
        "end_ns": max(times, default=None),
        "tensors": [[each.name, list(each.collections), list(each.shape), each.dtype] for each in tensors.values()],
    }


def _blocks(each: Range) -> Iterator[_Block]:
    """The rows of a range, mode by mode."""
    assert each.info.layout is not None
    modes = each.table["mode"]
    step, mode_step, time_ns, values = (each.numbers(name) for name in ("step", "mode_step", "time_ns", "values"))
    for mode in pc.unique(modes).to_pylist():
        keep = np.flatnonzero(pc.equal(modes, mode).to_numpy())
        if len(keep) == len(step):
            yield _Block(each.info.layout, mode, step, mode_step, time_ns, values)
        else:
            yield _Block(each.info.layout, mode, step[keep], mode_step[keep], time_ns[keep], values[keep])


def _joined(blocks: Sequence[_Block]) -> list[_Block]:
    """Those of one layout and mode put together, in the order of their steps."""
    kinds: dict[tuple[SeriesLayout, str], list[_Block]] = {}
    for block in blocks:
        kinds.setdefault((block.layout, block.mode), []).append(block)
    found = []
    for (shared, mode), each in kinds.items():
        columns = [
            np.concatenate([getattr(block, name) for block in each]) if len(each) > 1 else getattr(each[0], name)
            for name in ("step", "mode_step", "time_ns", "values")
        ]
        if bool(np.any(np.diff(columns[0]) < 0)):
            order = np.argsort(columns[0], kind="stable")
            columns = [one[order] for one in columns]
        found.append(_Block(shared, mode, *columns))
    return found


def _together(parts: Sequence[Columns]) -> Columns:
    joined = {name: np.concatenate([each[name] for each in parts]) for name in VALUES.own}
    order = np.argsort(joined["step"], kind="stable")
    return {name: each[order] for name, each in joined.items()}


def _write_block(writer: FormWriter, block: _Block, columns: Sequence[int]) -> None:
    """Write some columns of a block; what they have in common is worked out once."""
    many = max(1, _CHUNK_VALUES // max(len(block.step), 1))
    grids = _grids(block.step)
    for at in range(0, len(columns), many):
        chosen = list(columns[at : at + many])
        values = block.values[:, chosen] if len(chosen) < block.values.shape[1] else block.values
        levels = [(width, groups, _level(block, groups, values)) for width, groups in grids]
        turned = np.ascontiguousarray(values.T)
        own = {"step": block.step, "mode_step": block.mode_step, "time_ns": block.time_ns}
        for place, column in enumerate(chosen):
            kept = {width: {name: each[place] for name, each in told.items()} for width, _, told in levels}
            writer.add_levels(block.key(column), {**own, "value": turned[place]}, kept)


def _grids(steps: npt.NDArray[np.int64]) -> list[tuple[int, Groups]]:
    """The widths at which there are much fewer rows, and which rows fall together."""
    found, rows = [], len(steps)
    for width in VALUES.widths:
        groups = Groups(steps // width)
        if len(groups) * _WORTH <= rows:
            found.append((width, groups))
            rows = len(groups)
    return found


def _level(block: _Block, groups: Groups, values: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[Any]]:
    """The buckets of some columns, each array ``(columns, buckets)``."""
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
        "least": groups.least(finite).T,
        "most": groups.most(finite).T,
        "nonfinite": nonfinite.T,
        "samples": np.broadcast_to(sizes, (values.shape[1], len(sizes))),
    }
