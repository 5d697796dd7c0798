"""Activations and losses that are called as functions, seen through a function mode of ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import torch
from torch.nn import functional
from torch.nn.modules import module as torch_module
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from leadline.frameworks.torch.hooks.dynamo import hide
from leadline.frameworks.torch.hooks.tracing import is_transformed
from leadline.frameworks.torch.timing.flops import FORMULAS
from leadline.training.guard import Guard

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
LOSS_KINDS: Final = frozenset(_LOSSES)


def _table() -> dict[Any, str]:
    """Every way in which PyTorch lets one of them be called, with what it is called here."""
    found: dict[Any, str] = {}
    for kind in (*_ACTIVATIONS, *_LOSSES):
        for owner in (functional, torch, torch.Tensor, torch.special):
            for name in (kind, f"{kind}_"):
                function = getattr(owner, name, None)
                if callable(function):
                    found[function] = kind
    return found


KINDS: Final = _table()


class Calls(Protocol):
    """Who hears of the functions that are called."""

    def before_call(self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        """A function is about to be called; what is given back comes again with ``after_call``."""

    def after_call(
        self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any, token: object
    ) -> None:
        """It has returned."""

    def count(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        """A product of matrices or the like has returned."""


class FunctionMode(TorchFunctionMode):  # type: ignore[misc]
    """Sees each of PyTorch's functions that a thread calls while it stands on the thread's stack of modes.

    **Never out of order** - it goes onto an empty stack only, and is taken off only while it is the topmost: whoever
    leaves a mode pops the topmost one, whichever that is. Where somebody's mode stands above it, it stays and lets
    everything pass until ``leave`` is called again.
    """

    def __init__(self, calls: Calls, guard: Guard) -> None:
        super().__init__()
        self._calls, self._guard = calls, guard
        self._is_on = self._is_stacked = self._is_leaving = False
        self._thread = 0

    def enter(self) -> None:
        """Begin to see; nothing happens where another mode is active."""
        if self._is_stacked:
            self._is_on = True
        elif torch._C._len_torch_function_stack() == 0:
            self.__enter__()
            self._thread = threading.get_ident()
            self._is_on = self._is_stacked = True

    def leave(self) -> bool:
        """See nothing any more, in the thread that entered; whether it stands on the stack no longer."""
        self._is_on = False
        if self._is_stacked and _get_current_function_mode() is self:
            self.__exit__(None, None, None)
            self._is_stacked = False
        return not self._is_stacked

    def leave_soon(self) -> None:
        """Leave; from any thread, and at a later forward pass where that cannot be done at once.

        A mode stands aside while a function that it saw is under way, and below modes that were entered later: it
        would stay for ever when nobody calls ``leave`` again, and keep PyTorch from its fast paths.
        """
        if self.leave() or self._is_leaving:
            return
        self._is_leaving = True
        thread = self._thread
        handles: list[Any] = []

        def leave_later(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if threading.get_ident() == thread and (self._is_on or self.leave()):
                self._is_leaving = False
                handles[0].remove()

        handles.append(torch_module.register_module_forward_pre_hook(hide(leave_later)))

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        kind = KINDS.get(func) if self._is_on else None
        if kind is None or is_transformed():
            output = func(*args, **kwargs)
            if self._is_on and func in FORMULAS and not is_transformed():
                self._guard.run(self._calls.count, func, args, kwargs, output)
            return output
        token = self._guard.run(self._calls.before_call, kind, args, kwargs)
        output = func(*args, **kwargs)
        self._guard.run(self._calls.after_call, kind, args, kwargs, output, token)
        return output


hide(FunctionMode.__torch_function__)
