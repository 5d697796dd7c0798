"""The owners of the steps that functions of the script make."""

from __future__ import annotations

import weakref
from typing import Any

from leadline.frameworks.jax.jit_wrapper import JitWrapper
from leadline.frameworks.jax.step_calls import StepOwner
from leadline.frameworks.traces import OfSameCode


class Owners:
    """The owner of each function that trains."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, StepOwner] = weakref.WeakKeyDictionary()
        self._replaced: OfSameCode[StepOwner] = OfSameCode()

    def of(self, function: Any, otherwise: Any, name: str) -> StepOwner:
        """Return the owner of a function, or of a stand-in if the function is not hashable."""
        try:
            return self._known[function]
        except TypeError:
            return self.of(otherwise, None, name)
        except KeyError:
            prefix = f"{name}/" if any(not owner.prefix for owner in self._known.values()) else ""
            owner = self._known[function] = StepOwner(name, prefix)
            return owner

    def of_compiled(self, function: JitWrapper) -> StepOwner:
        """Return the owner of a compiled function: that of the function which it has replaced, if there is one."""
        owner = self._known.get(function)
        if owner is None:
            code, name = getattr(function.function, "__code__", None), function.__name__
            owner = self._replaced.replaced_by(code, name) or self.of(function.function, function, name)
            self._replaced.keep(function, code, name, owner)
            owner.code, self._known[function] = code, owner
        return owner


def name_of(function: Any) -> str:
    """Return the name of a function of the script."""
    return str(getattr(function, "__name__", None) or type(function).__name__)
