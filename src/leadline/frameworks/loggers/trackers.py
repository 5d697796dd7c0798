"""The script's own trackers that are live: where a number of ours can be logged next to the script's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class ScriptTracker(Protocol):
    """One live run of a tracking library, opened by the script.

    **Never the training's thread** - ``log`` may take its time or hang, and may raise anything.
    """

    @property
    def library(self) -> str:
        """``wandb``, ``mlflow`` or ``tensorboard``."""

    @property
    def title(self) -> str:
        """For people: ``wandb run 3f9x``."""

    def log(self, name: str, value: float, step: int) -> None:
        """Log a number so that nothing of the script's own is changed: no row, no step, no order.

        Raises:
            Exception: Whatever the library raises.
        """


class Trackers:
    """Finds them; each library that the script imports says how."""

    def __init__(self) -> None:
        self._sources: tuple[Callable[[], Iterable[ScriptTracker]], ...] = ()

    def offer(self, source: Callable[[], Iterable[ScriptTracker]]) -> None:
        """Have a library's live runs found; ``source`` is called in any thread, and talks to no network."""
        self._sources = (*self._sources, source)

    def find(self) -> list[ScriptTracker]:
        """Those that are live now; those that talk over a network come last, since they may hang."""
        found = [tracker for source in self._sources for tracker in source()]
        return sorted(found, key=lambda each: each.library == "mlflow")
