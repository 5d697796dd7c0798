"""The tracker for Accelerate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelerate import PartialState
from accelerate.tracking import GeneralTracker

from leadline.integrations.watched_loop import begin_session
from leadline.training.session import api


class LeadlineTracker(GeneralTracker):  # type: ignore[misc] # accelerate is not imported for types
    """Watch what a script trains, and record what it logs: ``Accelerator(log_with=LeadlineTracker())``.

    It stands beside other trackers, whose values are recorded once. Accelerate has no loop of its own: a stop ends the
    script as without the tracker, and its plan is the hyperparameter ``max_train_steps``, where ``init_trackers`` is
    given one, as by the example scripts of Transformers and Diffusers.

    Args:
        options: As for ``leadline.watch``; under ``leadline run`` those of its command line count.
    """

    name = "leadline"
    requires_logging_directory = False
    main_process_only = False  # each rank is a worker of the run

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options

    def start(self) -> None:
        """Begin to watch; Accelerate calls it by ``init_trackers``."""
        begin_session(self._options)

    @property
    def tracker(self) -> str | None:
        """The run directory; None if nothing is captured."""
        session = api.current()
        return session.run if session is not None else None

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Record the hyperparameters that ``init_trackers`` is given."""
        session = begin_session(self._options)  # older versions of Accelerate do not call ``start``
        if session is not None:
            session.guard.run(session.trainer.note_hyperparameters, values)
            steps = values.get("max_train_steps")
            if isinstance(steps, int) and steps > 0 and not values.get("resume_from_checkpoint"):
                session.guard.run(session.trainer.plan, steps)

    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Record metrics of the current step, as the main process logs them.

        Args:
            step: The script's own count; what Leadline captures has its own.
        """
        session = api.current()
        if session is not None and PartialState().is_main_process:
            session.log_metrics(values)

    def finish(self) -> None:
        """Do nothing: the run ends with the process, or with the next run."""
