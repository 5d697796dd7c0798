"""Observation of when a step calls its model: a global forward hook that removes itself at the first call."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn.modules import module as torch_module

from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.frameworks.torch.naming.model_names import ModuleNames
from leadline.instrumentation.timeline.step_timeline import StepTimeline

_KEY: Final = "leadline model call"


class ModelCallHook:
    """Reports to a timeline when the outermost model of each forward pass is called.

    The hook is global, and removes itself at the first call of a module with parameters: of the modules of a model only
    the outermost is slowed, by a few microseconds per step. Modules without parameters, such as augmentations, are not
    the model. It is removed for good by ``torch.compile``, and removed while ``torch.export`` traces a model, since
    both would trace it.
    """

    def __init__(self, timeline: StepTimeline, guard: HookGuard) -> None:
        self._timeline, self._guard = timeline, guard
        self._hooks: OrderedDict[Any, Any] = torch_module._global_forward_pre_hooks
        self._hook: Callable[..., None] | None = self._make_hook(None)
        self._is_first = False
        """Whether the hook runs ahead of all others."""
        self._last: Callable[[], torch.nn.Module | None] = lambda: None
        """The latest outermost model."""
        self._given: list[weakref.ref[torch.Tensor]] = []
        """The tensors of its latest call."""
        self._patches = Patches()

    def batch(self, names: ModuleNames) -> list[NamedTensor]:
        """Return the inputs of the latest outermost model in the forward pass, as far as they still exist."""
        model = self._last()
        if model is None:
            return []
        name = names.model_of(model).names[id(model)] or type(model).__name__
        given = ((at, reference()) for at, reference in enumerate(self._given))
        return [
            NamedTensor(f"{name}_input_{at}", ("inputs", "layers"), tensor.detach().float().cpu().numpy())
            for at, tensor in given
            if tensor is not None and tensor.is_floating_point()
        ]

    def install(self) -> None:
        """Observe the next forward pass, and be absent from exports."""
        self._patches.replace(torch.export, "export", self._make_export, is_optional=True)
        self.expect()

    def uninstall(self) -> None:
        """Observe nothing from now on."""
        self._patches.restore()
        self._hook = None
        self._hooks.pop(_KEY, None)

    def expect(self) -> None:
        """Observe the next forward pass."""
        if self._hook is not None:
            self._hooks[_KEY] = self._hook
            if self._is_first:
                self._hooks.move_to_end(_KEY, last=False)

    def follow(self, on_call: Callable[[torch.nn.Module, tuple[Any, ...]], None] | None) -> None:
        """Call a function ahead of all other hooks at each call of the model, from the next observed one on.

        Args:
            on_call: Takes the module and its arguments; None: nothing is called any more.
        """
        if self._hook is not None:
            self._hook, self._is_first = self._make_hook(on_call), on_call is not None
            if _KEY in self._hooks:
                self.expect()

    def _make_hook(self, on_call: Callable[[torch.nn.Module, tuple[Any, ...]], None] | None) -> Callable[..., None]:
        timeline, guard, hooks, begin_model = self._timeline, self._guard, self._hooks, self._timeline.begin_model
        clock = guard.clock

        def pre_hook(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            begun_ns = clock()
            if module is not self._last():
                if next(module.parameters(), None) is None:
                    return
                self._last = weakref.ref(module)
            if timeline.is_loading:
                return
            self._given = [weakref.ref(value) for value in args if isinstance(value, torch.Tensor)]
            if on_call is None and guard.defer(begun_ns, begin_model):
                del hooks[_KEY]
            elif not timeline.is_elsewhere():
                hooks.pop(_KEY, None)
                if on_call is not None:
                    guard.run(on_call, module, args)
                guard.run(begin_model)

        return hide_from_dynamo(pre_hook)

    def _make_export(self, original: Callable[..., Any]) -> Callable[..., Any]:
        hooks = self._hooks

        def export(*args: Any, **kwargs: Any) -> Any:
            hooks.pop(_KEY, None)
            return original(*args, **kwargs)

        return hide_from_dynamo(export)
