"""Weights & Biases: ``wandb.log`` and ``Run.log``, where both come together."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final

from leadline.frameworks.loggers.interceptor import Interceptor
from leadline.frameworks.loggers.patches import Logger, Make, Replacement


def _replacements(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    # `wandb.log` is a bound method that was taken when the run began; what it calls is looked up at every call.
    name = "_log" if hasattr(library.Run, "_log") else "log"
    runs = _Runs(library.Run)
    tap.trackers.offer(runs.find)
    yield Replacement(library.Run, name, _with_passengers(tap, runs))


def _history(run: object, data: Mapping[str, Any], *rest: object, **others: object) -> dict[str, Any]:
    return dict(_flat(data, ""))


def _flat(data: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    """Nested dictionaries as the library itself names them: ``outer.inner``."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _with_passengers(tap: Interceptor, runs: _Runs) -> Make:
    """Hear what the script logs, and let numbers of ours ride along with it, unheard.

    A row of our own would be the next step of the script's run, even where it is not committed: the last one of a
    run that is resumed would move all that follows.
    """
    listen = tap.after(_history)

    def make(original: Any) -> Any:
        def log(run: Any, data: Any, *rest: Any, **others: Any) -> Any:
            joined = tap.guard.run(runs.join, run, data)
            return original(run, data if joined is None else joined, *rest, **others)

        return listen(log)

    return make


@dataclass(frozen=True, slots=True, eq=False)
class WandbRun:
    """A run: its summary has the number at once, its history with the next row that the script logs."""

    library: ClassVar[str] = "wandb"

    run: Any
    runs: _Runs

    @property
    def title(self) -> str:
        return f"wandb run {self.run.id}"

    def log(self, name: str, value: float, step: int) -> None:
        self.run.summary[name] = value
        self.runs.let_ride(self.run, name, value)


class _Runs:
    """The runs that the script has, and what waits for their next rows."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._latest: weakref.ref[Any] | None = None
        self._waiting: weakref.WeakKeyDictionary[Any, dict[str, float]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def find(self) -> Iterable[WandbRun]:
        """The library's current run, or the one that the script logged into last, if it is live."""
        known = (getattr(sys.modules.get("wandb"), "run", None), self._latest and self._latest())
        return [WandbRun(each, self) for each in known if self._is_live(each)][:1]

    def let_ride(self, run: Any, name: str, value: float) -> None:
        """Have a number logged with the run's next row."""
        with self._lock:
            self._waiting.setdefault(run, {})[name] = value

    def join(self, run: Any, data: Any) -> dict[str, Any] | None:
        """What the script logs with what waited for it; None: as it is."""
        if self._latest is None or self._latest() is not run:
            self._latest = weakref.ref(run)
        if not self._waiting or not isinstance(data, Mapping):
            return None
        with self._lock:
            waiting = self._waiting.pop(run, None)
        return None if waiting is None else {**waiting, **data}

    def _is_live(self, run: Any) -> bool:
        if not isinstance(run, self._kind) or getattr(run, "_is_finished", False) or getattr(run, "disabled", False):
            return False
        return bool(getattr(run, "_init_pid", os.getpid()) == os.getpid())  # a fork has its parent's, which is not its


WANDB: Final = Logger("wandb", {"wandb.sdk.wandb_run": _replacements})
