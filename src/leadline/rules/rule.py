"""What a rule is: parameters, what it needs to see, and a verdict on what it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from leadline.config.parameters import check_parameters, display_name
from leadline.records.needs import Needs
from leadline.records.verdict import Verdict

if TYPE_CHECKING:
    from leadline.reader.window import Window


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule; its fields are its parameters, checked whenever one is made.

    **A pure verdict**
    It depends on the fields and the window alone: no clock, no file, no state of its own, so that a run judged
    live, afterwards and again gives the same. What must be known of earlier windows is their readings
    (``window.earlier``), or what ``remember`` made of them (``window.memory``).

    **Data that are not there**
    A rule that cannot see what it needs says ``Undecided`` and why, never ``Clear``.

    Example:
        >>> class LossAbove(Rule):
        ...     limit: float = 3.0
        ...     def needs(self):
        ...         return Needs.of("losses", "value")
        ...     def evaluate(self, window):
        ...         for each in window.readings("value"):
        ...             if each.value > self.limit:
        ...                 return Fired(f"{each.tensor} is {each.value:.3g}", tensors=(each.tensor,))
        ...         return Clear()

    Attributes:
        explains: Names of rules whose findings are of the same cause where this one fired before them; the verdict
            then leads with this one.
        product: A report that the judge keeps up to date in the run while the rule is judged (``profiling``,
            ``xgboost``); "": none.
    """

    explains: ClassVar[tuple[str, ...]] = ()
    product: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_parameters(self)
        self.check()

    @property
    def name(self) -> str:
        """The rule's own name."""
        return display_name(type(self))

    def check(self) -> None:
        """Refuse parameters that are right each by itself but not together.

        Raises:
            ConfigurationError: They are.
        """

    def needs(self) -> Needs:
        """What is captured for the rule, and what its windows hold."""
        raise NotImplementedError

    def remember(self, memory: Any, window: Window) -> Any:
        """What is kept of the windows so far: a fold over them, for counts, best values and runs of steps.

        Asked once for each window, before ``evaluate``, which finds the result as ``window.memory``. Like a verdict
        it depends on its arguments and the fields alone.

        Args:
            memory: What the window before gave; None at the first.
        """
        return None

    def evaluate(self, window: Window) -> Verdict:
        """The verdict on one step (or moment, for a rule of time) at which something that it needs is there."""
        raise NotImplementedError

    def implied_actions(self, run_name: str) -> tuple[str, ...]:
        """Actions that the parameters themselves ask for, by name."""
        return ()
