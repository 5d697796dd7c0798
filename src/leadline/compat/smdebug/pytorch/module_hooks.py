"""What subclasses of smdebug's hook for PyTorch override and call: hooks of modules and gradients, and their saves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

import torch

from leadline.compat.smdebug.core.capture_items import HookDefaults, passed_items
from leadline.compat.smdebug.core.collection import Collection, CollectionKeys
from leadline.compat.smdebug.core.hook import BaseHook
from leadline.compat.smdebug.core.save_config import SaveConfig
from leadline.records.plan import CaptureItem

_INPUT: Final = "_input_"
_OUTPUT: Final = "_output_"
_OF_ALL: Final = "module_hooks"
"""The collection of what is saved because ``all`` is; ``all`` itself would also select what Leadline captures."""
_NATIVE: Final = {"forward_hook": ("layers",), "backward_hook": ("gradients",)}
"""Leadline's collections that are captured by a method where no subclass overrides it."""


class ModuleHooks(BaseHook):
    """Calls the methods that a subclass overrides as smdebug does; what they save replaces Leadline's capture.

    Without a subclass, no hook is registered at any module: Leadline captures the tensors.

    Attributes:
        module_maps: The names of the modules and losses that were registered; ``module._module_name`` in a subclass.
        last_saved_step: Set by subclasses; nothing depends on it.
    """

    GRADIENT_PREFIX: ClassVar[str] = "gradient/"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.module_maps: dict[torch.nn.Module, str] = {}
        self.last_saved_step: int | None = None
        self._losses: set[str] = set()
        self._counts: dict[str, int] = {}
        """How many tensors of a module were saved in this step, by the beginning of their names."""
        self._counted_step = -1

    # --- methods that subclasses override -------------------------------------------------------------------

    def forward_pre_hook(self, module: torch.nn.Module, inputs: Any) -> None:
        """Do nothing; called before each forward pass of the model in a subclass that overrides it."""

    def forward_hook(self, module: torch.nn.Module, inputs: Any, outputs: Any) -> None:
        """Save inputs and outputs of a module; called after its forward pass in a subclass that overrides it."""
        name = self.module_maps[module]
        self._write_inputs(name, inputs)
        self._write_outputs(name, outputs)

    def backward_hook(self, tname: str) -> Callable[[torch.Tensor | None], None]:
        """Return a hook that saves the gradient of a tensor as ``gradient/<tname>``.

        A subclass that overrides it is called for each parameter that is trained.
        """

        def back(gradient: torch.Tensor | None) -> None:
            if gradient is not None:
                self._save_for_tensor(self.GRADIENT_PREFIX + tname, gradient)

        return back

    # --- functions that subclasses call ---------------------------------------------------------------------

    def _write_inputs(self, name: str, inputs: Any) -> None:
        """Save tensors in nested lists as ``<name>_input_<i>``."""
        self._write(name + _INPUT, inputs)

    def _write_outputs(self, name: str, outputs: Any) -> None:
        """Save tensors in nested lists as ``<name>_output_<i>``; the values of losses are saved without it."""
        if name not in self._losses:
            self._write(name + _OUTPUT, outputs)

    def _write(self, prefix: str, values: Any) -> None:
        if self._counted_step != self.step:
            self._counted_step, self._counts = self.step, {}
        for tensor in _tensors(values):
            index = self._counts.get(prefix, 0)
            self._counts[prefix] = index + 1
            self._save_for_tensor(f"{prefix}{index}", tensor)

    def _save_for_tensor(self, tensor_name: str, tensor_value: Any, check_before_write: bool = True) -> None:
        """Save a tensor of the current step where a collection that is saved and has it as a member is scheduled.

        Args:
            check_before_write: Changes nothing: nothing is saved at other steps.
        """
        matching = [one.name for one in self._saved_collections() if one.matches(tensor_name)]
        members = [_OF_ALL if name == CollectionKeys.ALL else name for name in matching]
        if members and self._begin() is not None and self._arrays is not None:
            self._arrays.save_tensor(tensor_name, tensor_value, members)

    def _get_collections_to_save_for_step(self) -> set[Collection]:
        """Return the collections that are saved at the current step."""
        step = self.mode_steps[self.mode]
        return {
            one
            for one in self._saved_collections()
            if SaveConfig.parse(one.save_config or self.save_config).should_save_step(self.mode, step)
        }

    def _saved_collections(self) -> list[Collection]:
        return [one for one in self._collections() if one.name in self._included]

    # --- registration ---------------------------------------------------------------------------------------

    def _overrides(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(ModuleHooks, method)

    def _hook_model(self, model: torch.nn.Module) -> None:
        """Name the modules of a model, and register the methods that a subclass overrides."""
        names = {module: name for name, module in model.named_modules()} | {model: type(model).__name__}
        self.module_maps |= names
        if any(self._overrides(method) for method in ("forward_pre_hook", *_NATIVE)):
            for module, name in names.items():
                module._module_name = name  # subclasses read it
        if self._overrides("forward_pre_hook"):
            model.register_forward_pre_hook(self.forward_pre_hook)
        if self._overrides("forward_hook"):
            for module in names:
                module.register_forward_hook(self.forward_hook)
        if self._overrides("backward_hook"):
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    parameter.register_hook(self.backward_hook(f"{type(model).__name__}_{name}"))

    def _hook_loss(self, loss: torch.nn.Module) -> None:
        """Name a loss, and register the method that a subclass overrides."""
        name = type(loss).__name__
        self.module_maps[loss] = name
        self._losses.add(name)
        if self._overrides("forward_hook"):
            loss._module_name = name  # subclasses read it
            loss.register_forward_hook(self.forward_hook)

    def _items(self, *, is_strict: bool) -> tuple[CaptureItem, ...]:
        replaced = {name for method, collection in _NATIVE.items() if self._overrides(method) for name in collection}
        items = super()._items(is_strict=is_strict)
        kept = [item for item in items if item.family == "arrays" or item.collection not in replaced]
        for collection in self._saved_collections() if replaced else ():
            if collection.name == CollectionKeys.ALL:
                kept += passed_items(collection, HookDefaults(self.save_config, self.reduction_config), _OF_ALL)
        return tuple(dict.fromkeys(kept))


def _tensors(values: Any) -> Iterable[torch.Tensor]:
    """Yield the tensors in nested lists; anything else is left out, as smdebug does."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _tensors(value)
