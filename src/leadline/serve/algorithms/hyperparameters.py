"""Hyperparameters of a built-in algorithm: what each may be, and SageMaker's messages where it is something else."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.records.json_object import JsonObject
from leadline.serve.algorithms.errors import UserError


@dataclass(frozen=True, slots=True)
class Number:
    """A number of an interval."""

    lowest: float = float("-inf")
    highest: float = float("inf")
    is_integer: bool = False
    without_lowest: bool = False
    without_highest: bool = False

    def read(self, text: str) -> float | int:
        """Return the value of a text.

        Raises:
            ValueError: It has none, or one that is out of range; the message says which.
        """
        try:
            value = int(text) if self.is_integer else float(text)
        except ValueError:
            raise ValueError("could not parse value") from None
        is_low = value <= self.lowest if self.without_lowest else value < self.lowest
        is_high = value >= self.highest if self.without_highest else value > self.highest
        if is_low or is_high or value != value:
            raise ValueError(f"{text} is not in {self._interval()}")
        return value

    def _interval(self) -> str:
        low = "(-inf" if self.lowest == float("-inf") else f"{'(' if self.without_lowest else '['}{self.lowest}"
        high = "inf)" if self.highest == float("inf") else f"{self.highest}{')' if self.without_highest else ']'}"
        return f"{low}, {high}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several words."""

    words: tuple[str, ...]

    def read(self, text: str) -> str:
        """Return the word; see ``Number.read``."""
        if text not in self.words:
            raise ValueError(f"{text} is not in [{', '.join(self.words)}]")
        return text


@dataclass(frozen=True, slots=True)
class Words:
    """A list of words between commas; a word may have a number behind ``@``, where it is one of ``with_threshold``."""

    words: tuple[str, ...]
    with_threshold: tuple[str, ...] = ()

    def read(self, text: str) -> list[str]:
        """Return the words; see ``Number.read``."""
        found = [word.strip() for word in text.strip("[]").replace("'", "").replace('"', "").split(",") if word.strip()]
        for word in found:
            name, at, threshold = word.partition("@")
            if at and name in self.with_threshold:
                Number().read(threshold.rstrip("-"))
            elif word not in self.words:
                raise ValueError(f"{word} is not in [{', '.join(self.words)}]")
        return found


@dataclass(frozen=True, slots=True)
class Nested:
    """A tuple or a list, also of lists, of integers of an interval."""

    lowest: int
    highest: float = float("inf")

    def read(self, text: str) -> str:
        """Return the text; see ``Number.read``."""
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise ValueError("could not parse value") from None
        for number in _numbers(value):
            if not isinstance(number, int) or not self.lowest <= number <= self.highest:
                raise ValueError(f"{number!r} is not in [{self.lowest}, {self.highest:g}]")
        return text


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [number for entry in value for number in _numbers(entry)]
    return [value]


Kind = Number | Choice | Words | Nested


def read_hyperparameters(
    given: Mapping[str, str], known: Mapping[str, Kind], *, required: Sequence[str], aliases: Mapping[str, str]
) -> JsonObject:
    """Return the values of the hyperparameters that a job is given.

    Args:
        known: What each may be.
        required: Those that must be given.
        aliases: The names of some by other names.
    Raises:
        UserError: One is unknown, missing, not readable or out of range.
    """
    values: JsonObject = {}
    for alias, text in given.items():
        name = aliases.get(alias, alias)
        if name not in known:
            raise UserError(f"Extraneous hyperparameter found: {alias}")
        if name in values:
            raise UserError(f"Hyperparameter {name}: given twice, also as {alias}")
        try:
            values[name] = known[name].read(text.strip())
        except ValueError as error:
            raise UserError(f"Hyperparameter {alias}: {error}") from None
    for name in required:
        if name not in values:
            raise UserError(f"Missing required hyperparameter: {name}")
    return values
