"""Two training losses of which one has won: it is nearly 0, and the other one has risen."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from leadline.records import loss_facts as facts
from leadline.records.formatting import significant
from leadline.records.loss_facts import REGRESSION
from leadline.rules.losses.given_loss import GivenLoss

_FIRST: Final = 10
_LAST: Final = 30
_MIN_VALUES: Final = 50
_WON: Final = 0.05
"""Of its first values, below which a loss is nearly 0."""
_LOST: Final = 3.0
"""Times its first values, above which the other one has risen."""


@dataclass(slots=True)
class EndsOfLoss:
    """The first and the last values of a training loss."""

    count: int = 0
    first: list[float] = field(default_factory=list)
    last: deque[float] = field(default_factory=lambda: deque(maxlen=_LAST))
    equal: int = 0
    """The number of the latest values in a row that are the same, to the bit."""
    since: int = -1
    """The train step of the first of these."""
    step: int = -1
    """That of the latest one."""

    def add(self, value: float, step: int) -> None:
        """Add a finite value of a train step."""
        is_equal = bool(self.last) and value == self.last[-1]
        self.equal, self.since, self.step = (self.equal + 1, self.since, step) if is_equal else (1, step, step)
        self.count += 1
        if len(self.first) < _FIRST:
            self.first.append(value)
        self.last.append(value)

    @property
    def is_known(self) -> bool:
        """Whether there are enough values, and the loss began above 0."""
        return self.count >= _MIN_VALUES and median(self.first) > 0 and min(self.last) >= 0

    @property
    def change(self) -> float:
        """The median of the last values, as a multiple of that of the first ones."""
        return median(self.last) / median(self.first)


def has_values_to_fit(loss: GivenLoss) -> bool:
    """Return whether a loss is a regression of labels that vary, as that of a critic, whose actor has another loss."""
    low, high = loss.number(facts.LABEL_MIN), loss.number(facts.LABEL_MAX)
    return (
        loss.kind in REGRESSION
        and loss.is_known(facts.LABEL_MIN)
        and low < high
        and not loss.has(facts.ARE_LABELS_BINARY)
    )


def remark(losses: Mapping[str, EndsOfLoss]) -> str:
    """Return the remark on the training losses of a worker, by name; empty: none has won over another one."""
    known = {name: ends for name, ends in losses.items() if ends.is_known}
    won = [name for name, ends in known.items() if ends.change < _WON]
    lost = [name for name, ends in known.items() if ends.change > _LOST]
    if not won or not lost:
        return ""
    low, high = known[won[0]], known[lost[0]]
    return (
        f"{won[0]} has fallen to {significant(median(low.last))}, and {lost[0]} has risen from "
        f"{significant(median(high.first))} to {significant(median(high.last))}: of two networks that compete, one has "
        "won, and the other one learns nothing from it; fewer steps or a lower rate for the winner, or the reverse for "
        "the other"
    )
