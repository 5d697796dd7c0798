"""One tensor of a run: its values, and statistics of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from leadline.errors import NotCapturedError, NotYetError
from leadline.reader import tables
from leadline.reader.tensors import StoredTensor
from leadline.records.series import TensorInfo

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.reader.run import Run


class Tensor:
    """A tensor of a run, by name. Every ``step`` is a global one, over all modes."""

    def __init__(self, run: Run, name: str, info: TensorInfo | None) -> None:
        self._run, self.name, self._info = run, name, info

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, shape={self.shape}, {len(self.steps())} steps)"

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Its shape; None where it is not known."""
        stored = self._stored()
        return self._info.shape if self._info else stored[0].shape if stored else None

    @property
    def collections(self) -> tuple[str, ...]:
        """The collections that it is a member of; empty where they are not known."""
        return self._info.collections if self._info else ()

    def steps(self, mode: str | None = None) -> list[int]:
        """The global steps at which it was captured, in any worker, ascending."""
        stored = {each.step for each in (*self._stored(), *self._vectors()) if mode in (None, each.mode)}
        return sorted(stored | self._steps_of(mode=mode))

    def statistic_names(self) -> list[str]:
        """The statistics that were captured of it; those that are arrays among them."""
        shelves = self._run.archive.shelves.values()
        vectors = {statistic for tensor, statistic in self._run.archive.vectors if tensor == self.name}
        return sorted({name for shelf in shelves for name in shelf.columns_of(self.name)} | vectors)

    def value(self, step: int, worker: str | None = None) -> npt.NDArray[Any]:
        """Its elements, where the tensor itself was stored.

        Shape:
            That of the tensor, ``(*shape,)``; of a single number ``()``.
        Units:
            Its own; bfloat16 comes as float32.
        Not a number:
            As stored.
        Args:
            worker: Of which worker; None: the first that has it.
        Raises:
            NotYetError: The run has not come to that step.
            NotCapturedError: It was not stored at that step.
            DamagedRunError: It cannot be read.
        """
        for each in self._stored():
            if each.step == step and worker in (None, each.worker):
                return each.load()
        try:
            return np.asarray(self._captured("value", step, worker))
        except NotCapturedError:
            stored = {each.step for each in self._stored()} or self._steps_of("value")
            raise self._absent(f"{self.name} was not stored whole", step, sorted(stored)) from None

    def statistic(self, name: str, step: int, worker: str | None = None) -> float:
        """One statistic at one step: as captured, else computed from the tensor where that was stored.

        Units:
            Those of ``leadline.statistics.definitions``.
        Not a number:
            As the statistic's definition says.
        Raises:
            NotYetError: The run has not come to that step.
            NotCapturedError: Neither it nor the tensor was stored at that step.
            DamagedRunError: The tensor cannot be read.
        """
        try:
            return self._captured(name, step, worker)
        except NotCapturedError:
            computed = self._computed(name, step, worker)
            if computed is None:
                raise
            return computed

    def statistic_array(self, name: str, step: int, worker: str | None = None) -> npt.NDArray[np.float64]:
        """One statistic that is an array, at one step: as captured, else computed from the tensor as it was stored.

        Shape:
            As the statistic's definition says: ``(units,)``, ``(classes,)``, ``(classes, classes)``, ``(2 + bins,)``.
        Units:
            Those of ``leadline.statistics.definitions``.
        Not a number:
            As the statistic's definition says.
        Args:
            worker: Of which worker; None: the first that has it.
        Raises:
            UnknownNameError: No statistic has that name.
            NotYetError: The run has not come to that step.
            NotCapturedError: Neither it nor the tensor was stored at that step, or it is a number and no array.
            DamagedRunError: It cannot be read.
        """
        from leadline.statistics import arrays
        from leadline.statistics.definitions import find_statistic

        if not find_statistic(name).is_vector:
            raise NotCapturedError(f"{name} is a number and no array; statistic({name!r}, {step}) has it")
        stored = self._run.archive.vectors.get((self.name, name), [])
        for each in stored:
            if each.step == step and worker in (None, each.worker):
                return arrays.tidy(name, each.load())
        for each in self._stored() if name != "confusion" else ():
            if each.step == step and worker in (None, each.worker):
                return arrays.compute_vector(name, each.load())
        known = {each.step for each in (*stored, *self._stored())}
        raise self._absent(f"no {name} of {self.name} was captured", step, sorted(known))

    def statistics(self, name: str) -> pa.Table:
        """One statistic over all steps and workers: as captured, elsewhere computed from the tensor as it was stored.

        Shape:
            A row a captured step and worker: ``step, mode, mode_step, time_ns, worker, value``, ordered by step.
        Units:
            Those of ``leadline.statistics.definitions``; times in ns since the epoch. Where nothing but the tensor
            was captured at a step, its time and its step within the mode are null.
        Not a number:
            As the statistic's definition says; NaN also where it could not be computed.
        Raises:
            NotCapturedError: It was not captured at any step, and cannot be computed.
            DamagedRunError: A tensor cannot be read.
        """
        found = []
        for shelf in self._run.archive.shelves.values():
            column = shelf.columns_of(self.name).get(name)
            if column is not None:
                found.append(tables.column_table(shelf.worker, shelf.batches, column))
        rows = self._computed_rows(name, found) if self._stored() else []
        if rows:
            found.append(pa.Table.from_pylist(rows, schema=tables.STATISTICS))
        if not found:
            if name in self.statistic_names():
                raise NotCapturedError(f"{name} is an array; statistic_array({name!r}, step) has that of one step")
            listed = ", ".join(self.statistic_names()) or "none"
            raise NotCapturedError(f"no {name} of {self.name} was captured; captured: {listed}")
        return tables.joined(found, tables.STATISTICS, ("step", "worker"))

    def _computed_rows(self, name: str, captured: list[pa.Table]) -> list[dict[str, Any]]:
        known: set[tuple[str, int]] = set()
        for table in captured:
            known.update(zip(table["worker"].to_pylist(), table["step"].to_pylist(), strict=True))
        rows = []
        for each in self._stored():
            value = self._compute(name, each) if (each.worker, each.step) not in known else None
            if value is not None:
                mode_step, time_ns = self._run.archive.stamp(each.worker, each.step) or (None, None)
                rows.append(
                    {
                        "step": each.step,
                        "mode": each.mode,
                        "mode_step": mode_step,
                        "time_ns": time_ns,
                        "worker": each.worker,
                        "value": value,
                    }
                )
        return rows

    def _captured(self, statistic: str, step: int, worker: str | None) -> float:
        for shelf in self._run.archive.shelves.values():
            column = shelf.columns_of(self.name).get(statistic)
            if column is None or worker not in (None, shelf.worker):
                continue
            for batch in shelf.batches:
                rows = np.flatnonzero(np.asarray(batch.columns["step"]) == step)
                if rows.size:
                    return float(np.asarray(batch.columns["values"])[rows[0], column])
        raise self._absent(f"no {statistic} of {self.name} was captured", step, self.steps())

    def _computed(self, statistic: str, step: int, worker: str | None) -> float | None:
        for each in self._stored():
            if each.step == step and worker in (None, each.worker):
                return self._compute(statistic, each)
        return None

    def _compute(self, statistic: str, stored: StoredTensor) -> float | None:
        """A statistic of a tensor that was stored whole; None where it needs more, or is an array."""
        from leadline.statistics import arrays
        from leadline.statistics.definitions import find_statistic

        known = find_statistic(statistic)
        if known.is_vector or known.source in ("number", "update"):
            return None
        if known.source == "bits":
            return arrays.compute(statistic, stored.bits())
        before = self._stored_before(stored) if known.source == "change" else None
        try:
            return arrays.compute(statistic, stored.load(), before.load() if before else None)
        except KeyError:
            return None

    def _stored_before(self, stored: StoredTensor) -> StoredTensor | None:
        """The same tensor of the same worker and mode, as it was stored before."""
        earlier = [
            each
            for each in self._stored()
            if (each.worker, each.mode, each.shape) == (stored.worker, stored.mode, stored.shape)
            and each.step < stored.step
        ]
        return max(earlier, key=lambda each: each.step, default=None)

    def _vectors(self) -> list[StoredTensor]:
        found = self._run.archive.vectors.items()
        return [each for (tensor, _), stored in found if tensor == self.name for each in stored]

    def _steps_of(self, statistic: str | None = None, mode: str | None = None) -> set[int]:
        found: set[int] = set()
        for shelf in self._run.archive.shelves.values():
            columns = shelf.columns_of(self.name)
            if not columns or statistic not in (None, *columns):
                continue
            for batch in shelf.batches:
                steps = np.asarray(batch.columns["step"]).tolist()
                found.update(
                    step for step, each in zip(steps, batch.columns["mode"], strict=True) if mode in (None, each)
                )
        return found

    def _stored(self) -> list[StoredTensor]:
        return self._run.archive.stored.get(self.name, [])

    def _absent(self, what: str, step: int, known: list[int]) -> NotCapturedError | NotYetError:
        if not self._run.has_passed(step):
            return NotYetError(f"the run has not come to step {step} yet; wait_for_step({step}) waits for it")
        near = sorted(known, key=lambda each: abs(each - step))[:3]
        tail = f"; the nearest steps are {', '.join(map(str, sorted(near)))}" if near else ""
        return NotCapturedError(f"{what} at step {step}{tail}")
