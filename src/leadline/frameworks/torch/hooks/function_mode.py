"""Function mode that observes activations and losses called as functions, and the module calls that they are within."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import torch
from torch.nn import functional
from torch.nn.modules import module as torch_module
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from leadline.frameworks.torch.capture.forward_capture import LOSS_FUNCTIONS, loss_collections
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import is_transformed
from leadline.frameworks.torch.naming.model_names import ModelModules
from leadline.frameworks.torch.timing.flops import FORMULAS
from leadline.instrumentation.guard import Guard

_ACTIVATIONS: Final = (
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "tanh",
)
_LOSSES: Final = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
)
_KERAS_LOSSES: Final = (
    "binary_crossentropy",
    "binary_focal_crossentropy",
    "categorical_crossentropy",
    "categorical_focal_crossentropy",
    "huber",
    "log_cosh",
    "mean_absolute_error",
    "mean_squared_error",
    "sparse_categorical_crossentropy",
)
LOSS_KINDS: Final = frozenset((*_LOSSES, *_KERAS_LOSSES))


def _function_kinds() -> dict[Any, str]:
    """Map every function by which PyTorch exposes an activation or loss to its name."""
    kinds: dict[Any, str] = {}
    for kind in (*_ACTIVATIONS, *_LOSSES):
        for owner in (functional, torch, torch.Tensor, torch.special):
            for name in (kind, f"{kind}_"):
                function = getattr(owner, name, None)
                if callable(function):
                    kinds[function] = kind
    return kinds


KINDS: Final = _function_kinds()


def function_collections(kind: str, side: str) -> Callable[[int], tuple[str, ...]]:
    """Return the collections of a function's inputs or outputs, by position."""
    base = ("layers", f"{kind.replace('_', '')}_{side}")
    return loss_collections(base, side) if kind in LOSS_KINDS else lambda index: base


class FunctionListener(Protocol):
    """Receiver of the function calls that a ``FunctionMode`` observes."""

    def before_call(self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        """Called before a function; the returned token is passed to ``after_call``."""

    def after_call(
        self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any, token: object
    ) -> None:
        """Called after the function has returned."""

    def count_flops(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        """Called after a function that has a FLOP formula, such as a matrix product."""


class FunctionMode(TorchFunctionMode):  # type: ignore[misc]
    """Observes the PyTorch functions that a thread calls while the mode is on the thread's mode stack.

    **Never out of order** - it is pushed only onto an empty stack, and removed only while it is on top: leaving a mode
    always pops the topmost one. If a mode of the script is above it, it stays, inactive, until ``leave`` is called
    again.
    """

    def __init__(self, listener: FunctionListener, guard: Guard) -> None:
        super().__init__()
        self._listener, self._guard = listener, guard
        self._is_active = self._is_leaving = False
        self.is_on_stack = False
        """Whether it has been entered and not left."""
        self._thread = 0
        self.calls = 0
        """PyTorch functions called since they were counted last."""

    def enter(self) -> None:
        """Start observing; do nothing if another mode is active."""
        if self.is_on_stack:
            self._is_active = True
        elif torch._C._len_torch_function_stack() == 0:
            self.__enter__()
            self._thread = threading.get_ident()
            self._is_active = self.is_on_stack = True

    def leave(self) -> bool:
        """Stop observing, in the thread that entered; return whether the mode is off the stack."""
        self._is_active = False
        if self.is_on_stack and _get_current_function_mode() is self:
            self.__exit__(None, None, None)
            self.is_on_stack = False
        return not self.is_on_stack

    def leave_if_idle(self) -> None:
        """Leave if ``leave`` was called where that is impossible, as within ``backward()``."""
        if not self._is_active:
            self.leave()

    def leave_when_possible(self) -> None:
        """Leave, from any thread; if that is not possible at once, at a later forward pass.

        A mode cannot leave while a function that it observes is running, nor while modes that were entered later are
        above it. If ``leave`` were never called again it would stay on the stack and disable PyTorch's fast paths.
        """
        if self.leave() or self._is_leaving:
            return
        self._is_leaving = True
        thread = self._thread
        handles: list[Any] = []

        def try_to_leave(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if threading.get_ident() == thread and (self._is_active or self.leave()):
                self._is_leaving = False
                handles[0].remove()

        handles.append(torch_module.register_module_forward_pre_hook(hide_from_dynamo(try_to_leave)))

    def observe(self, kind: str, args: tuple[Any, ...], output: Any) -> None:
        """Observe a call of a function that another library makes of several functions of PyTorch."""
        if self._is_active and not is_transformed():
            token = self._guard.run(self._listener.before_call, kind, args, {})
            self._guard.run(self._listener.after_call, kind, args, {}, output, token)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.calls += 1
        kind = KINDS.get(func) if self._is_active else None
        if kind is None or is_transformed():
            output = func(*args, **kwargs)
            if self._is_active and func in FORMULAS and not is_transformed():
                self._guard.run(self._listener.count_flops, func, args, kwargs, output)
            return output
        token = self._guard.run(self._listener.before_call, kind, args, kwargs)
        output = func(*args, **kwargs)
        self._guard.run(self._listener.after_call, kind, args, kwargs, output, token)
        return output


hide_from_dynamo(FunctionMode.__torch_function__)


class CallState(threading.local):
    """Position of a thread within nested module calls."""

    depth = 0
    is_captured = False
    """Whether the current outermost call is captured."""
    sees_inner = True
    """Whether inner modules are seen as well; else only their losses are, without gradients and captured tensors."""
    is_shallow = False
    """Whether nothing inside the current outermost call is observed, except losses called as functions."""
    model: ModelModules | None = None
    mode: FunctionMode | None = None

    def __init__(self) -> None:
        self.stack: list[tuple[str, str]] = []
        """Name and kind of each captured module that is running, the innermost last."""

    def function_stem(self, kind: str) -> str | None:
        """Return the name of a function's tensors; None if its module captures them, or nothing is captured."""
        if self.depth == 0:
            return kind
        if not self.is_captured or not self.stack or self.model is None:
            return None
        name, module_kind = self.stack[-1]
        if not name or module_kind.removesuffix("loss") == kind.replace("_", "").removesuffix("loss"):
            return None
        if LOSS_FUNCTIONS.get(module_kind) == kind:
            return None
        if len(self.stack) == 1 and name == self.model.root_name:
            return f"{self.model.prefix}{kind}"
        return f"{name}.{kind}"
