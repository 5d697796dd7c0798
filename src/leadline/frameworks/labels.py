"""Labels of optimizers, which tell their tensors from those of others."""

from __future__ import annotations

import weakref
from typing import Any


class Labels:
    """Labels of optimizers: their class, with a number if another live optimizer has the same label.

    An optimizer whose tensors have the names of an earlier one's replaces it: the model was rebuilt.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, tuple[str, frozenset[str], str]] = weakref.WeakKeyDictionary()

    def of(self, optimizer: object, kind: str, names: frozenset[str]) -> tuple[str, str]:
        """Return the label of an optimizer and the prefix of its norms' names, which is empty for the first optimizer.

        Args:
            kind: Its class.
            names: Names of the parameters that it updates.
        """
        others = [
            (label, prefix)
            for other, (label, theirs, prefix) in list(self._known.items())
            if other is not optimizer and theirs.isdisjoint(names)
        ]
        taken = {label for label, _ in others}
        candidates = (kind, *(f"{kind}_{number}" for number in range(1, len(others) + 2)))
        label = next(candidate for candidate in candidates if candidate not in taken)
        prefix = f"{label}/" if any(not prefix for _, prefix in others) else ""
        self._known[optimizer] = (label, names, prefix)
        return label, prefix
