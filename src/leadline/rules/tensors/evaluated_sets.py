"""What is known of the training and validation data of a loss: spreads of features, classes, and the samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from leadline.rules import Window
from leadline.rules.losses.class_counts import add_counts, is_regression

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.reader.window import Floats
    from leadline.rules.losses.class_counts import Counts

_VARYING: Final = 1e-6
"""A feature whose standard deviation is smaller than this share of its mean is constant."""


@dataclass(frozen=True, slots=True)
class FeatureSpread:
    """Mean and spread of each feature of an input, over the samples so far."""

    samples: int
    mean: Floats
    """Shape ``(features,)``, like ``square``."""
    square: Floats
    """Means of the squares."""
    are_images: bool
    """Whether the features are the channels of ``(N, C, H, W)``."""

    def joined(self, other: FeatureSpread | None) -> FeatureSpread:
        """Return the spread over the samples of both; of this one alone if the other has other features."""
        if other is None or other.mean.shape != self.mean.shape:
            return self
        samples = self.samples + other.samples
        share = other.samples / samples
        return FeatureSpread(
            samples,
            self.mean + share * (other.mean - self.mean),
            self.square + share * (other.square - self.square),
            self.are_images,
        )

    def std(self) -> Floats:
        """Return the standard deviation of each feature, ``(features,)``."""
        import numpy as np

        return np.sqrt(np.maximum(self.square - self.mean**2, 0.0))

    def is_varying(self) -> npt.NDArray[np.bool_]:
        """Return which features are not constant, ``(features,)``."""
        varying: npt.NDArray[np.bool_] = self.std() > _VARYING * abs(self.mean).clip(min=1e-300)
        return varying

    @staticmethod
    def of_inputs(window: Window) -> Iterator[tuple[tuple[str, str], FeatureSpread]]:
        """Yield worker and name of each floating-point input of a step, and its spread, in the order of the calls."""
        import numpy as np

        means = {(vector.worker, vector.tensor): vector for vector in window.vectors("unit_mean")}
        spreads = {(vector.worker, vector.tensor): vector.values for vector in window.vectors("unit_std")}
        for reading in window.readings("abs_max"):
            key = (reading.worker, reading.tensor)
            if "float" not in reading.dtype or key not in means or key not in spreads or not reading.shape:
                continue
            mean, std = means[key].values, spreads[key]
            if len(mean) == len(std) and np.isfinite([*mean, *std]).all():
                are_images = len(reading.shape) == 4 and len(mean) == reading.shape[1]
                yield key, FeatureSpread(reading.shape[0], mean, std**2 + mean**2, are_images)


@dataclass(slots=True)
class LabelledEvaluation:
    """The samples and labels between two train steps."""

    train_step: int
    first_step: int
    """The first of its eval steps."""
    last_step: int = -1
    steps: int = 0
    samples: Counter[int] = field(default_factory=Counter)
    """How often each sample was evaluated, by its fingerprint."""
    counts: dict[str, Counts] = field(default_factory=dict)
    """Labels by class, of each loss call."""
    matrices: dict[str, Counts] = field(default_factory=dict)
    """Labels (rows) by predicted class, of each loss call."""

    def is_complete(self, end: int) -> bool:
        """Return whether each of its steps was captured, and it ended before capture did."""
        return self.steps == self.last_step - self.first_step + 1 and self.last_step < end - 1

    def note(self, window: Window, worker: str, mode_step: int, name: str) -> None:
        """Add a step of the evaluation; ``name`` is that of the input whose samples count."""
        self.last_step = mode_step
        self.steps += 1
        for vector in window.vectors("class_counts"):
            if vector.worker == worker and not is_regression(vector):
                self.counts[vector.tensor] = add_counts(self.counts.get(vector.tensor), vector.values)
        for vector in window.vectors("confusion"):
            if vector.worker == worker:
                self.matrices[vector.tensor] = add_counts(self.matrices.get(vector.tensor), vector.values)
        for vector in window.vectors("fingerprints"):
            if vector.worker == worker and vector.tensor == name:
                self.samples.update((int(upper) << 32) | int(lower) for upper, lower in vector.values.tolist())


@dataclass(slots=True)
class DataOfWorker:
    """The training and validation data of one worker."""

    input: str = ""
    """The input of the model that is called first in a train step: those of later ones may be what it has computed."""
    trained: FeatureSpread | None = None
    """The spread of this input at the latest captured train step; over earlier ones, too, if it has few samples."""
    evaluated: FeatureSpread | None = None
    """That of the latest evaluation."""
    counts: dict[str, Counts] = field(default_factory=dict)
    """The training labels by class, of each loss call."""
    fewest: dict[str, int] = field(default_factory=dict)
    """The fewest classes in one of its batches, of each loss call."""
    batches: int = 0
    """The batches whose labels were counted."""
    matrices: dict[str, Counts] = field(default_factory=dict)
    """Training labels (rows) by predicted class, at the latest captured step of each loss call."""
    running: LabelledEvaluation | None = None
    ended: list[LabelledEvaluation] = field(default_factory=list)
    """The latest evaluations that the training, or another evaluation, has followed; at most two."""

    def train(self, window: Window, worker: str) -> None:
        """Add a train step."""
        self._end()
        self.batches += 1
        for vector in window.vectors("class_counts"):
            if vector.worker == worker and not is_regression(vector):
                name, classes = vector.tensor, int((vector.values > 0).sum())
                self.counts[name] = add_counts(self.counts.get(name), vector.values)
                self.fewest[name] = min(classes, self.fewest.get(name, classes))
        for vector in window.vectors("confusion"):
            if vector.worker == worker:
                self.matrices[vector.tensor] = vector.values

    def evaluate(self, window: Window, worker: str, mode_step: int) -> None:
        """Add a step of an evaluation."""
        if self.running is not None and self.running.train_step != window.step:
            self._end()
        if self.running is None:
            self.running, self.evaluated = LabelledEvaluation(window.step, mode_step), None
        self.running.note(window, worker, mode_step, self.input)

    def _end(self) -> None:
        if self.running is not None:
            self.ended = [*self.ended[-1:], self.running]
            self.running = None
