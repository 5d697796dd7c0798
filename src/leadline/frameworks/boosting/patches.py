"""Methods of a framework's classes with ours in their place, and back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class MethodPatches:
    """Some methods of one class.

    **Leaves nothing** - ``put_back`` gives every method back that nobody else has replaced since.

    Args:
        owner: The class.
        wrappers: By method, what makes ours of it.
        otherwise: What stands for a method that the class does not have itself.
    Raises:
        AttributeError: The class has no method of that name; nothing is replaced.
    """

    def __init__(
        self, owner: type, wrappers: Mapping[str, Wrap], otherwise: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        self._owner = owner
        self._own = {name: vars(owner)[name] for name in wrappers if name in vars(owner)}
        known = {name: (otherwise or {}).get(name) or getattr(owner, name) for name in wrappers}
        self._ours = {name: functools.wraps(known[name])(wrap(known[name])) for name, wrap in wrappers.items()}

    def replace(self) -> None:
        """Put ours in their place."""
        for name, ours in self._ours.items():
            setattr(self._owner, name, ours)

    def put_back(self) -> None:
        """Put them back."""
        for name, ours in self._ours.items():
            if vars(self._owner).get(name) is not ours:
                continue
            if name in self._own:
                setattr(self._owner, name, self._own[name])
            else:
                delattr(self._owner, name)
