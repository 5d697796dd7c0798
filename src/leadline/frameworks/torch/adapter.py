"""The PyTorch adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from leadline.frameworks.torch.hooks import Hooks
from leadline.frameworks.torch.models import Names
from leadline.frameworks.torch.program import TorchSubject
from leadline.frameworks.torch.registry import ModuleRegistry
from leadline.probes.adapter import Probes
from leadline.probes.guard import Guard


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

    def version(self) -> str:
        return str(torch.__version__)

    def install(self, probes: Probes, guard: Guard) -> None:
        self._hooks = Hooks(probes, guard)
        self._hooks.install()
        self._registry.install()

    def uninstall(self) -> None:
        if self._hooks is not None:
            self._hooks.uninstall()
            self._registry.uninstall()
            self._hooks = None

    def subject(self, optimizer: Any) -> TorchSubject:
        return TorchSubject(optimizer, self._names, self._tell)

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
