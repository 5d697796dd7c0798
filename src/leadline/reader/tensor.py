"""Tensor of a run: its values and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from leadline.errors import NotCapturedError, NotYetError
from leadline.reader import data_frames, tables
from leadline.reader.archive import Archive
from leadline.reader.shards import WholeTensor, whole_tensor
from leadline.reader.stored_tensors import StoredTensors
from leadline.reader.table_rows import TableRow
from leadline.records.names import MODES
from leadline.records.series import TensorInfo

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    import polars as pl

T = TypeVar("T")


class Tensor:
    """A tensor of a run. Every ``step`` is a step of a mode: by default a train step.

    For a tensor that was never captured in train steps, the default is the first mode in which it was captured.
    """

    def __init__(self, archive: Archive, has_passed: Callable[[int, str], bool], name: str, info: TensorInfo | None):
        self.name = name
        self._archive = archive
        self._has_passed = has_passed
        self._info = info
        self._stored = StoredTensors(archive, name)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, shape={self.shape}, {len(self.steps())} steps)"

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape; None if unknown."""
        stored = self._stored.all()
        return self._info.shape if self._info else stored[0].shape if stored else None

    @property
    def collections(self) -> tuple[str, ...]:
        """The collections that contain it; empty if unknown."""
        return self._info.collections if self._info else ()

    def steps(self, mode: str | None = None) -> list[int]:
        """Return the steps of a mode at which it was captured, in any worker, in ascending order."""
        mode = mode or self._main_mode()
        return sorted(self._stored.steps_of(self._stored.with_vectors(), mode) | self._steps_of(mode))

    def modes(self) -> list[str]:
        """Return the modes in which it was captured."""
        found = {tensor.mode for tensor in self._stored.with_vectors()}
        for stream in self._archive.series.values():
            if stream.columns_of(self.name):
                for batches in stream.batches:
                    found.update(batches.texts("mode"))
        return [mode for mode in MODES if mode in found]

    def statistic_names(self) -> list[str]:
        """Return the names of its captured statistics, including arrays."""
        streams = self._archive.series.values()
        vectors = {statistic for tensor, statistic in self._archive.vectors if tensor == self.name}
        return sorted({name for stream in streams for name in stream.columns_of(self.name)} | vectors)

    def value(self, step: int, worker: str | None = None, mode: str | None = None) -> npt.NDArray[Any]:
        """Return its elements, if it was stored as a raw tensor.

        Shape:
            The shape of the tensor, ``(*shape,)``; ``()`` for a scalar.
        Units:
            As stored; bfloat16 is returned as float32.
        Not a number:
            As stored.
        Args:
            worker: The worker; None for the first worker that stored it, or for the whole of a tensor that is sharded
                over workers.
            mode: The mode whose step it is.
        Raises:
            NotYetError: The run has not reached the step.
            NotCapturedError: The tensor, or a shard of it, was not stored at the step.
            DamagedRunError: The tensor cannot be read.
        """
        mode = mode or self._main_mode()
        if (whole := self._whole(step, worker, mode)) is not None and (value := whole.value()) is not None:
            return value
        for tensor in self._stored.at(step, worker, mode) if whole is None else ():
            return tensor.load()
        try:
            return np.asarray(self._captured("value", step, worker, mode))
        except NotCapturedError:
            stored = self._stored.steps_of(self._stored.all(), mode) or self._steps_of(mode, "value")
            raise self._missing(f"{self.name} was not stored as a raw tensor", step, mode, stored) from None

    def statistic(self, name: str, step: int, worker: str | None = None, mode: str | None = None) -> float:
        """Return one statistic at one step, as captured or computed from the raw tensor.

        Of a tensor that is sharded over workers, it is combined from those of the shards, if no worker is given.

        Units:
            As defined in ``leadline.statistics.definitions``.
        Not a number:
            As defined by the statistic.
        Raises:
            NotYetError: The run has not reached the step.
            NotCapturedError: Neither the statistic nor the raw tensor was stored at the step; or that of the whole
                does not follow from those of the shards.
            DamagedRunError: The tensor cannot be read.
        """
        mode = mode or self._main_mode()
        if (whole := self._whole(step, worker, mode)) is not None:
            return self._of_whole(whole.statistic(name), name, step, mode)
        try:
            return self._captured(name, step, worker, mode)
        except NotCapturedError:
            computed = self._computed(name, step, worker, mode)
            if computed is None:
                raise
            return computed

    def statistic_range(self, name: str, step: int, mode: str | None = None) -> tuple[float, float]:
        """Return the smallest and largest value that a statistic can have; percentiles of shards are merged.

        Units:
            As defined in ``leadline.statistics.definitions``.
        Not a number:
            As defined by the statistic.
        Raises:
            LeadlineError: As ``statistic``.
        """
        value, whole = self.statistic(name, step, mode=mode), self._whole(step, None, mode or self._main_mode())
        return (value, value) if whole is None else whole.statistic_range(name)

    def statistic_array(
        self, name: str, step: int, worker: str | None = None, mode: str | None = None
    ) -> npt.NDArray[np.float64]:
        """Return one array statistic at one step, as captured or computed from the raw tensor.

        Shape:
            As defined by the statistic: ``(units,)``, ``(classes,)``, ``(classes, classes)``, ``(2 + bins,)``.
        Units:
            As defined in ``leadline.statistics.definitions``.
        Not a number:
            As defined by the statistic.
        Args:
            worker: The worker; None for the first worker that stored it.
            mode: The mode whose step it is.
        Raises:
            UnknownNameError: There is no statistic of this name.
            NotYetError: The run has not reached the step.
            NotCapturedError: Neither the statistic nor the raw tensor was stored at the step, or it is not an array.
            DamagedRunError: It cannot be read.
        """
        from leadline.statistics import arrays
        from leadline.statistics.definitions import find_statistic

        if not find_statistic(name).is_vector:
            raise NotCapturedError(f"{name} is a number, not an array; use statistic({name!r}, {step})")
        mode, stored = mode or self._main_mode(), self._archive.vectors.get((self.name, name), [])
        if (whole := self._whole(step, worker, mode)) is not None:
            return arrays.trimmed(name, self._of_whole(whole.array(name), name, step, mode))
        for vector in self._stored.select(stored, step, worker, mode):
            return arrays.trimmed(name, vector.load())
        for raw in self._stored.at(step, worker, mode) if name != "confusion" else ():
            if raw.is_text:
                raise NotCapturedError(f"{self.name} contains texts, of which there is no {name}; use value({step})")
            return arrays.compute_vector(name, raw.load())
        known = self._stored.steps_of((*stored, *self._stored.all()), mode)
        raise self._missing(f"no {name} of {self.name} was captured", step, mode, known)

    def statistics(self, name: str) -> pa.Table:
        """Return one statistic over all steps and workers, as captured or computed from the raw tensors.

        Shape:
            One row per captured step and worker: ``step`` (the global step)``, mode, mode_step, time_ns, worker,
            value``, ordered by step.
        Units:
            As defined in ``leadline.statistics.definitions``; times in ns since the epoch. Time and mode step are null
            at steps where only the raw tensor was captured.
        Not a number:
            As defined by the statistic; also NaN if it could not be computed.
        Raises:
            NotCapturedError: It was not captured at any step, and cannot be computed.
            DamagedRunError: A tensor cannot be read.
        """
        parts = []
        for stream in self._archive.series.values():
            column = stream.columns_of(self.name).get(name)
            if column is not None:
                parts.append(tables.column_table(stream.worker, stream.batches, column))
        rows = self._computed_rows(name, parts) if self._stored.all() else []
        if rows:
            parts.append(pa.Table.from_pylist(rows, schema=tables.STATISTICS))
        if not parts:
            if name in self.statistic_names():
                raise NotCapturedError(f"{name} is an array; use statistic_array({name!r}, step)")
            listed = ", ".join(self.statistic_names()) or "none"
            raise NotCapturedError(f"no {name} of {self.name} was captured; captured: {listed}")
        return tables.concatenate(parts, tables.STATISTICS, ("step", "worker"))

    def reduction_values(self, step: int, worker: str | None = None, mode: str | None = None) -> dict[str, float]:
        """Return all statistics that were captured as numbers at one step, by name.

        Example:
            >>> leadline.open_run().tensor("gradient/fc.weight").reduction_values(2)
            {'abs_mean': 0.5, 'nonfinite_count': 0.0}

        Units:
            As defined in ``leadline.statistics.definitions``.
        Not a number:
            As defined by the statistic.
        Args:
            worker: The worker; None for the first worker that captured it.
            mode: The mode whose step it is.
        Raises:
            NotYetError: The run has not reached the step.
            NotCapturedError: No statistic was captured at the step.
        """
        mode, found = mode or self._main_mode(), dict[str, float]()
        for stream, columns, values in self._archive.rows_at(self.name, step, worker, mode):
            worker = worker or stream.worker
            if stream.worker == worker:
                found |= {statistic: float(values[column]) for statistic, column in columns.items()}
        if not found:
            raise self._missing(f"no statistic of {self.name} was captured", step, mode, self._steps_of(mode))
        return dict(sorted(found.items()))

    def table(self, mode: str | None = None) -> pa.Table:
        """Return all statistics that were captured as numbers, over all steps and workers.

        Example:
            >>> table = leadline.open_run().tensor("gradient/fc.weight").table()
            >>> table.column_names
            ['step', 'mode', 'worker', 'time_ns', 'abs_mean', 'nonfinite_count']
            >>> table["step"].to_pylist()
            [0, 2]

        Shape:
            One row per captured step and worker: ``step`` (the step of the mode)``, mode, worker, time_ns``, and a
            column for each statistic, ordered by mode, step and worker; null at steps where it was not captured.
        Units:
            As defined in ``leadline.statistics.definitions``; times in ns since the epoch.
        Not a number:
            As defined by the statistic.
        Args:
            mode: Only this mode; None for all.
        """
        streams = self._archive.series.values()
        parts = [
            tables.wide_table(stream.worker, stream.batches, columns)
            for stream in streams
            if (columns := stream.columns_of(self.name))
        ]
        return tables.filter_equal(tables.join_wide(parts), mode=mode)

    def to_pandas(self, mode: str | None = None) -> pd.DataFrame:
        """Return ``table`` as a data frame of pandas.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return data_frames.to_pandas(self.table(mode))

    def to_polars(self, mode: str | None = None) -> pl.DataFrame:
        """Return ``table`` as a data frame of Polars.

        Raises:
            MissingExtraError: Polars is not installed.
        """
        return data_frames.to_polars(self.table(mode))

    def _computed_rows(self, name: str, captured: list[pa.Table]) -> list[TableRow]:
        captured_at: set[tuple[str, int]] = set()
        for table in captured:
            captured_at.update(zip(table["worker"].to_pylist(), table["step"].to_pylist(), strict=True))
        rows = []
        for tensor in self._stored.all():
            value = self._stored.compute(name, tensor) if (tensor.worker, tensor.step) not in captured_at else None
            if value is not None:
                mode_step, time_ns = self._archive.stamp(tensor.worker, tensor.step) or (None, None)
                rows.append(
                    {
                        "step": tensor.step,
                        "mode": tensor.mode,
                        "mode_step": mode_step,
                        "time_ns": time_ns,
                        "worker": tensor.worker,
                        "value": value,
                    }
                )
        return rows

    def _main_mode(self) -> str:
        return next(iter(self.modes()), "train")

    def _captured(self, statistic: str, step: int, worker: str | None, mode: str) -> float:
        for _, columns, values in self._archive.rows_at(self.name, step, worker, mode):
            if statistic in columns:
                return float(values[columns[statistic]])
        raise self._missing(f"no {statistic} of {self.name} was captured", step, mode, self.steps(mode))

    @property
    def is_sharded(self) -> bool:
        """Whether workers have shards of it, which make up the whole."""
        return self._info is not None and self._info.shard is not None

    def _whole(self, step: int, worker: str | None, mode: str) -> WholeTensor | None:
        """Return what was captured of the shards of the tensor at a step; None: it has none, or a worker is given."""
        if worker is not None or not self.is_sharded:
            return None
        rows = (
            (stream.worker, stream.info_of(self.name), columns, values)
            for stream, columns, values in self._archive.rows_at(self.name, step, None, mode)
        )
        arrays = (
            pair for pair in self._stored.vectors() if next(self._stored.select(pair[1:], step, None, mode), None)
        )
        return whole_tensor(rows, self._stored.at(step, None, mode), arrays)

    def _of_whole(self, combined: T | None, name: str, step: int, mode: str) -> T:
        if combined is None:
            raise self._missing(f"no {name} of the whole {self.name}, but of shards: give a worker", step, mode, ())
        return combined

    def _computed(self, statistic: str, step: int, worker: str | None, mode: str) -> float | None:
        raw = next(iter(self._stored.at(step, worker, mode)), None)
        return self._stored.compute(statistic, raw) if raw is not None else None

    def _steps_of(self, mode: str, statistic: str | None = None) -> set[int]:
        result: set[int] = set()
        for stream in self._archive.series.values():
            columns = stream.columns_of(self.name)
            if not columns or statistic not in (None, *columns):
                continue
            for batches in stream.batches:
                stamps = zip(batches.numbers("mode_step").tolist(), batches.texts("mode"), strict=True)
                result.update(step for step, known in stamps if known == mode)
        return result

    def _missing(self, message: str, step: int, mode: str, known: Iterable[int]) -> NotCapturedError | NotYetError:
        label = str(step) if mode == "train" else f"{step} of {mode}"
        if not self._has_passed(step, mode):
            argument = str(step) if mode == "train" else f"{step}, mode={mode!r}"
            return NotYetError(f"the run has not reached step {label} yet; use wait_for_step({argument})")
        near = sorted(sorted(known, key=lambda known_step: (abs(known_step - step), known_step))[:3])
        hint = f"; the nearest steps are {', '.join(map(str, near))}" if near else ""
        return NotCapturedError(f"{message} at step {label}{hint}")
