"""The script's live experiment trackers, into which Leadline can log next to the script."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class ScriptTracker(Protocol):
    """One live run of a tracking library, opened by the script.

    **Not in the training thread** - ``log`` may be slow or hang, and may raise anything.
    """

    @property
    def library(self) -> str:
        """``wandb``, ``mlflow`` or ``tensorboard``."""

    @property
    def title(self) -> str:
        """Display name: ``wandb run 3f9x``."""

    def log(self, name: str, value: float, step: int) -> None:
        """Log a number without changing the script's own rows, steps or their order.

        Raises:
            TrackerClosedError: The run has ended.
            Exception: Whatever the library raises.
        """


class TrackerClosedError(Exception):
    """The script has ended the run, or the library has."""


class Trackers:
    """Finds the live trackers of all libraries that the script imports."""

    def __init__(self) -> None:
        self._sources: tuple[Callable[[], Iterable[ScriptTracker]], ...] = ()

    def register(self, source: Callable[[], Iterable[ScriptTracker]]) -> None:
        """Add a function that returns a library's live runs; it is called in any thread, and uses no network."""
        self._sources = (*self._sources, source)

    def find(self) -> list[ScriptTracker]:
        """Return the live trackers; those that use a network come last, since they may hang."""
        trackers = [tracker for source in self._sources for tracker in source()]
        return sorted(trackers, key=lambda tracker: tracker.library == "mlflow")
