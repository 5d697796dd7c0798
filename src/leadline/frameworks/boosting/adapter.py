"""Base adapter of the gradient boosting frameworks, and the classification of their evaluation metrics and sets."""

from __future__ import annotations

import functools
import re
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from leadline.frameworks.adapter import Program, StepCallbacks
from leadline.frameworks.boosting.rounds import RoundCapture, Rounds
from leadline.frameworks.patches import Patches
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.guard import Guard
from leadline.records.doctor_report import Inventory, ModelEntry, UncapturedEntry
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, may_select_booster_data

Settings = Callable[[Any], Mapping[str, float | str]]


class BoostingSubject:
    """See ``leadline.frameworks.adapter.Subject``: one booster in training.

    Args:
        owner: The object whose boosting rounds are the steps.
        settings: Returns its current hyperparameters.
    """

    parameters = elements = trainable = 0

    def __init__(self, owner: object, settings: Settings) -> None:
        self._owner = weakref.ref(owner)
        self._settings = settings
        values = settings(owner)
        self.model = type(owner).__name__.lstrip("_")
        self.optimizer = str(values.get("objective", ""))

    def is_current(self) -> bool:
        return self._owner() is not None

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> Program | None:
        return None

    def hyperparameters(self) -> dict[str, object]:
        owner = self._owner()
        values = self._settings(owner) if owner is not None else {}
        return {f"hyperparameters/{name}": value for name, value in values.items() if isinstance(value, float)}

    def clipped(self) -> dict[str, object]:
        return {}


class BoostingAdapter(ABC):
    """The parts of ``leadline.frameworks.adapter.Adapter`` that all gradient boosting frameworks share.

    Args:
        warn: Reports something that cannot be captured, in one line.
        settings: Returns the current hyperparameters of the object whose rounds are the steps.
    """

    family: Family = "trees"

    def __init__(self, warn: Callable[[str], None], settings: Settings) -> None:
        self._warn, self._settings = warn, settings
        self._patches = Patches()
        self._rounds: Rounds | None = None
        self._description: TrainingDescription = {}

    def register(self, model: object) -> None:  # noqa: B027 - the same for every framework
        """Do nothing: boosters are detected when they are trained."""

    def captures_between_steps(self, item: CaptureItem) -> bool:
        return may_select_booster_data(item)

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._rounds is not None:
            self._rounds.schedule(items)

    def end_forward(self) -> RoundCapture | None:
        return self._rounds.captured() if self._rounds is not None else None

    def describe(self) -> TrainingDescription:
        return self._description

    def steps_before(self, optimizer: object) -> int | None:
        """Return the number of rounds before the one that ends, those of a model that is continued included."""
        rounds = self.rounds_of(optimizer)
        return None if rounds is None else rounds - 1

    @abstractmethod
    def rounds_of(self, owner: Any) -> int | None:
        """Return the number of rounds of a booster; None: several are trained."""

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        """Start to call the step callbacks.

        Raises:
            AttributeError: This version of the framework lacks one of the methods.
        """
        self._rounds = Rounds(callbacks, guard, self._warn, self._description)
        self.replace_methods(self._rounds, self._patches.replace)

    @abstractmethod
    def replace_methods(self, rounds: Rounds, replace: Callable[..., None]) -> None:
        """Replace the framework's methods by ones that report the rounds.

        Args:
            replace: See ``Patches.replace``.
        """

    def uninstall(self) -> None:
        """Stop calling the callbacks; the description of the training is kept."""
        self._patches.restore()
        self._rounds = None

    def subject(self, optimizer: object) -> BoostingSubject:
        """Return the description of a booster for the worker's document."""
        return BoostingSubject(optimizer, self._settings)

    def inventory(self, optimizers: Sequence[object]) -> Inventory:
        return {"models": [self._model(owner) for owner in optimizers], "optimizers": [], "module_kinds": []}

    def _model(self, owner: object) -> ModelEntry:
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
            "features": len(self._description.get("features", ())),
        }

    def coverage_gaps(self, optimizers: Sequence[object], backwards: int) -> list[UncapturedEntry]:
        return []


TRAINING_SET: Final = "training_set"
VALIDATION_SET: Final = "validation_set"

LOSSES: Final = frozenset(
    {
        # XGBoost
        "rmse",
        "rmsle",
        "mae",
        "mape",
        "mphe",
        "logloss",
        "error",
        "merror",
        "mlogloss",
        "poisson-nloglik",
        "gamma-nloglik",
        "gamma-deviance",
        "tweedie-nloglik",
        "cox-nloglik",
        "aft-nloglik",
        "quantile",
        "expectile",
        # LightGBM
        "l1",
        "l2",
        "huber",
        "fair",
        "poisson",
        "gamma",
        "gamma_deviance",
        "tweedie",
        "binary_logloss",
        "binary_error",
        "multi_logloss",
        "multi_error",
        "cross_entropy",
        "cross_entropy_lambda",
        "kullback_leibler",
    }
)
"""Metrics of both frameworks that decrease as a model improves, without the part after an ``@``."""
_WORDS: Final = "loss|error|err|deviance|nloglik|nll|mse|rmse|mae"
_LOSS_WORDS: Final = re.compile(rf"(?:^|[-_])(?:{_WORDS})(?:$|[-_@\d])|loss$", re.IGNORECASE)


@functools.cache
def is_loss(metric: str) -> bool:
    """Return whether a metric decreases as a model improves; unknown metrics are judged by their name.

    Args:
        metric: Without the set's name: ``rmse``, ``error@0.7``.
    """
    name = metric.partition("@")[0].rstrip("-")
    return name in LOSSES or _LOSS_WORDS.search(name) is not None


def dataset_collection(name: str, *, is_training_data: bool) -> str:
    """Return the collection that marks an evaluation set as training or validation data.

    Args:
        name: The name of the set.
        is_training_data: Whether it is the same object as the training data.
    """
    return TRAINING_SET if is_training_data or name.lower().startswith("train") else VALIDATION_SET
