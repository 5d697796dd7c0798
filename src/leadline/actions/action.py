"""What an action is: where it runs, what it takes, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import msgspec

from leadline.config.parameters import check_parameters
from leadline.records.notification import Notification

Place = Literal["worker", "agent", "judge"]

EVERY_STATUS = "*"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far a worker is known to be."""

    worker: str
    step: int
    """The last global step that is known to be finished; -1 before the first."""
    time_ns: int
    """When it was finished, as recorded."""
    seconds_per_step: float
    """Its pace lately; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class ActionContext:
    """What an action is told when it runs."""

    run: str
    """The run's folder."""
    notice: Notification
    workers: tuple[TrainingProgress, ...]
    """Those that still run."""
    now_ns: int
    follows: str = "*"
    """Of whom the action is told: a rule of the run, ``*`` or ``job``."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action did."""

    outcome: str
    """In one line: ``asked to stop at step 1314``."""
    step: int | None = None
    """The step at which it takes effect."""
    request: str | None = None
    """The id of the control request, where it made one; its acknowledgement is the action's final outcome."""
    announcement: str | None = None
    """What the terminal says behind the finding: ``stopping at step 1314``."""
    is_nothing: bool = False
    """Whether there was nothing to do."""


class RejectedError(Exception):
    """The other side said no for good: to try again would change nothing (HTTP 404, a wrong password)."""


class RetryLaterError(Exception):
    """The other side asks to be left alone for a while.

    Attributes:
        after_seconds: How long, as it said; None: it did not say. The next try comes not earlier, at most 60 s later.
    """

    def __init__(self, message: str, after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An action; its fields are its parameters.

    **Checked before the start**
    ``check`` refuses what cannot work (a missing extra, a malformed URL, a target that does not answer).

    **Where it runs**
    ``place`` worker or agent: ``run`` only writes a control request, at once and in the judge. ``place`` judge: ``run``
    talks to others, in a process of its own that lives from the first notice to the end of the run, may be killed
    when it takes longer than ``timeout``, and is handed one notice after the other, in their order.

    **Runs once for a notice**
    What it did stands in ``actions.jsonl``, and is not repeated by a judge that begins again.

    **May fail**
    Whatever it raises is tried again after ``backoff`` seconds, then twice as many, … ``retries`` times; a
    ``RejectedError`` is not. What it came to is written down and told; judging goes on.

    **Secrets**
    A text parameter may hold ``$NAME`` or ``${NAME}``. ``check`` and ``run`` see an instance with the values in place;
    the run directory, the logs and all outcomes see the names.

    Args:
        dry_run: Only write down what would be done.
        cooldown: Seconds after it was done for a rule during which it is not done again for that rule, >= 0.
        episodes: ``every``: each finding, ``once``: only the first of each rule.
        retries: How often it is tried again after a failure, >= 0.
        backoff: Seconds before the first new try, > 0; each further wait is twice as long, at most 60 s.
        timeout: Seconds that one try may take, > 0.
    """

    place: ClassVar[Place] = "judge"
    """Where it takes effect."""
    target: ClassVar[str | None] = None
    """The parameter that the text right behind the action's name gives: ``notify:$MAIL``; None: there is none."""
    statuses: ClassVar[tuple[str, ...]] = ("IssuesFound",)
    """The statuses that it follows where ``--on`` names none; ``*`` is every one, closings included."""
    extra: ClassVar[str | None] = None
    """The extra that it needs: ``notify``."""
    verbatim: ClassVar[tuple[str, ...]] = ()
    """Text parameters whose ``$NAME`` is not ours to resolve: a shell does it."""
    wants_snapshot: ClassVar[bool] = True
    """Whether the notice of a finding shall bear what was captured of its tensors."""
    is_volatile: ClassVar[bool] = False
    """Whether what it did is gone with its process (a gauge): a judge that begins again tells it all again."""

    dry_run: bool = False
    cooldown: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    episodes: Literal["every", "once"] = "every"
    retries: Annotated[int, msgspec.Meta(ge=0)] = 5
    backoff: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 30.0

    def __post_init__(self) -> None:
        check_parameters(self)

    def check(self) -> None:
        """Refuse what cannot work; called before the start, with the secrets in place.

        Raises:
            ConfigurationError: It cannot work.
            MissingExtraError: What it needs is not installed.
        """

    def describe(self, occasion: ActionContext) -> str:
        """What would be done, in one line: for a dry run."""
        return f"would run {type(self).__name__}"

    def run(self, occasion: ActionContext) -> Outcome:
        """Do it.

        Raises:
            RejectedError: It was refused for good.
            Exception: Anything; it is tried again.
        """
        raise NotImplementedError

    def close(self) -> None:
        """The run has ended, and no further notice comes: let go of what is held (a server, a client)."""
