"""The hook for PyTorch, in smdebug's interface."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from leadline.compat.smdebug.core.collection import Collection as AnyCollection
from leadline.compat.smdebug.core.singleton import set_hook
from leadline.compat.smdebug.exceptions import SMDebugRuntimeError, SMDebugTypeError
from leadline.compat.smdebug.pytorch.collection import NAMING, Collection
from leadline.compat.smdebug.pytorch.module_hooks import ModuleHooks
from leadline.frameworks.torch.capture.device_copy import number_of
from leadline.frameworks.torch.naming.model_names import name_parameters_with_class, unwrap
from leadline.training.session.session import Session

__all__ = ["Hook"]


class Hook(ModuleHooks):
    """Saves what a model of PyTorch trains with; see ``BaseHook`` for its arguments, ``ModuleHooks`` for subclasses.

    A step is one update of the optimizer in training, one batch in evaluation. Parameters are those that the forward
    pass used, gradients those that the optimizer uses.
    """

    naming = NAMING
    collection_class: ClassVar[type[AnyCollection]] = Collection

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._model: torch.nn.Module | None = None
        set_hook(self)

    def register_module(self, module: torch.nn.Module) -> None:
        """Save tensors of a model: parameters as ``<Class>_<name>``, those of modules by their dotted names.

        Raises:
            SMDebugTypeError: It is no module.
            SMDebugRuntimeError: Another model was registered.
        """
        if not isinstance(module, torch.nn.Module):
            raise SMDebugTypeError(f"a torch.nn.Module is expected, not {type(module).__name__}")
        if self._model is not None:
            raise SMDebugRuntimeError(
                f"a model is registered already: {type(self._model).__name__}; a hook has one, create another hook"
            )
        self._model = module
        name_parameters_with_class(module)
        session = self._begin()
        if session is not None:
            session.register(module)
        self._hook_model(module)

    register_hook = register_module

    def register_loss(self, loss_module: torch.nn.Module) -> None:
        """Save the values of a loss; losses that are called are recognized without it.

        Raises:
            SMDebugTypeError: It is no loss of PyTorch.
        """
        if not isinstance(loss_module, torch.nn.modules.loss._Loss):
            raise SMDebugTypeError(f"a loss module of torch.nn is expected, not {type(loss_module).__name__}")
        self._hook_loss(loss_module)
        self._begin()

    def record_tensor_value(self, tensor_name: str, tensor_value: torch.Tensor) -> None:
        """Save the value of a loss that a function returned, as ``<name>_output_0``.

        Raises:
            SMDebugTypeError: It is not one number.
        """
        if not isinstance(tensor_value, torch.Tensor) or tensor_value.numel() != 1:
            raise SMDebugTypeError(f"loss {tensor_name}: a tensor of one number is expected")
        session = self._begin()
        if session is not None:
            session.guard.run(self._record_loss, session, f"{tensor_name}_output_0", tensor_value)

    def _record_loss(self, session: Session, name: str, loss: torch.Tensor) -> None:
        self._save_loss(session, name, number_of(loss.detach()))

    def _collections(self) -> list[AnyCollection]:
        names = {module: name for name, module in unwrap(self._model).named_modules()} if self._model else {}
        if self._model is not None:
            names[unwrap(self._model)] = names[self._model] = type(unwrap(self._model)).__name__
        return [
            collection.with_names(names) if isinstance(collection, Collection) else collection
            for collection in super()._collections()
        ]
