"""What the trainers of Transformers and Lightning watch in order to keep the best model, or to stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leadline.frameworks.kit.watched_metrics import Watched, checks_of, of_callbacks
from leadline.frameworks.torch.capture.step_count import running_trainer


def watched_metrics() -> dict[str, float]:
    """Return the checks of what the trainer among the callers watches the wrong way round."""
    trainer = running_trainer()
    return checks_of([*of_callbacks(getattr(trainer, "callbacks", None)), *_of_arguments(trainer)])


def _of_arguments(trainer: Any) -> Iterator[Watched]:
    """Yield the metric of the best model, if the arguments of a trainer of Transformers name one."""
    arguments = getattr(trainer, "args", None)
    metric, upwards = (getattr(arguments, name, None) for name in ("metric_for_best_model", "greater_is_better"))
    if isinstance(metric, str) and isinstance(upwards, bool):
        yield type(arguments).__name__, metric, upwards
