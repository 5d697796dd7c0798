"""The tensors that a rule needs, in smdebug's interface."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from leadline.compat.smdebug.core.tensor import Tensor
from leadline.compat.smdebug.trials import Trial


class RequiredTensors:
    """The tensors that a rule needs at a step, by trial."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = trials
        self._steps: dict[Trial, dict[str, list[int]]] = {trial: {} for trial in trials}

    def add(
        self, name: str, steps: Iterable[int], trial: Trial | None = None, should_match_regex: bool = False
    ) -> None:
        """Require tensors at global steps.

        Args:
            trial: None for the base trial.
            should_match_regex: ``name`` is a regular expression that names must contain (``re.search``).
        """
        trial = trial or self._trials[0]
        names = [known for known in trial.tensor_names() if re.search(name, known)] if should_match_regex else [name]
        for one in names:
            known_steps = self._steps[trial].setdefault(one, [])
            known_steps += [step for step in steps if step not in known_steps]

    def get(self, trial: Trial | None = None) -> list[Tensor]:
        """Return the required tensors of a trial."""
        trial = trial or self._trials[0]
        return [trial.tensor(name) for name in self.get_names(trial)]

    def get_names(self, trial: Trial | None = None) -> list[str]:
        """Return the names of the required tensors of a trial."""
        return list(self._steps[trial or self._trials[0]])

    def get_tensor_steps(self, name: str, trial: Trial | None = None) -> list[int]:
        """Return the steps at which a tensor is required; none if it is not."""
        return list(self._steps[trial or self._trials[0]].get(name, ()))

    def clear(self) -> None:
        """Require nothing."""
        for names in self._steps.values():
            names.clear()

    def fetch(self) -> None:
        """Check that every required tensor was saved at its steps.

        Raises:
            TensorUnavailable, TensorUnavailableForStep, StepUnavailable: One was not.
        """
        for trial, names in self._steps.items():
            for name, steps in names.items():
                tensor = trial.tensor(name)
                for step in steps:
                    tensor.workers(step)
