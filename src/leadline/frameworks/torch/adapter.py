"""The PyTorch adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from leadline.frameworks.torch.captured import CapturedTensors
from leadline.frameworks.torch.forward import ForwardWatch
from leadline.frameworks.torch.hooks import Hooks
from leadline.frameworks.torch.models import Names
from leadline.frameworks.torch.program import TorchSubject
from leadline.frameworks.torch.registry import ModuleRegistry
from leadline.probes.adapter import Probes
from leadline.probes.guard import Guard
from leadline.records.plan import CaptureItem


class TorchAdapter:
    """See ``leadline.probes.adapter.Adapter``."""

    name = "torch"

    def __init__(self, tell: Callable[[str], None]) -> None:
        """
        Args:
            tell: Takes a line about something that cannot be captured.
        """
        self._tell = tell
        self._registry = ModuleRegistry()
        self._names = Names(self._registry)
        self._hooks: Hooks | None = None
        self._forward: ForwardWatch | None = None
        self._is_compiling = False

    def version(self) -> str:
        return str(torch.__version__)

    def install(self, probes: Probes, guard: Guard) -> None:
        self._hooks = Hooks(probes, guard, self._on_compile)
        self._hooks.install()
        self._forward = ForwardWatch(self._names, guard, self._tell)
        self._registry.install()

    def uninstall(self) -> None:
        if self._hooks is not None:
            self._hooks.uninstall()
            self._registry.uninstall()
        if self._forward is not None:
            self._forward.end()
            self._forward = None
            self._hooks = None

    def register(self, model: Any) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"a model is a torch.nn.Module, not {type(model).__name__}")
        self._registry.note(model)

    def subject(self, optimizer: Any) -> TorchSubject:
        return TorchSubject(optimizer, self._names, self._tell)

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._forward is None:
            return
        if self._is_compiling:
            self._tell("activations are not captured: torch.compile is used, and a hook would cut its graphs")
            return
        self._forward.begin(items)

    def end_forward(self) -> CapturedTensors | None:
        if self._forward is None:
            return None
        self._forward.end()
        return self._forward.captured

    def _on_compile(self) -> None:
        """From here on no forward hook is ever active: it would be traced."""
        self._is_compiling = True
        if self._forward is not None:
            self._forward.end()

    def rank(self) -> int | None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        return None

    def number(self, value: Any) -> float:
        if isinstance(value, torch.Tensor):
            with torch._C.DisableTorchFunction(), torch.no_grad():
                return float(value.detach())
        return float(value)
