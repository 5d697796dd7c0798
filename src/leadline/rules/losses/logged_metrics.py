"""What a script has logged so far, by the roles of the metrics."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from leadline.records.formatting import listed, significant
from leadline.records.metric_roles import REWARD, ROLES, role_in
from leadline.rules import Needs, NotApplicable, TensorNeed, TensorReading, Undecided, Window
from leadline.rules.losses.block_means import BlockMeans
from leadline.rules.robust import NORMAL_MAD, mad, mann_kendall

MIN_VALUES: Final = 20
"""The values of a metric that a rule needs."""
_AT_START: Final = 10
_ABOVE: Final = 0.852
"""The share of pairs of which the later value is larger: of 20 and 10 values a normal score of 3.09."""
_MODES: Final = ("train", "eval", "global")
_COLLECTIONS: Final = frozenset({"metrics", "scalars"})
_FIRST_STEPS: Final = 2
_MAX_UNKNOWN: Final = 8
NEEDS: Final = Needs(
    (
        *(TensorNeed(name, statistics=("value",), modes=_MODES, is_optional=True) for name in sorted(_COLLECTIONS)),
        TensorNeed("losses", statistics=("value",), modes=("train",), end=_FIRST_STEPS, is_optional=True),
    )
)
"""All logged metrics, and the first losses: at these steps a rule says that it does not apply."""


@dataclass(frozen=True, slots=True)
class Level:
    """The level of a metric: the median of 20 values in a row."""

    value: float
    noise: float
    """The robust standard deviation of these values."""
    step: int
    """The train step of the last one."""


@dataclass(slots=True)
class LoggedMetric:
    """A metric with a role, of one worker; only finite values count."""

    name: str
    worker: str
    role: str
    first: list[float] = field(default_factory=list)
    latest: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=MIN_VALUES))
    """The train step and the value of the latest ones."""
    blocks: BlockMeans = field(default_factory=BlockMeans)
    best: Level | None = None
    """The highest level so far, where ``note_best`` is called at each value."""
    bad: str = ""
    """What the latest value is: ``NaN`` (also of infinity), ``0``, or empty."""
    in_a_row: int = 0
    """How many values in a row, up to the latest, are bad like that."""
    bad_since: int = 0
    """The train step of the first of them."""
    before: float = 0.0
    """The latest value that is finite and not 0."""

    def note(self, value: float, train_step: int) -> None:
        """Add a value; one that is not finite only counts as bad."""
        bad = "NaN" if not math.isfinite(value) else "" if value else "0"
        if not bad or bad != self.bad:
            self.bad, self.in_a_row, self.bad_since = bad, 0, train_step
        if bad:
            self.in_a_row += 1
        else:
            self.before = value
        if bad != "NaN":
            self.add(value, train_step)

    def add(self, value: float, train_step: int) -> None:
        """Add a finite value."""
        if len(self.first) < MIN_VALUES:
            self.first.append(value)
        self.latest.append((train_step, value))
        self.blocks.add(value, train_step)

    @property
    def count(self) -> int:
        """The number of values."""
        return self.blocks.values

    @property
    def values(self) -> list[float]:
        """The latest values."""
        return [value for _, value in self.latest]

    def has_risen(self, p: float = 0.05, *, lately: bool = False) -> bool:
        """Return whether it has risen since the start, or in the last half, by the Mann-Kendall test at ``p``."""
        return mann_kendall(self.blocks.last_half if lately else self.blocks.means).p_of_rising() < p

    def is_above_start(self) -> bool:
        """Return whether the latest 20 values are above the first 10, by the rank-sum test at 0.001.

        A rise that was over soon is not found in the whole course, most of which is level.
        """
        first, values = self.first[:_AT_START], self.values
        pairs = [(value > before) + (value == before) / 2 for value in values for before in first]
        return self.count >= _AT_START + MIN_VALUES and sum(pairs) >= _ABOVE * len(pairs)

    def level(self) -> Level | None:
        """Return the level of the latest values; None before there are 20."""
        values = self.values
        if len(values) < MIN_VALUES:
            return None
        level = median(values)
        return Level(level, NORMAL_MAD * mad(values, level), self.latest[-1][0])

    def note_best(self) -> None:
        """Note the level of the latest values if it is the highest so far."""
        level = self.level()
        if level is not None and (self.best is None or level.value > self.best.value):
            self.best = level

    def course(self) -> str:
        """Return ``reward 0.1 → 0.3``: the medians of the first and of the latest values."""
        return f"{self.name} {significant(median(self.first))} → {significant(median(self.values))}"


@dataclass(slots=True)
class LoggedMetrics:
    """All metrics with a role, and the names of some without."""

    metrics: dict[tuple[str, str], LoggedMetric] = field(default_factory=dict)
    """By worker and name."""
    unknown: dict[str, None] = field(default_factory=dict)

    @staticmethod
    def noted(memory: LoggedMetrics | None, window: Window) -> LoggedMetrics:
        """Return the metrics with those of a window added."""
        known = memory or LoggedMetrics()
        for reading in logged(window):
            role = role_in(reading.collections)
            if not role:
                known._note_unknown(reading.tensor)
                continue
            key = (reading.worker, reading.tensor)
            metric = known.metrics.setdefault(key, LoggedMetric(reading.tensor, reading.worker, role))
            metric.note(reading.value, window.step)
        return known

    def _note_unknown(self, name: str) -> None:
        if len(self.unknown) <= _MAX_UNKNOWN:
            self.unknown[name] = None

    def of(self, *roles: str) -> list[LoggedMetric]:
        """Return the metrics with one of these roles."""
        return [metric for metric in self.metrics.values() if metric.role in roles]

    def here(self, window: Window, *roles: str) -> Iterator[LoggedMetric]:
        """Yield the metrics with one of these roles that were logged at a step."""
        for reading in logged(window):
            if role_in(reading.collections) in roles:
                yield self.metrics[reading.worker, reading.tensor]

    def reward(self) -> LoggedMetric | None:
        """Return the reward with the most values; None: none is logged."""
        return max(self.of(REWARD), key=lambda metric: metric.count, default=None)

    def absent(self, *roles: str) -> NotApplicable | Undecided:
        """Return the verdict on a step at which no metric with one of these roles was logged."""
        if self.of(*roles):
            return Undecided(f"no {_described(roles)} was logged at this step")
        return NotApplicable(f"no {_described(roles)} was logged")

    def lacking(self, role: str, metric: LoggedMetric) -> Undecided:
        """Return the verdict on a metric that cannot be judged without one with another role."""
        reason = f"{metric.name} is judged together with a metric of the role {role}, and none was logged"
        if not self.unknown:
            return Undecided(reason)
        names = list(self.unknown)
        shown = [*names[:_MAX_UNKNOWN], *(["others"] if len(names) > _MAX_UNKNOWN else [])]
        return Undecided(f"{reason}; of unknown role: {listed(shown)}")


def logged(window: Window) -> Iterable[TensorReading]:
    """Return the readings of the metrics and scalars of a window."""
    return [reading for reading in window.readings("value") if not _COLLECTIONS.isdisjoint(reading.collections)]


def _described(roles: Iterable[str]) -> str:
    return " or ".join(ROLES[role].partition(",")[0] for role in roles)
