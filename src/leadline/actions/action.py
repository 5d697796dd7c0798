"""The base class of actions, with the context that they receive and the outcome that they return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import msgspec

from leadline.config.parameters import check_parameters
from leadline.records.notification import Notification

Place = Literal["worker", "agent", "judge"]


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of a worker, as far as it is known."""

    worker: str
    step: int
    """The last global step that is known to be complete; -1 before the first."""
    time_ns: int
    """When it was completed, as recorded."""
    seconds_per_step: float
    """The recent duration of a step; 0: unknown."""
    train_step: int = -1
    """The last train step that is known to be complete; -1 before the first."""
    is_average: bool = False
    """Whether the duration is that of all steps on average, of which the first take longest."""


@dataclass(frozen=True, slots=True)
class ActionContext:
    """Everything that an action is given when it runs."""

    run: str
    """The run directory."""
    notification: Notification
    workers: tuple[TrainingProgress, ...]
    """The workers that are still running."""
    now_ns: int
    follows: str = "*"
    """The rule that the action follows: its name, ``*`` or ``job``."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action."""

    outcome: str
    """One line: ``stop requested at step 1314``."""
    step: int | None = None
    """The step at which it takes effect."""
    request: str | None = None
    """The id of the control request, if it made one; its acknowledgement is the final outcome of the action."""
    announcement: str | None = None
    """The text that the terminal shows after the finding: ``stopping at the next step``."""
    is_nothing: bool = False
    """Whether there was nothing to do."""


class RejectedError(Exception):
    """The target refused for good, so that a retry would not help (HTTP 404, a wrong password)."""


class RetryLaterError(Exception):
    """The target asks for a pause before the next attempt.

    Attributes:
        after_seconds: The requested pause, of which at most 60 s are respected; None: unspecified.
    """

    def __init__(self, message: str, after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An action; its fields are its parameters.

    **Checked before the start**
    ``check`` refuses what cannot work (a missing extra, a malformed URL, a target that does not answer).

    **Where it runs**
    ``place`` worker or agent: ``run`` only writes a control request, at once and inside the judge. ``place`` judge:
    ``run`` communicates with other systems, in a process of its own that exists from the first notification to the
    end of the run. The process receives one notification at a time, in order, and is killed after ``timeout``.

    **Runs once per notification**
    The outcome is logged in ``actions.jsonl``; a restarted judge does not repeat the action.

    **May fail**
    After an exception the action is retried after ``backoff`` seconds, then twice as many, … up to ``retries`` times,
    except after a ``RejectedError``. The outcome is logged and reported; the evaluation of the rules continues.

    **Secrets**
    A text parameter may contain ``$NAME`` or ``${NAME}``. ``check`` and ``run`` see an instance with the values filled
    in; the run directory, the logs and all outcomes contain only the names.

    Args:
        dry_run: Only log and announce what would be done; no server needs to answer.
        cooldown: Seconds after a delivery for a rule during which further findings of it are skipped, >= 0.
        episodes: ``every``: every finding, ``once``: only the first of each rule.
        retries: The maximal number of retries after a failure, >= 0.
        backoff: Seconds before the first retry, > 0; doubled for each further one, at most 60 s.
        timeout: The time limit of one attempt in seconds, > 0.
    """

    place: ClassVar[Place] = "judge"
    """Where it takes effect."""
    target: ClassVar[str | None] = None
    """The parameter that the text after the action's name sets: ``notify:$MAIL``; None: there is none."""
    statuses: ClassVar[tuple[str, ...]] = ("IssuesFound",)
    """The statuses that it follows if ``--on`` names none; ``*`` is every status, and closed findings."""
    extra: ClassVar[str | None] = None
    """The extra that must be installed: ``notify``."""
    verbatim: ClassVar[tuple[str, ...]] = ()
    """Text parameters in which ``$NAME`` is not replaced by Leadline: a shell does it."""
    wants_snapshot: ClassVar[bool] = True
    """Whether the notification of a finding should contain snapshots of its tensors."""
    affects_training: ClassVar[bool] = False
    """Whether it affects the training itself, so that its rules should see as many steps as is cheap."""
    is_volatile: ClassVar[bool] = False
    """Whether the effect ends with the process (a gauge), so that a restarted judge must repeat everything."""

    dry_run: bool = False
    cooldown: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    episodes: Literal["every", "once"] = "every"
    retries: Annotated[int, msgspec.Meta(ge=0)] = 5
    backoff: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 30.0

    def __post_init__(self) -> None:
        check_parameters(self)

    def check(self) -> None:
        """Refuse what cannot work; called before the start, with the secrets filled in.

        Raises:
            ConfigurationError: It cannot work.
            MissingExtraError: A package that it needs is not installed.
        """

    def describe(self, context: ActionContext) -> str:
        """Return what would be done, in one line, for a dry run."""
        return f"would run {type(self).__name__}"

    def run(self, context: ActionContext) -> Outcome:
        """Perform the action.

        Raises:
            RejectedError: It was refused for good.
            Exception: Any other failure; the action is retried.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release all resources (a server, a client): the run has ended, and no more notifications follow."""
