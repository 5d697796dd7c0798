"""Buckets of a digest on the axis of train steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict

import numpy as np
import pyarrow as pa

from leadline.reader.rollups import Groups
from leadline.reader.step_axis import StepAxis

if TYPE_CHECKING:
    import numpy.typing as npt

_Reduce = Callable[[Groups, "npt.NDArray[Any]"], "npt.NDArray[Any]"]

_STEP_COLUMNS: Final = ("step", "end_step", "longest_step")


def values_on_axis(table: pa.Table, axis: StepAxis, mode: str) -> pa.Table:
    """Return the buckets of one scalar or statistic of one worker and mode with ``step`` on the axis.

    Buckets at the same train step, which are those of one evaluation, become one with the mean of their values.

    Args:
        table: As ``Digest.statistic``, with global steps.
    """
    if axis.is_identity:
        return table
    if mode == axis.modes[0]:
        return _with(table, step=table["mode_step"].to_numpy())
    return _merged(_with(table, step=axis.positions(table["step"].to_numpy(), mode)), _VALUES)


def steps_on_axis(table: pa.Table, axis: StepAxis, mode: str) -> pa.Table:
    """Return the buckets of the steps of one worker and mode on the axis; those at the same train step become one.

    Args:
        table: As ``Digest.steps``, with global steps.
    """
    if axis.is_identity:
        return table
    first, end, longest = (table[name].to_numpy() for name in _STEP_COLUMNS)
    placed = _with(
        table,
        step=axis.positions(first, mode),
        end_step=axis.positions(end - 1, mode) + 1,
        longest_step=axis.positions(longest, mode),
    )
    return _merged(placed, _STEPS)


class NonfiniteSteps(TypedDict):
    """Further steps at which some of the tensors had values that were not finite."""

    steps: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    """Tensors x steps: infinite there, otherwise NaN."""


class LayerMatrix(TypedDict):
    """A statistic of several tensors at several steps."""

    tensors: list[str]
    steps: list[int]
    """The first of each bucket."""
    values: npt.NDArray[np.float64]
    """Tensors x steps: NaN where nothing was captured, infinite where a value was not finite."""
    nonfinite: NotRequired[NonfiniteSteps]


def layers_on_axis(data: LayerMatrix, axis: StepAxis, mode: str) -> LayerMatrix:
    """Return ``Digest.layers`` on the axis; of several columns at the same train step the last values are kept."""
    if axis.is_identity or not data["steps"]:
        return data
    positions, columns = np.unique(axis.positions(data["steps"], mode), return_inverse=True)
    values = np.full((len(data["tensors"]), len(positions)), np.nan)
    for source, column in enumerate(columns):
        captured = ~np.isnan(data["values"][:, source])
        values[captured, column] = data["values"][captured, source]
    return {**data, "steps": positions.tolist(), "values": values}


def _with(table: pa.Table, **columns: npt.NDArray[np.int64]) -> pa.Table:
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.int64()))
    return table


def _merged(table: pa.Table, reductions: dict[str, _Reduce]) -> pa.Table:
    """Return one row for each step; columns of numbers without a reduction are summed."""
    groups = Groups(table["step"].to_numpy())
    if len(groups.keys) == table.num_rows:
        return table
    columns = {}
    for field in table.schema:
        if field.name in reductions:
            columns[field.name] = reductions[field.name](groups, table[field.name].to_numpy())
        elif pa.types.is_string(field.type):
            columns[field.name] = pa.repeat(table[field.name][0], len(groups.keys))
        else:
            columns[field.name] = groups.sum(table[field.name].to_numpy())
    return pa.table(columns, schema=table.schema)


def _mean(groups: Groups, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the mean of the finite values of each group; NaN if there are none."""
    is_finite = np.isfinite(values)
    counts = groups.sum(is_finite.astype(np.int64))
    sums = groups.sum(np.where(is_finite, values, 0.0))
    means: npt.NDArray[Any] = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


_VALUES: Final[dict[str, _Reduce]] = {
    "step": Groups.min,
    "mode_step": Groups.max,
    "time_ns": Groups.max,
    "value": _mean,
    "min": Groups.min,
    "max": Groups.max,
}
_STEPS: Final[dict[str, _Reduce]] = {
    "step": Groups.min,
    "end_step": Groups.max,
    "start_ns": Groups.min,
    "end_ns": Groups.max,
    "longest_ns": Groups.max,
    "shortest_ns": Groups.min,
    "longest_step": Groups.min,
}
