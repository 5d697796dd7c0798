"""What models call inside, and when these calls need not be observed."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import torch

from leadline.frameworks.torch.capture.forward_pass import ForwardPass
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.naming.model_names import unwrap

Depth = Literal["everything", "losses", "nothing"]
"""What is observed inside a call of a model: modules and functions, losses called as functions, or nothing."""

_OBSERVED_CALLS: Final = 2
"""So many calls of a model are observed before anything is known of it; as many first steps have facts about losses."""
_MAX_MODELS: Final = 256


class _Inside:
    """What a model was seen to call."""

    __slots__ = ("calls", "collections", "has_deep_losses", "has_losses", "model")

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = weakref.ref(model)
        self.calls = 0
        self.collections: set[str] = set()
        """The collections of the inputs and outputs of its modules and functions, except ``layers``."""
        self.has_losses = self.has_deep_losses = False
        """Whether it calls a loss, and whether one that is a module or called by a module inside."""


class InnerCalls:
    """Remembers what each model calls inside, so that a pass that captures none of it observes only the model's call.

    A hook at each of a hundred layers takes longer than all that is captured of labels and inputs. What a model calls
    is known once two of its calls with gradients were observed; those that capture layers add to it.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Inside] = {}
        self._current: _Inside | None = None
        """The model whose call is observed."""

    def depth(self, outermost: torch.nn.Module, passes: Iterable[ForwardPass], *, is_grad: bool) -> Depth:
        """Return what must be observed inside the call of a model that begins.

        Args:
            passes: The passes that the call is captured in.
        """
        self._current, capturing = None, [one for one in passes if one.is_open]
        if isinstance(unwrap(outermost), torch.jit.ScriptModule):
            return "everything"
        if not capturing:
            return "nothing"
        inside = self._of(outermost)
        if inside.calls < _OBSERVED_CALLS or any(one.captured.selects_any(inside.collections) for one in capturing):
            self._current = inside if is_grad else None
            return "everything"
        return "everything" if inside.has_deep_losses else "losses" if inside.has_losses and is_grad else "nothing"

    def end(self) -> None:
        """End the observed call of a model."""
        if self._current is not None:
            self._current.calls += 1
            self._current = None

    def add(self, kind: str, *, is_loss: bool, is_direct: bool = False) -> None:
        """Add a call inside the model: of a module or a function of a kind.

        Args:
            is_direct: Whether the model itself calls a function, and no module of it.
        """
        inside = self._current
        if inside is not None:
            kind = kind.replace("_", "")
            inside.collections |= {f"{kind}_input", f"{kind}_output"}
            inside.has_losses = inside.has_losses or is_loss
            inside.has_deep_losses = inside.has_deep_losses or (is_loss and not is_direct)

    def _of(self, outermost: torch.nn.Module) -> _Inside:
        inside = self._known.get(id(outermost))
        if inside is None or inside.model() is not outermost:
            if len(self._known) >= _MAX_MODELS:
                self._known.clear()
            inside = self._known[id(outermost)] = _Inside(outermost)
        return inside


class Pause:
    """Takes global forward hooks out of PyTorch's tables during the call of one module, whose end it reports.

    Any global hook slows the calls of all modules, whatever it does. A hook of the one module stays for the end of its
    call, and for no longer: the script may save the module.
    """

    def __init__(self, handles: Iterable[Any], on_end: Callable[..., None]) -> None:
        """
        Args:
            handles: Those of the hooks.
            on_end: Called after the call of the module as an ``always_call`` hook with keyword arguments.
        """
        self._handles = list(handles)
        self._on_end = on_end
        self._taken: list[tuple[dict[int, Any], int, Any]] = []
        self._module: torch.nn.Module | None = None
        self._end_of_call: Any = None

    @property
    def is_on(self) -> bool:
        """Whether the hooks are out of the tables."""
        return self._module is not None

    def begin(self, module: torch.nn.Module) -> None:
        """Take the hooks out during the call of a module that begins."""
        self._module = module
        for handle in self._handles:
            table = handle.hooks_dict_ref()
            hook = table.pop(handle.id, None) if table is not None else None
            if hook is not None:
                self._taken.append((table, handle.id, hook))
        hook = _EndOfCall(self)
        self._end_of_call = module.register_forward_hook(hook, with_kwargs=True, always_call=True)

    def end(self, *, is_restored: bool = True) -> None:
        """Put the hooks back.

        Args:
            is_restored: False: they are to be removed.
        """
        self._module = None
        if self._end_of_call is not None:
            self._end_of_call.remove()
            self._end_of_call = None
        for table, key, hook in self._taken:
            if is_restored:
                table[key] = hook
        self._taken.clear()

    def after_call(self, module: torch.nn.Module, *rest: Any) -> None:
        """Put the hooks back at the end of the call, and report it."""
        if self._module is None or module is not self._module:
            return  # a copy of the module has a copy of its hooks
        hooks: Mapping[int, Any] = module._forward_hooks
        # after an error PyTorch iterates over the hooks themselves, of which then only the last may be removed
        if sys.exc_info()[0] is None or next(reversed(hooks)) == self._end_of_call.id:
            self.end()
        self._on_end(module, *rest)


hide_from_dynamo(Pause.after_call)


class _EndOfCall:
    """A hook that is pickled as one that does nothing: a script may save a model whose call was interrupted."""

    __slots__ = ("_pause",)

    def __init__(self, pause: Pause) -> None:
        self._pause = pause

    def __call__(self, *args: Any) -> None:
        self._pause.after_call(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (sys.audit, "leadline")
