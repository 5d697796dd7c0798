"""Parameters that their optimizer leaves as they are, whatever their gradient."""

from __future__ import annotations

from collections.abc import Collection

from leadline.records.names import FROZEN_BY_OPTIMIZER


class FrozenParameters:
    """Makes checks of the parameters that an optimizer freezes, beside others that it updates.

    They are frozen by a learning rate of 0 of their own, or by a mask; what holds for all of them is not reported.
    """

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def checks(self, frozen: Collection[str], updated: Collection[str]) -> dict[str, float]:
        """Return the checks of the parameters that are frozen, and of those that were and no longer are."""
        if updated:
            self._reported.update(frozen)
        found = dict.fromkeys(frozen, 1.0) | dict.fromkeys(updated, 0.0)
        return {f"{name}/{FROZEN_BY_OPTIMIZER}": found[name] for name in sorted(self._reported & found.keys())}
