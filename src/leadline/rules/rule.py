"""Base class of all rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from leadline.config.parameters import check_parameters, display_name
from leadline.errors import ConfigurationError
from leadline.records.json_object import JsonObject
from leadline.records.names import SEVERITIES, Severity
from leadline.records.needs import Needs
from leadline.records.verdict import Fired, Verdict

if TYPE_CHECKING:
    from leadline.reader.window import Window


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A named check that is evaluated on a run; its fields are its parameters, validated on construction.

    **A pure verdict**
    The verdict depends only on the fields and the window: no clock, no file, no state in the rule. So a run gets the
    same verdicts live, afterwards and when evaluated again. Earlier windows are available as their readings
    (``window.earlier``) or as the result of ``remember`` (``window.memory``).

    **Missing data**
    A rule without the data that it needs returns ``Undecided`` with the reason, never ``Clear``. A rule that can be
    clear without one of the collections that it needs declares that need as optional.

    **Trainings**
    A script may train several models in one process, or one in several stages. At each new one, windows, memory and
    observations start over; see ``spans_trainings``.

    **Enough observations**
    A rule is clear after ``least_observations`` windows with its data, however far apart they were captured.

    Example:
        >>> class LossAbove(Rule):
        ...     limit: float = 3.0
        ...     def needs(self):
        ...         return Needs.of("losses", "value")
        ...     def evaluate(self, window):
        ...         for reading in window.readings("value"):
        ...             if reading.value > self.limit:
        ...                 return Fired(f"{reading.tensor} is {reading.value:.3g}", tensors=(reading.tensor,))
        ...         return Clear()

    Attributes:
        severity: How severe its findings are: ``fatal`` (the training is worthless from there on), ``warning`` (the
            model suffers, or may) or ``advice`` (time and hardware are wasted, or the model could be better). Findings
            are ranked by it.
        explains: Names of rules whose findings have the same cause if what this rule found began before they fired
            (``Fired.since_step``); they are then folded under it.
        spans_trainings: Whether it follows the process, such as its memory, through all trainings. Rules that are
            evaluated over time do.
        passes: Whether a finding that is over is no problem any more, as that of a loss which has fallen after all: it
            is shown as advice then.
        product: A report that the judge keeps up to date in the run directory while the rule is evaluated
            (``profiling``, ``xgboost``); "": none.
    """

    severity: ClassVar[Severity] = "warning"
    explains: ClassVar[tuple[str, ...]] = ()
    product: ClassVar[str] = ""
    spans_trainings: ClassVar[bool] = False
    passes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ConfigurationError(
                f"{self.name}: the severity {self.severity!r} does not exist; it is one of {', '.join(SEVERITIES)}"
            )
        check_parameters(self)
        self.check()

    @property
    def name(self) -> str:
        """The name of the rule."""
        return display_name(type(self))

    @property
    def least_observations(self) -> int:
        """The number of windows with the rule's data that it must have seen to be clear."""
        return 1

    def check(self) -> None:
        """Reject combinations of parameters that are invalid together.

        Raises:
            ConfigurationError: The combination is invalid.
        """

    def needs(self) -> Needs:
        """Return what is captured for the rule; its windows contain this data."""
        raise NotImplementedError

    def remember(self, memory: Any, window: Window) -> Any:
        """Update the memory of the windows so far, such as counts, best values and streaks of steps.

        Called once for each window, before ``evaluate``, which finds the result as ``window.memory``. Like a verdict,
        the result depends only on the arguments and the fields.

        Args:
            memory: The result for the previous window; None for the first one.
        """
        return None

    def evaluate(self, window: Window) -> Verdict:
        """Return the verdict on a window: a step, or a moment for a time-based rule, with data that the rule needs."""
        raise NotImplementedError

    def conclude(self, memory: Any) -> Fired | None:
        """Return the finding of a run that has ended, where the rule found none before its last data; None: none.

        Called once, when nothing follows any more, unless a finding is open.

        Args:
            memory: The result of ``remember`` for the last window.
        """
        return None

    def summarize(self, memory: Any) -> JsonObject:
        """Return what was found of the training so far beside the verdict, such as ``remarks`` for its outcome.

        Called when verdicts are written, not at every window. A verdict may have a ``product``, too.

        Args:
            memory: The result of ``remember`` for the last window.
        """
        return {}

    def implied_actions(self, run_name: str) -> tuple[str, ...]:
        """Return the names of actions that the parameters of the rule request."""
        return ()
