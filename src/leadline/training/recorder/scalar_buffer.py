"""Buffer for the scalars of the current step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leadline.frameworks.installed import Frameworks
from leadline.records.names import CHECKS, GRADIENT_NORMS
from leadline.records.plan import CaptureItem
from leadline.training.recorder.scalars import LossBuffer, Scalar


class ScalarBuffer:
    """Losses, gradient norms, loop checks, accuracies and logged values of the current step."""

    def __init__(self, frameworks: Frameworks) -> None:
        self.train_losses = LossBuffer()
        """The losses of train steps."""
        self._frameworks = frameworks
        self._losses = {"train": self.train_losses}
        self._logged: dict[str, Scalar] = {}
        self._logged_names: set[str] = set()
        self._accuracies: dict[str, Scalar] = {}
        self._accuracy_names: set[str] = set()
        self._norms: dict[str, Scalar] = {}
        self._checks: dict[str, Scalar] = {}

    @property
    def latest_losses(self) -> dict[str, float]:
        """The latest value of each loss of the training; without one, of another mode."""
        return next((losses.latest for losses in self._losses.values() if losses.latest), {})

    def losses_of(self, mode: str) -> LossBuffer:
        """Return the losses of a mode."""
        if mode not in self._losses:
            self._losses[mode] = LossBuffer()
        return self._losses[mode]

    def log(self, values: Mapping[str, Any], collection: str = "scalars", marks: tuple[str, ...] = ()) -> None:
        """Record scalars of the current step; the last value of a name is kept."""
        for name, value in values.items():
            self._logged[name] = Scalar(collection, (self._frameworks.number(value),), marks)
        self._logged_names.update(values)

    def add_norms(self, values: Mapping[str, object]) -> None:
        """Add the norms that gradient clipping has computed."""
        self._norms |= {name: Scalar(GRADIENT_NORMS, (value,)) for name, value in values.items()}

    def add_checks(self, values: Mapping[str, float]) -> None:
        """Add results of the loop checks."""
        self._checks |= {name: Scalar(CHECKS, (value,)) for name, value in values.items()}

    def add_accuracies(self, values: Mapping[str, object]) -> None:
        """Add accuracies, except those whose names the script logs itself."""
        for name, value in values.items():
            if name in self._accuracy_names or name not in self._logged_names:
                self._accuracy_names.add(name)
                self._accuracies[name] = Scalar("metrics", (value,))

    def has_logged(self) -> bool:
        """Return whether the current step has logged values or accuracies."""
        return bool(self._logged or self._accuracies)

    def take_train_step(self) -> dict[str, Scalar]:
        """Return losses, gradient norms and loop checks of the train step, and remove them."""
        taken = self.train_losses.take() | self._norms | self._checks
        self._norms, self._checks = {}, {}
        return taken

    def take_norms(self) -> dict[str, Scalar]:
        """Return the gradient norms, and remove them."""
        norms, self._norms = self._norms, {}
        return norms

    def take_logged(self, items: Sequence[CaptureItem]) -> dict[str, Scalar]:
        """Return accuracies and the logged values that ``items`` select, and remove them; others stay.

        A logged name that is also the name of an accuracy or a loss is prefixed with its collection.
        """
        if not items:
            return {}
        logged, self._logged = self._logged, {}
        accuracies, self._accuracies = self._accuracies, {}
        used = self._accuracy_names.union(*(losses.latest for losses in self._losses.values()))
        named: dict[str, Scalar] = {}
        for name, scalar in dict(logged).items():  # copied: a thread that logs may still hold the dict
            members = frozenset({scalar.collection})
            if any(item.selects(name, members) for item in items):
                named[f"{scalar.collection}/{name}" if name in used else name] = scalar
            else:
                self._logged.setdefault(name, scalar)
        return named | accuracies
