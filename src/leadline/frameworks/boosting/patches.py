"""Patching of methods of a framework's classes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

MakeWrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


class MethodPatches:
    """Patches of several methods of one class.

    **Leaves nothing** - ``restore`` undoes every patch that no other code has replaced since.

    Args:
        owner: The class.
        wrappers: For each method name the function that wraps the original.
        defaults: Originals for methods that the class itself does not define.
    Raises:
        AttributeError: The class has no method of that name; nothing is patched.
    """

    def __init__(
        self, owner: type, wrappers: Mapping[str, MakeWrapper], defaults: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        self._owner = owner
        self._originals = {name: vars(owner)[name] for name in wrappers if name in vars(owner)}
        methods = {name: (defaults or {}).get(name) or getattr(owner, name) for name in wrappers}
        self._wrappers = {name: functools.wraps(methods[name])(wrap(methods[name])) for name, wrap in wrappers.items()}

    def apply(self) -> None:
        """Install the wrappers."""
        for name, wrapper in self._wrappers.items():
            setattr(self._owner, name, wrapper)

    def restore(self) -> None:
        """Restore the original methods."""
        for name, wrapper in self._wrappers.items():
            if vars(self._owner).get(name) is not wrapper:
                continue
            if name in self._originals:
                setattr(self._owner, name, self._originals[name])
            else:
                delattr(self._owner, name)
