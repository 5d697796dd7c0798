"""The observer of the calls in this process."""

from __future__ import annotations

from typing import Final

from leadline.frameworks.jax.steps import TrainingSteps
from leadline.instrumentation.guard import Guard


class ProcessWatch:
    """Wrapped functions outlive a session and report to the next one.

    Attributes:
        steps: The steps of the training; None: nothing is observed.
        guard: The guard of the session.
    """

    def __init__(self) -> None:
        self.steps: TrainingSteps | None = None
        self.guard = Guard(lambda _: None)


WATCH: Final = ProcessWatch()
