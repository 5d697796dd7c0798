"""What the adapters of boosters have in common."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leadline.frameworks.adapter import Depths, Program, StepCallbacks
from leadline.frameworks.boosting.patches import MethodPatches
from leadline.frameworks.boosting.round_capture import RoundCapture
from leadline.frameworks.boosting.rounds import Rounds
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, is_of_trees
from leadline.training.guard import Guard

Settings = Callable[[Any], Mapping[str, float | str]]


class BoostingSubject:
    """See ``leadline.frameworks.adapter.Subject``: one booster in training.

    Args:
        owner: The object that has the rounds.
        settings: Gives its hyperparameters as they are now.
    """

    parameters = 0

    def __init__(self, owner: object, settings: Settings) -> None:
        self._owner = weakref.ref(owner)
        self._settings = settings
        found = settings(owner)
        self.model = type(owner).__name__.lstrip("_")
        self.optimizer = str(found.get("objective", ""))

    def is_current(self) -> bool:
        return self._owner() is not None

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> Program | None:
        return None

    def hyperparameters(self) -> dict[str, object]:
        owner = self._owner()
        found = self._settings(owner) if owner is not None else {}
        return {f"hyperparameters/{name}": value for name, value in found.items() if isinstance(value, float)}

    def clipped(self) -> dict[str, object]:
        return {}


class BoostingAdapter:
    """What ``leadline.frameworks.adapter.Adapter`` asks that no framework of boosters does otherwise.

    Args:
        tell: Takes a line about something that cannot be captured.
        settings: Gives the hyperparameters of what has the rounds, as they are now.
    """

    family: Family = "trees"
    depths: Depths | None = None

    def __init__(self, tell: Callable[[str], None], settings: Settings) -> None:
        self._tell, self._settings = tell, settings
        self._methods: tuple[MethodPatches, ...] = ()
        self._rounds: Rounds | None = None
        self._said: dict[str, Any] = {}

    def register(self, model: object) -> None:
        """Boosters are found when they are trained."""

    def hears(self, item: CaptureItem) -> bool:
        return is_of_trees(item)

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._rounds is not None:
            self._rounds.watch(items)

    def end_forward(self) -> RoundCapture | None:
        return self._rounds.captured() if self._rounds is not None else None

    def end_evaluation(self) -> None: ...

    def name_mode(self, *, is_evaluation: bool) -> None: ...

    def is_distributed(self) -> bool:
        return False

    def rank(self) -> int | None:
        return None

    def number(self, value: Any) -> float:
        return float(value)

    def row(self, values: Sequence[Any]) -> bytes:
        return struct.pack(f"<{len(values)}d", *values)

    def describe(self) -> dict[str, Any]:
        return self._said

    def start(
        self, probes: StepCallbacks, guard: Guard, methods: Callable[[Rounds], tuple[MethodPatches, ...]]
    ) -> None:
        """Begin to call the probes.

        Args:
            methods: Makes what is replaced.
        Raises:
            AttributeError: This version of the framework has other methods; none is replaced.
        """
        self._rounds = Rounds(probes, guard, self._tell, self._said)
        self._methods = methods(self._rounds)
        for each in self._methods:
            each.replace()

    def uninstall(self) -> None:
        """Stop calling them; what was said of the training is kept."""
        for each in self._methods:
            each.put_back()
        self._rounds = None

    def subject(self, optimizer: object) -> BoostingSubject:
        """What the worker says of a booster."""
        return BoostingSubject(optimizer, self._settings)

    def survey(self, optimizers: Sequence[object]) -> dict[str, Any]:
        return {"models": [self._model(each) for each in optimizers], "optimizers": [], "module_kinds": []}

    def _model(self, owner: object) -> dict[str, Any]:
        subject = self.subject(owner)
        return {
            "name": subject.model,
            "wrapper": None,
            "parameters": 0,
            "trainable": 0,
            "tensors": 0,
            "dtypes": [],
            "devices": [],
            "objective": subject.optimizer,
            "features": len(self._said.get("features", ())),
        }

    def uncovered(self, optimizers: Sequence[object], backwards: int) -> list[dict[str, str]]:
        return []
