"""Replacement of functions and methods of other libraries while a training is monitored."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MakeReplacement = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class _Patch:
    owner: Any
    name: str
    previous: Any
    """The attribute as the owner itself defined it; None: it was inherited or missing."""
    original: Callable[..., Any]
    replacement: Callable[..., Any]
    attribute: Any
    """The attribute that was set: the replacement, bound as the original was."""


class Patches:
    """The functions and methods replaced so far.

    **Leaves nothing** - ``restore`` undoes every replacement that is still in place; one that other code has patched
    since stays, and calls the original.

    **Costs nothing** - a replacement is the function that ``make`` returned, without a layer around it.
    """

    def __init__(self) -> None:
        self._installed: list[_Patch] = []

    def replace(
        self,
        owner: Any,
        name: str,
        make: MakeReplacement,
        *,
        default: Callable[..., Any] | None = None,
        is_optional: bool = False,
    ) -> None:
        """Replace ``owner.name`` by ``make(original)``, with the original's name and documentation.

        A function that has several names gets one replacement. Class methods and static methods remain such.

        Args:
            owner: A module or a class.
            default: The original if the owner has no such attribute.
            is_optional: Do nothing if the owner has no such attribute.
        Raises:
            AttributeError: The owner has no such attribute.
        """
        defined = inspect.getattr_static(owner, name, None) if isinstance(owner, type) else None
        binding = type(defined) if isinstance(defined, (classmethod, staticmethod)) else None
        original = defined.__func__ if binding else getattr(owner, name, default)  # type: ignore[union-attr]
        if original is None:
            if is_optional:
                return
            raise AttributeError(f"{owner.__name__!r} has no attribute {name!r}")
        replacement = next((patch.replacement for patch in self._installed if patch.original is original), None)
        if replacement is None:
            replacement = functools.wraps(original)(make(original))
        attribute = binding(replacement) if binding else replacement
        self._installed.append(_Patch(owner, name, vars(owner).get(name), original, replacement, attribute))
        setattr(owner, name, attribute)

    def restore(self) -> None:
        """Undo the replacements, the latest first."""
        while self._installed:
            patch = self._installed.pop()
            if vars(patch.owner).get(patch.name) is not patch.attribute:
                continue
            if patch.previous is None:
                delattr(patch.owner, patch.name)
            else:
                setattr(patch.owner, patch.name, patch.previous)
