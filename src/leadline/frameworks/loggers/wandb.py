"""Weights & Biases: the method of a run that both ``wandb.log`` and ``Run.log`` call."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final

from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary
from leadline.frameworks.patches import MakeReplacement


def _patches(library: ModuleType, interceptor: Interceptor) -> None:
    # `wandb.log` is a method bound when the run began; the method that it calls is looked up at every call.
    name = "_log" if hasattr(library.Run, "_log") else "log"
    runs = _Runs(library.Run)
    interceptor.trackers.register(runs.find)
    interceptor.replace(library.Run, name, _with_pending_values(interceptor, runs))


def _history(run: object, data: Mapping[str, Any], *rest: object, **others: object) -> dict[str, object]:
    return dict(_flat(data, ""))


def _flat(data: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    """Return nested dictionaries flattened, named as the library does: ``outer.inner``."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _with_pending_values(interceptor: Interceptor, runs: _Runs) -> MakeReplacement:
    """Record what the script logs, and add Leadline's pending values to it, which are not recorded.

    A row of Leadline's own would be the next step of the script's run, even if it is not committed: at the end of a
    run that is resumed, it would shift all later steps.
    """
    record = interceptor.after(_history)

    def wrap(original: Any) -> Any:
        def log(run: Any, data: Any, *rest: Any, **others: Any) -> Any:
            merged = interceptor.guard.run(runs.merge, run, data)
            return original(run, data if merged is None else merged, *rest, **others)

        return record(log)

    return wrap


@dataclass(frozen=True, slots=True, eq=False)
class WandbRun:
    """A wandb run: a value is in its summary at once, in its history with the next row that the script logs."""

    library: ClassVar[str] = "wandb"

    run: Any
    runs: _Runs

    @property
    def title(self) -> str:
        return f"wandb run {self.run.id}"

    def log(self, name: str, value: float, step: int) -> None:
        self.run.summary[name] = value
        self.runs.add_to_next_row(self.run, name, value)


class _Runs:
    """The script's wandb runs, and the values pending for their next rows."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._latest: weakref.ref[Any] | None = None
        self._pending: weakref.WeakKeyDictionary[Any, dict[str, float]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def find(self) -> Iterable[WandbRun]:
        """Return the library's current run, or else the one that the script logged into last, if it is live."""
        candidates = (getattr(sys.modules.get("wandb"), "run", None), self._latest and self._latest())
        return [WandbRun(candidate, self) for candidate in candidates if self._is_live(candidate)][:1]

    def add_to_next_row(self, run: Any, name: str, value: float) -> None:
        """Log a number with the run's next row."""
        with self._lock:
            self._pending.setdefault(run, {})[name] = value

    def merge(self, run: Any, data: Any) -> dict[str, object] | None:
        """Return the script's values with the pending ones added; None if there are none."""
        if self._latest is None or self._latest() is not run:
            self._latest = weakref.ref(run)
        if not self._pending or not isinstance(data, Mapping):
            return None
        with self._lock:
            pending = self._pending.pop(run, None)
        return None if pending is None else {**pending, **data}

    def _is_live(self, run: Any) -> bool:
        if not isinstance(run, self._kind) or getattr(run, "_is_finished", False) or getattr(run, "disabled", False):
            return False
        return bool(getattr(run, "_init_pid", os.getpid()) == os.getpid())  # a forked process inherits its parent's run


WANDB: Final = LoggingLibrary("wandb", {"wandb.sdk.wandb_run": _patches})
