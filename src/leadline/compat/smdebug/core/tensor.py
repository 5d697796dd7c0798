"""A tensor of a trial, in smdebug's interface."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.exceptions import (
    InvalidWorker,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailableForStep,
)
from leadline.compat.smdebug.run_step_source import REDUCTIONS
from leadline.compat.smdebug.step_source import StepSource
from leadline.statistics import arrays

if TYPE_CHECKING:
    import numpy.typing as npt


class StepState(Enum):
    """Whether a step was saved."""

    UNAVAILABLE = 0
    AVAILABLE = 1
    NOT_YET_AVAILABLE = 2


class TrialOfTensor(Protocol):
    """What a tensor uses of its trial."""

    @property
    def saved(self) -> StepSource:
        """What was saved so far."""

    def steps(self, mode: ModeKeys = ..., show_incomplete_steps: bool = ...) -> list[int]:
        """Return the saved steps of a mode, in ascending order."""

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        """Return the global step of a step of a mode; None if it was not saved."""

    def has_passed_step(self, step: int, mode: ModeKeys = ...) -> StepState:
        """Return whether a step was saved, or may still be."""

    def workers(self) -> list[str]:
        """Return the workers, in order."""


class Tensor:
    """A tensor; every ``step_num`` is a step of the mode that is given, by default a global step."""

    def __init__(self, trial: TrialOfTensor, name: str) -> None:
        self.trial, self.name = trial, name
        self.original_name = name

    def __repr__(self) -> str:
        return f"Tensor({self.name!r})"

    def steps(self, mode: ModeKeys = ModeKeys.GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the steps at which it was saved, in ascending order."""
        known = self.trial.saved.tensors[self.name]
        return [
            step
            for step in self.trial.steps(mode, show_incomplete_steps)
            if self.trial.global_step(mode, step) in known
        ]

    def value(self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None) -> npt.NDArray[Any]:
        """Return its elements.

        Shape:
            ``(*shape,)``.
        Raises:
            TensorUnavailableForStep: Its elements were not saved at the step by the worker.
            StepUnavailable, StepNotYetAvailable: Nothing was saved at the step, or not yet.
            InvalidWorker: There is no such worker.
        """
        step = self._global_step(step_num, mode, worker)
        holders = self.trial.saved.raw[self.name].get(step, set())
        chosen = self._worker(holders, worker)
        if chosen is None:
            has_reductions = bool(self._stored(step, worker))
            raise TensorUnavailableForStep(self.name, step_num, mode, has_reductions)
        return self.trial.saved.value(self.name, step, chosen)

    def values(self, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None) -> dict[int, npt.NDArray[Any]]:
        """Return the elements at each step at which they were saved."""
        held = self.trial.saved.raw[self.name]
        steps = {step: held.get(self.trial.global_step(mode, step) or 0, set()) for step in self.steps(mode)}
        return {
            step: self.value(step, mode, worker) for step, holders in steps.items() if self._worker(holders, worker)
        }

    def reduction_value(
        self,
        step_num: int,
        reduction_name: str,
        mode: ModeKeys = ModeKeys.GLOBAL,
        worker: str | None = None,
        abs: bool = False,
    ) -> float:
        """Return a reduction, as stored or computed from the elements: entrywise norms, population variance.

        Args:
            reduction_name: ``min``, ``max``, ``mean``, ``std``, ``variance``, ``sum``, ``prod``, ``l1`` or ``l2``.
            abs: That of the absolute values.
        Raises:
            ValueError: There is no such reduction.
            TensorUnavailableForStep: Neither the reduction nor the elements were saved at the step.
        """
        if reduction_name not in REDUCTIONS:
            raise ValueError(f"no reduction named {reduction_name!r}; known: {', '.join(REDUCTIONS)}")
        stored = self.reduction_values(step_num, mode, worker)
        if (reduction_name, abs) in stored:
            return stored[reduction_name, abs]
        values = self.value(step_num, mode, worker)
        return arrays.compute(reduction_name, np.abs(values) if abs else values)

    def reduction_values(
        self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> dict[tuple[str, bool], float]:
        """Return the stored reductions by name and whether they are those of the absolute values."""
        step = self._global_step(step_num, mode, worker)
        names, chosen = self._stored(step, worker), self._worker(self.trial.saved.tensors[self.name][step], worker)
        if not names or chosen is None:
            return {}
        saved = self.trial.saved
        return {
            (name.removeprefix("abs_"), name.startswith("abs_")): saved.reduction(self.name, step, chosen, name)
            for name in sorted(names)
        }

    def shape(self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None) -> tuple[int, ...]:
        """Return its shape: that of its elements, or the one that was saved.

        Raises:
            ShapeUnavailableForStep: Neither was saved.
        """
        try:
            return tuple(self.value(step_num, mode, worker).shape)
        except TensorUnavailableForStep:
            step = self._global_step(step_num, mode, worker)
            chosen = self._worker(self.trial.saved.tensors[self.name][step], worker)
            shape = None if chosen is None else self.trial.saved.shape(self.name, step, chosen)
            if shape is None:
                raise ShapeUnavailableForStep(self.name, step_num, mode) from None
            return shape

    def workers(self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[str]:
        """Return the workers that saved it at a step."""
        return sorted(self.trial.saved.tensors[self.name][self._global_step(step_num, mode, None)])

    def prev_steps(self, step: int, n: int | None = None, mode: ModeKeys = ModeKeys.GLOBAL) -> list[int]:
        """Return the last ``n`` steps up to a step, itself included, in ascending order; None for all."""
        earlier = [known for known in self.steps(mode) if known <= step]
        return earlier if n is None else earlier[len(earlier) - min(n, len(earlier)) :]

    def _global_step(self, step_num: int, mode: ModeKeys, worker: str | None) -> int:
        """Return the global step of a step at which this was saved."""
        trial = self.trial
        if worker is not None and worker not in trial.workers():
            raise InvalidWorker(worker)
        step = trial.global_step(mode, step_num)
        if step is None or step not in trial.saved.tensors[self.name]:
            state = trial.has_passed_step(step_num, mode)
            if state is StepState.NOT_YET_AVAILABLE:
                raise StepNotYetAvailable(step_num, mode)
            if state is StepState.UNAVAILABLE:
                raise StepUnavailable(step_num, mode)
            raise TensorUnavailableForStep(self.name, step_num, mode)
        return step

    def _stored(self, step: int, worker: str | None) -> set[str]:
        chosen = self._worker(self.trial.saved.tensors[self.name].get(step, set()), worker)
        return set() if chosen is None else self.trial.saved.reductions(self.name, step, chosen)

    @staticmethod
    def _worker(holders: set[str], worker: str | None) -> str | None:
        """Return the worker whose data is meant: the one that is given, or the first; None if it has none."""
        return min(holders, default=None) if worker is None else worker if worker in holders else None
