"""What is stored of one tensor: raw tensors, and statistics that are arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from leadline.reader.archive import Archive
from leadline.reader.tensors import StoredTensor


class StoredTensors:
    """The raw tensors and array statistics of one name.

    Args:
        name: That of the tensor.
    """

    def __init__(self, archive: Archive, name: str) -> None:
        self._archive = archive
        self._name = name

    def all(self) -> list[StoredTensor]:
        """Return the raw tensors."""
        return self._archive.stored.get(self._name, [])

    def with_vectors(self) -> list[StoredTensor]:
        """Return its raw tensors and its array statistics."""
        return [*self.all(), *(array for _, array in self.vectors())]

    def at(self, step: int, worker: str | None, mode: str) -> list[StoredTensor]:
        """Return the raw tensors that were stored at a step of a mode."""
        stored = self._archive.stored_at(self._name, step, mode)
        return [tensor for tensor in stored if worker in (None, tensor.worker)]

    def vectors(self) -> list[tuple[str, StoredTensor]]:
        """Return its array statistics, with their names."""
        vectors = self._archive.vectors.items()
        return [(statistic, one) for (name, statistic), stored in vectors if name == self._name for one in stored]

    def select(
        self, tensors: Iterable[StoredTensor], step: int, worker: str | None, mode: str
    ) -> Iterator[StoredTensor]:
        """Yield the tensors stored at a step of a mode."""
        for tensor in tensors:
            if tensor.mode == mode and worker in (None, tensor.worker) and self._archive.step_of(tensor) == step:
                yield tensor

    def steps_of(self, tensors: Iterable[StoredTensor], mode: str) -> set[int]:
        """Return the steps of a mode at which tensors were stored."""
        return {self._archive.step_of(tensor) for tensor in tensors if tensor.mode == mode}

    def compute(self, statistic: str, stored: StoredTensor) -> float | None:
        """Compute a statistic of a raw tensor; None if it requires other data, or is an array."""
        from leadline.statistics import arrays
        from leadline.statistics.definitions import find_statistic

        definition = find_statistic(statistic)
        if stored.is_text or definition.is_vector or definition.source in ("number", "update"):
            return None
        if definition.source == "bits":
            return arrays.compute(statistic, stored.bits())
        before = self._before(stored) if definition.source == "change" else None
        try:
            return arrays.compute(statistic, stored.load(), before.load() if before else None)
        except KeyError:
            return None

    def _before(self, stored: StoredTensor) -> StoredTensor | None:
        """Return the previous raw tensor of the same worker and mode."""
        kind = (stored.worker, stored.mode, stored.shape)
        same = (other for other in self.all() if (other.worker, other.mode, other.shape) == kind)
        return max((other for other in same if other.step < stored.step), key=lambda other: other.step, default=None)
