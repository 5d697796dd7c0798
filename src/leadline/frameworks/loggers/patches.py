"""Patches of the functions of logging libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo

if TYPE_CHECKING:
    from leadline.frameworks.loggers.interceptor import Interceptor

MakeWrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class FunctionPatch:
    """A patch of one function."""

    owner: Any
    """The class or module that defines the function."""
    name: str
    wrap: MakeWrapper
    """Creates the replacement from the original function."""
    is_compiled: bool = False
    """Whether the function is called in compiled code: where Dynamo traces it, the original is called.

    Hiding the replacement from Dynamo would break the graphs of all its callers.
    """


@dataclass(frozen=True, slots=True)
class LoggingLibrary:
    """The patches of one logging library."""

    name: str
    patches: Mapping[str, Callable[[ModuleType, Interceptor], Iterable[FunctionPatch]]]
    """For each module name the patches to install once the module is imported."""


class InstalledPatch:
    """A patch that is installed."""

    def __init__(self, patch: FunctionPatch) -> None:
        """
        Raises:
            AttributeError: The owner has no function of that name.
        """
        self._owner, self._name = patch.owner, patch.name
        self._is_defined_there = self._name in vars(self._owner)
        self._original = getattr(self._owner, self._name)
        wrapper = patch.wrap(self._original)
        wrapper = _original_in_graphs(wrapper, self._original) if patch.is_compiled else hide_from_dynamo(wrapper)
        self._wrapper = functools.wraps(self._original)(wrapper)
        setattr(self._owner, self._name, self._wrapper)

    def undo(self) -> None:
        """Restore the original function, unless other code has patched it since."""
        if vars(self._owner).get(self._name) is not self._wrapper:
            return
        if self._is_defined_there:
            setattr(self._owner, self._name, self._original)
        else:
            delattr(self._owner, self._name)


def _original_in_graphs(wrapper: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    is_compiling, hidden = torch.compiler.is_compiling, hide_from_dynamo(wrapper)

    def choose(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if is_compiling() else hidden(*args, **kwargs)

    return choose
