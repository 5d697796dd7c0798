"""What becomes of the numbers that a script prints: which are metrics, and which are captured already."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from leadline.formats.named_numbers import MAX_CHARACTERS, NamedNumber, named_numbers, number_of
from leadline.instrumentation.guard import Facts
from leadline.records.metric_names import PRINTED, is_loss, kind_of, stem_of

MAX_PATTERN_CHARACTERS: Final = 500
"""Of a line, for the expressions of ``[metrics]``: what a user writes may take time with a power of the length."""
_MAX_NAMES: Final = 64
_MAX_OTHERS: Final = 16
"""Names that are those of no known metric."""
_DIGIT: Final = re.compile(r"\d|nan|inf")


class PrintedSink(Protocol):
    """The parts of ``leadline.training.recorder.given_values.GivenValues`` that printed numbers use."""

    def log(self, values: Mapping[str, Any], collection: str, marks: tuple[str, ...] = ()) -> int:
        """Record numbers; return the global step to which they belong."""

    def place(self, name: str) -> tuple[str, int]:
        """Return the mode and the global step to which a printed number belongs now."""

    def has_losses(self, mode: str) -> bool:
        """Return whether losses of a mode have been captured."""

    def logged_names(self) -> frozenset[str]:
        """Return the names that were logged, not printed."""

    def withdraw(self, name: str) -> None:
        """Forget a printed number that is not written yet."""


class PrintedValues:
    """Records printed numbers by name; each call runs within a fact, which fails alone.

    **Once** - what is logged, too, or is a captured loss, is not recorded.

    **No guess** - only a number that is surely a metric of the model is one of ``metrics``: others are ``scalars``,
    which no rule judges.

    Args:
        settle: Makes the calls of earlier steps that were deferred.
        patterns: Regular expressions with one group, by the name of their metric.
    """

    def __init__(
        self, sink: PrintedSink, facts: Facts, settle: Callable[[], object], patterns: Mapping[str, str]
    ) -> None:
        self._sink, self._settle = sink, settle
        self._fact = facts.of("printed numbers are", is_vital=True)
        self._patterns = {name: re.compile(pattern) for name, pattern in patterns.items()}
        self._known: dict[str, tuple[str, int, float]] = {}
        """By printed name the mode, step and value of the last one."""
        self._doubtful: set[tuple[str, str]] = set()
        """Names by mode of which it is not known what they are."""
        self._others: set[str] = set()
        self._logged: dict[frozenset[str], set[str]] = {}
        """Roles by the other words of the names that are logged."""
        self._logged_names: frozenset[str] = frozenset()

    @property
    def has_patterns(self) -> bool:
        """Whether the user has given expressions, which apply to what libraries print, too."""
        return bool(self._patterns)

    def read_line(self, line: str, *, is_of_script: bool = True) -> None:
        """Read a line of text."""
        if _DIGIT.search(line, 0, MAX_CHARACTERS) is not None:
            self._fact.call(self._read_line, line, is_of_script)

    def read_values(self, values: Mapping[str, Any], *, only_metrics: bool = False) -> None:
        """Read numbers that have names; texts are read where they are numbers.

        Args:
            only_metrics: Whether names that are those of no metric are left out.
        """
        self._fact.call(self._read_values, values, only_metrics)

    def note_logged(self) -> None:
        """Withdraw printed numbers that were now logged, too."""
        if self._known:
            self._fact.call(self._find_logged)

    def _read_line(self, line: str, is_of_script: bool) -> None:
        taken = self._match(line[:MAX_PATTERN_CHARACTERS])
        if is_of_script:
            self._record(number for number in named_numbers(line) if number.start not in taken)

    def _match(self, line: str) -> set[int]:
        """Record what the user's expressions find; return where the numbers begin."""
        taken: set[int] = set()
        for name, pattern in self._patterns.items():
            match = pattern.search(line)
            number = number_of(match[1]) if match is not None and match[1] is not None else None
            if match is not None and number is not None:
                taken.add(match.start(1))
                self._settle()
                self._sink.log({name: number}, "metrics", (PRINTED,))
        return taken

    def _read_values(self, values: Mapping[str, Any], only_metrics: bool) -> None:
        numbers = ((name, number_of(value) if isinstance(value, str) else value) for name, value in values.items())
        named = [NamedNumber(name, value, 0, is_explicit=True) for name, value in numbers if value is not None]
        self._record(number for number in named if not only_metrics or kind_of(number.name) == "metric")

    def _record(self, numbers: Iterable[NamedNumber]) -> None:
        for number in numbers:
            kind = kind_of(number.name)
            if kind == "bookkeeping" or number.name in self._patterns:
                continue
            if kind == "other" and not (number.is_explicit and self._is_kept(number)):
                continue
            if kind == "metric" and (self._is_captured(number.name) or self._is_logged(number.name)):
                continue
            self._settle()
            self._log(number, *self._sink.place(number.name), is_metric=kind == "metric")

    def _is_kept(self, number: NamedNumber) -> bool:
        """Return whether a number of an unknown name is recorded: of the first names, and not for the first time."""
        if number.name in self._others:
            return True
        if len(self._others) < _MAX_OTHERS:
            self._others.add(number.name)
        return False

    def _log(self, number: NamedNumber, mode: str, step: int, *, is_metric: bool) -> None:
        name, value = number.name, number.value
        last = self._known.get(name)
        if last is None and len(self._known) >= _MAX_NAMES:
            return
        is_another = last is not None and last[:2] == (mode, step) and last[2] is not value and last[2] != value
        if not number.is_clear or is_another or stem_of(name)[0] == "train":
            self._doubtful.add((name, mode))
        self._known[name] = (mode, step, value)
        if is_metric and (name, mode) not in self._doubtful:
            self._sink.log({name: value}, "metrics", (PRINTED,))
        elif not isinstance(value, float) or value - value == 0.0:
            self._sink.log({name: value}, "scalars", (PRINTED,))

    def _is_captured(self, name: str) -> bool:
        """Return whether a name is that of a loss that is captured."""
        if not is_loss(name):
            return False
        return self._sink.has_losses("eval" if stem_of(name)[0] == "validation" else "train")

    def _is_logged(self, name: str) -> bool:
        if self._sink.logged_names() != self._logged_names:
            self._find_logged()
        role, stem = stem_of(name)
        roles = self._logged.get(stem, ())
        return bool(roles) and (not role or role in roles or "" in roles)

    def _find_logged(self) -> None:
        names = self._sink.logged_names()
        for name in names - self._logged_names:
            role, stem = stem_of(name)
            self._logged.setdefault(stem, set()).add(role)
        self._logged_names = names
        for name in list(self._known):
            if name not in self._patterns and self._is_logged(name):
                self._sink.withdraw(name)
                del self._known[name]
