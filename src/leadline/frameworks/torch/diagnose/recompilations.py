"""How often torch.compile has compiled a function again, and for what, by its own record of compilations."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from typing import Any, Final

from leadline.records.names import ALL_RECOMPILATIONS, RECOMPILATIONS, RECOMPILE_LIMIT

_DYNAMO: Final = "torch._dynamo"
_GUARD: Final = re.compile(r"^\d+/\d+: *(.*?)(?:  +#.*)?$", re.DOTALL)
"""``0/3: L['self'].step == 3      # train.py:7 in forward``: what must hold for the compilation 0/3, and does not."""
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
_MAX_LENGTH: Final = 80
_MAX_FUNCTIONS: Final = 8
NOT_COMPILED: Final = -1.0


class Recompilations:
    """Counts the compilations of functions after their first, as Dynamo's record of the latest compilations tells them.

    What was compiled before it was made belongs to other trainings of the process. A look copies a list of at most 64
    entries, and nothing is done before Dynamo was imported.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._has_compiled = False
        self._places: dict[str, str] = {}
        """The function of each frame, by the number of the frame."""
        self._counts: dict[str, Counter[str]] = {}
        """By frame, how often it was compiled again by what did not hold."""
        self._stopped: set[str] = set()
        """The frames that are not compiled any more."""
        for compilation in _latest():
            self._note_place(compilation)

    def results(self) -> dict[str, float]:
        """Return the sum, -1 where nothing is compiled, with the worst functions by name, and their limits."""
        compilations = _latest()
        limit = getattr(sys.modules[_DYNAMO].config, "recompile_limit", None) if compilations else None
        for compilation in compilations:
            self._note(compilation, limit)
        worst = sorted(self._counts, key=lambda frame: -self._counts[frame].total())[:_MAX_FUNCTIONS]
        total = sum(counts.total() for counts in self._counts.values())
        found = {ALL_RECOMPILATIONS: float(total) if self._has_compiled else NOT_COMPILED}
        for frame in worst:
            place = self._places.get(frame, "a function")
            (guard, _), *_ = self._counts[frame].most_common(1)
            found[f"{place}: {guard}/{RECOMPILATIONS}"] = float(self._counts[frame].total())
            if frame in self._stopped:
                found[f"{place}/{RECOMPILE_LIMIT}"] = float(limit or 0)
        return found

    def _note(self, compilation: Any, limit: int | None) -> None:
        number = self._note_place(compilation)
        reason = getattr(compilation, "recompile_reason", None)
        self._has_compiled |= bool(number)
        if not number or not reason:
            return
        frame, _, attempt = number.rpartition("/")
        if limit is not None and attempt.isdigit() and int(attempt) >= limit:
            self._stopped.add(frame)
        else:
            self._counts.setdefault(frame, Counter())[_guard(reason)] += 1

    def _note_place(self, compilation: Any) -> str:
        """Note what was compiled; return the number of the compilation, empty if it is known already."""
        number = getattr(compilation, "compile_id", None)
        if not isinstance(number, str) or number in self._seen:
            return ""
        self._seen.add(number)
        if compilation.co_name is not None:
            file = os.path.basename(compilation.co_filename or "")
            place = f"{compilation.co_name} ({file}:{compilation.co_firstlineno})"
            self._places[number.rpartition("/")[0]] = place
        return number


def _latest() -> list[Any]:
    """Return the record of the latest compilations; empty where Dynamo was not imported, or keeps none."""
    record = getattr(sys.modules.get(f"{_DYNAMO}.utils"), "get_compilation_metrics", None)
    return list(record()) if record is not None and _DYNAMO in sys.modules else []


def _guard(reason: str) -> str:
    """Return what did not hold, without the numbers in it, which differ from one compilation to the next."""
    first = reason.partition("\n")[0]
    found = _GUARD.match(first)
    return _NUMBER.sub("…", found[1] if found else first).replace("/", " ")[:_MAX_LENGTH].strip()
