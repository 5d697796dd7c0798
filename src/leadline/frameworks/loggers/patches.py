"""A function of a library and what stands in its place while we listen; a library's replacements, by module."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from leadline.frameworks.torch.hooks.dynamo import hide

if TYPE_CHECKING:
    from leadline.frameworks.loggers.interceptor import Interceptor

Make = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Replacement:
    """One function, named by where it stands."""

    owner: Any
    """The class or module that holds it."""
    name: str
    make: Make
    """Makes what stands in its place from the function itself."""
    is_compiled: bool = False
    """Whether people compile it: where Dynamo traces it, the function itself takes the place of ours again.

    To hide ours would cut the graphs of all that call it.
    """


@dataclass(frozen=True, slots=True)
class Logger:
    """How one library is listened to."""

    library: str
    waits_for: Mapping[str, Callable[[ModuleType, Interceptor], Iterable[Replacement]]]
    """By the module that must have been executed: what is replaced once it is there."""


class Replaced:
    """A replacement in place."""

    def __init__(self, replacement: Replacement) -> None:
        """
        Raises:
            AttributeError: The owner has no function of that name.
        """
        self._owner, self._name = replacement.owner, replacement.name
        self._is_own = self._name in vars(self._owner)
        self._original = getattr(self._owner, self._name)
        made = replacement.make(self._original)
        made = _untraced(made, self._original) if replacement.is_compiled else hide(made)
        self._ours = functools.wraps(self._original)(made)
        setattr(self._owner, self._name, self._ours)

    def undo(self) -> None:
        """Put the function back, unless somebody has put another in the place of ours."""
        if vars(self._owner).get(self._name) is not self._ours:
            return
        if self._is_own:
            setattr(self._owner, self._name, self._original)
        else:
            delattr(self._owner, self._name)


def _untraced(ours: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    is_compiling, hidden = torch.compiler.is_compiling, hide(ours)

    def choose(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if is_compiling() else hidden(*args, **kwargs)

    return choose
