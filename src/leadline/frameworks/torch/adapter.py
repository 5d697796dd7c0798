"""The PyTorch adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from leadline.frameworks.torch.captured import CapturedTensors
from leadline.frameworks.torch.checks import LoopChecks
from leadline.frameworks.torch.clipping import Clipping
from leadline.frameworks.torch.dynamo import has_compiled
from leadline.frameworks.torch.evaluation import EvalZone
from leadline.frameworks.torch.forward import ForwardWatch
from leadline.frameworks.torch.homes import Homes
from leadline.frameworks.torch.hooks import Hooks
from leadline.frameworks.torch.models import Names
from leadline.frameworks.torch.readout import LateRow, number_of, row_of
from leadline.frameworks.torch.registry import ModuleRegistry
from leadline.frameworks.torch.subject import Labels, TorchSubject
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
        self._homes = Homes(self._names)
        self._names.on_trained = self._homes.add_trained
        self._labels = Labels()
        self._clipping: Clipping | None = None
        self._hooks: Hooks | None = None
        self._forward: ForwardWatch | None = None
        self._zone: EvalZone | None = None
        self._is_named_evaluation = False
        self._is_compiling = has_compiled()

    def version(self) -> str:
        return str(torch.__version__)

    def install(self, probes: Probes, guard: Guard) -> None:
        self._forward = ForwardWatch(self._homes, probes, guard, self._tell)
        checks = LoopChecks(self._names, self._registry, probes)
        self._forward.on_call_without_gradients = checks.call_without_gradients
        self._hooks = Hooks(probes, guard, self._forward, checks, self._on_compile)
        self._hooks.install()
        self._clipping = Clipping(guard, self._tell, probes.wants_gradient_norms)
        self._clipping.install()
        self._zone = EvalZone(guard, self._on_mode_change)
        self._zone.install()
        self._registry.install()

    def uninstall(self) -> None:
        if self._hooks is not None:
            self._hooks.uninstall()
            self._registry.uninstall()
        if self._clipping is not None:
            self._clipping.uninstall()
        if self._zone is not None:
            self._zone.uninstall()
        if self._forward is not None:
            self._forward.stop()
        self._hooks = self._zone = self._forward = None

    def register(self, model: Any) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"a model is a torch.nn.Module, not {type(model).__name__}")
        self._registry.note(model)
        self._homes.add_trained([model])

    def subject(self, optimizer: Any) -> TorchSubject:
        assert self._clipping is not None
        assert self._hooks is not None
        self._clipping.look_again()
        return TorchSubject(optimizer, self._names, self._labels, self._clipping, self._hooks.scaler_of, self._tell)

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._forward is None:
            return
        if self._is_compiling:
            if items:
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
            self._forward.close_zone()
            self._forward.stop()

    def _on_mode_change(self) -> None:
        if self._forward is None or self._is_compiling:
            return
        if self._is_named_evaluation or self._homes.is_evaluating():
            self._forward.open_zone(is_named=self._is_named_evaluation)
        else:
            self._forward.close_zone()

    def end_evaluation(self) -> None:
        if self._forward is not None:
            self._forward.end_eval_step()

    def name_mode(self, *, is_evaluation: bool) -> None:
        self._is_named_evaluation = is_evaluation
        self._on_mode_change()

    def is_distributed(self) -> bool:
        distributed = torch.distributed
        return bool(distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)

    def rank(self) -> int | None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        return None

    def number(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            found = number_of(value)
            return float("nan") if found is None else found
        return float(value)

    def row(self, values: Sequence[Any]) -> bytes | LateRow:
        return row_of(values)
