"""How often a function of the script is traced: what captures from it is traced and compiled as often."""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Any, Final, Generic, TypeVar

_FEW_CALLS: Final = 10
_MAX_RETRACES: Final = 2
RETRACED: Final = (
    "it is traced again and again, and what captures would have to be too; define and compile it once, before the "
    "loop, with arrays or tensors as arguments"
)

T = TypeVar("T")


class Traces:
    """The traces of one function, or of functions that replace each other.

    Attributes:
        calls: The calls since the last trace.
    """

    def __init__(self) -> None:
        self.calls = _FEW_CALLS
        self._retraces = 0

    def note_trace(self) -> None:
        """Note that the function is traced."""
        self._retraces = self._retraces + 1 if self.calls < _FEW_CALLS else 0
        self.calls = 0

    @property
    def are_repeated(self) -> bool:
        """Whether the last three traces, or more, came within ten calls of each other: nothing is captured then."""
        return self._retraces >= _MAX_RETRACES and self.calls < _FEW_CALLS


class OfSameCode(Generic[T]):
    """What is kept of the last function of each code, for the one that replaces it.

    A script that compiles within its loop makes another function for each step.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[CodeType, str], tuple[weakref.ref[Any], T]] = {}

    def replaced_by(self, code: CodeType | None, name: str) -> T | None:
        """Return what was kept of a function with the same code and name which the script no longer has."""
        before = self._latest.get((code, name)) if code is not None else None
        return before[1] if before is not None and before[0]() is None else None

    def keep(self, function: Any, code: CodeType | None, name: str, value: T) -> None:
        """Keep something of a function."""
        if code is not None:
            self._latest[code, name] = weakref.ref(function), value
