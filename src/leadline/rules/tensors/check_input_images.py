"""The rule check_input_images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import exact, significant
from leadline.rules import Advice, Fired, Needs, Rule, TensorNeed, Undecided, Verdict, Window
from leadline.rules.bounds import PositiveFloat, PositiveInt
from leadline.rules.messages import clear_if_complete, fired, too_few
from leadline.rules.selection import check_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_DEFAULT = ".*hybridsequential0_input_0"
_UNIT_AXIS = 1
_IMAGE_DIMENSIONS = 4
_Key = tuple[str, str]
_ADVICE: Final = Advice(
    "{normalized_images} with the data's own means (for a pretrained model with those it was trained with); usually "
    "the images are still 0 to 255 or 0 to 1"
)


@dataclass(frozen=True, slots=True)
class _Images:
    """The images since the last evaluation."""

    count: int
    totals: Floats
    """Sum over images of each channel's mean, ``(channels,)``."""

    @property
    def means(self) -> Floats:
        return self.totals / self.count


class CheckInputImages(Rule, frozen=True, kw_only=True):
    """Fires when a channel of the input images has a mean far from zero, so that they are not normalized.

    Why it matters:
        Networks are initialized, and pretrained networks were trained, for inputs around zero. Images of 0 to 255
        or 0 to 1 make the outputs of the first layer large or one-sided, and the training slow or unstable.
    How it decides:
        The mean of each channel is taken over all images and pixels of the captured steps until there are
        ``threshold_samples`` images. Then it fires if ``abs(mean) > threshold_mean`` for any channel, and the
        counts are reset.
    Not a number:
        A channel whose mean is NaN or infinite is not evaluated (see ``exploding_tensor``); undecided if all are.
    Blind spots:
        Images that the model's own first layer normalizes fire as well. The spread is not evaluated (see
        ``unscaled_input``). Only tensors of four dimensions count as images.
    Args:
        threshold_mean: Largest absolute mean of a channel that is not a finding, > 0, in the unit of the image.
        threshold_samples: Images that are required for an evaluation, >= 1.
        regex: Regular expression (``re.search``) for the input; with the default the model's own first input is
            evaluated as well.
        channel: Dimension of the channels, >= 1: 1 for (images, channels, height, width). For another dimension the
            raw images are stored at the captured steps, since no statistic has their means.
    Source:
        SageMaker developer guide, "CheckInputImages".
    """

    explains: ClassVar[tuple[str, ...]] = ("saturated_activation", "dead_relu", "poor_weight_initialization")

    threshold_mean: PositiveFloat = 0.2
    threshold_samples: PositiveInt = 64
    regex: str = _DEFAULT
    channel: Annotated[int, msgspec.Meta(ge=1, le=3)] = _UNIT_AXIS

    def check(self) -> None:
        check_pattern(self.name, "regex", self.regex)

    def needs(self) -> Needs:
        is_raw = self.channel != _UNIT_AXIS
        statistics = () if is_raw else ("unit_mean",)
        named = TensorNeed(regex=self.regex, statistics=statistics, raw=is_raw)
        if self.regex != _DEFAULT:
            return Needs((named,))
        return Needs((named, TensorNeed("inputs", regex="_input_0$", statistics=statistics, raw=is_raw)))

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Images]:
        known: dict[_Key, _Images] = {
            key: images for key, images in (memory or {}).items() if images.count < self.threshold_samples
        }
        for key, count, means in self._images(window):
            before = known.get(key)
            fits = before is not None and before.totals.shape == means.shape
            total = means * count + (before.totals if before is not None and fits else 0.0)
            known[key] = _Images(count + (before.count if before is not None and fits else 0), total)
        return known

    def evaluate(self, window: Window) -> Verdict:
        keys = [key for key, _, _ in self._images(window)]
        if not keys:
            return Undecided("no input at this step has the shape of images")
        complete = [key for key in keys if window.memory[key].count >= self.threshold_samples]
        if not complete:
            count = max(window.memory[key].count for key in keys)
            return too_few(count, self.threshold_samples, "images")
        is_judged = False
        for key in complete:
            means = window.memory[key].means
            known = {index: mean for index, mean in enumerate(means.tolist()) if abs(mean) < float("inf")}
            is_judged = is_judged or bool(known)
            worst = max(known, key=lambda index: abs(known[index]), default=None)
            if worst is not None and abs(known[worst]) > self.threshold_mean:
                return self._fired(key, worst, means.tolist(), window.memory[key].count)
        if not is_judged:
            return Undecided("no channel of the images had a finite mean")
        return clear_if_complete(window, "inputs")

    def _images(self, window: Window) -> Iterator[tuple[_Key, int, Floats]]:
        """Yield worker and tensor, number of images, and means of the channels ``(channels,)``."""
        if self.channel == _UNIT_AXIS:
            for vector in window.vectors("unit_mean"):
                if len(vector.shape) == _IMAGE_DIMENSIONS and vector.shape[0]:
                    yield (vector.worker, vector.tensor), vector.shape[0], vector.values
            return
        import numpy as np

        for array in window.arrays():
            values = array.load()
            if values.ndim == _IMAGE_DIMENSIONS and values.size:
                others = tuple(axis for axis in range(values.ndim) if axis != self.channel)
                yield (array.worker, array.tensor), values.shape[0], values.astype(np.float64).mean(axis=others)

    def _fired(self, key: _Key, channel: int, means: list[float], count: int) -> Fired:
        worker, tensor = key
        return fired(
            f"{tensor}: the mean of channel {channel} over {count:,} images is {significant(means[channel])}, beyond "
            f"{exact(self.threshold_mean)}",
            tensor,
            advice=_ADVICE,
            evidence={"channel": channel, "means": means, "images": count, "threshold": self.threshold_mean},
            worker=worker,
        )
