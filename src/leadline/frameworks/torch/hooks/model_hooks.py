"""The hooks around the calls of modules while these are observed: global ones, or around compiled models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from leadline.frameworks.torch.hooks.compiled_models import CompiledModels
from leadline.frameworks.torch.hooks.inner_calls import Pause
from leadline.frameworks.torch.naming.model_names import ModuleRegistry, unwrap


class ModelHooks:
    """Installs the two hooks around module calls, and takes them out inside calls of which nothing is captured."""

    def __init__(self, registry: ModuleRegistry, compiled: CompiledModels) -> None:
        self._registry, self._compiled = registry, compiled
        self._handles: list[Any] = []
        self._pause: Pause | None = None
        self.is_outside = False
        """Whether only the calls of whole models are observed."""

    @property
    def are_installed(self) -> bool:
        """Whether the hooks are installed."""
        return bool(self._handles)

    def install(self, enter: Callable[..., None], leave: Callable[..., None]) -> None:
        """Install the hooks: around the calls of whole models only, if any code is compiled."""
        self.is_outside = self._compiled.exist
        if self.is_outside:
            self._handles = [*self._compiled.observe(self._registry.outermost(), enter, leave)]
            return
        self._handles = [
            torch_module.register_module_forward_pre_hook(enter),
            torch_module.register_module_forward_hook(leave, with_kwargs=True, always_call=True),
        ]
        self._pause = Pause(self._handles, leave)

    def remove(self) -> None:
        """Remove the hooks."""
        if self._pause is not None:
            self._pause.end(is_restored=False)
            self._pause = None
        for handle in self._handles:
            handle.remove()
            if not self.is_outside:
                torch_module._global_forward_hooks_with_kwargs.pop(handle.id, None)  # not done by the handle
        self._handles = []

    def pause(self, module: torch.nn.Module) -> None:
        """Take the hooks out until the call of a module that begins has ended."""
        if self._pause is not None and not self._pause.is_on and unwrap(module) is module:
            self._pause.begin(module)
