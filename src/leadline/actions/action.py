"""What an action is: where it runs, what it takes, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

from leadline.config.parameters import check_parameters
from leadline.records.finding import Finding

Place = Literal["worker", "agent", "judge"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a worker is known to be."""

    worker: str
    step: int
    """The last global step that is known to be finished; -1 before the first."""
    time_ns: int
    """When it was finished, as recorded."""
    seconds_per_step: float
    """Its pace lately; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """What an action is told when it runs."""

    run: str
    """The run's folder."""
    finding: Finding
    workers: tuple[Progress, ...]
    """Those that still run."""
    now_ns: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action did."""

    outcome: str
    """In one line: ``asked to stop at step 1314``."""
    step: int | None = None
    """The step at which it takes effect."""
    request: str | None = None
    """The id of the control request, where it made one."""
    announcement: str | None = None
    """What the terminal says behind the finding: ``stopping at step 1314``."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An action; its fields are its parameters.

    **Checked before the start**
    ``check`` refuses what cannot work (a missing target, a program that is not there) before the training starts.

    **Runs once**
    When a finding opens; what it did stands in ``actions.jsonl``, and is not repeated by a judge that begins again.

    **May fail**
    Whatever it raises is written down as its outcome; judging goes on.
    """

    place: ClassVar[Place] = "judge"
    """Where it takes effect: in the workers and the agent by control request, or here."""

    def __post_init__(self) -> None:
        check_parameters(self)

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse what cannot work.

        Args:
            settings: Of the environment: ``{"environment": os.environ}``.
        Raises:
            ConfigurationError: It cannot work.
        """

    def run(self, occasion: Occasion) -> Outcome:
        """Do it.

        Raises:
            Exception: Anything; it is written down.
        """
        raise NotImplementedError
