"""The PyTorch adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.torch.capture.captured_tensors import CapturedTensors
from leadline.frameworks.torch.capture.device_copy import LateRow, number_of, row_of
from leadline.frameworks.torch.capture.optimizer_capture import Labels, TorchSubject
from leadline.frameworks.torch.diagnose.loop_checks import LoopChecks
from leadline.frameworks.torch.diagnose.memory import OutOfMemoryWatch, is_out_of_memory, memory_by_owner
from leadline.frameworks.torch.hooks.clipping import Clipping
from leadline.frameworks.torch.hooks.dynamo import has_compiled, hide_earlier
from leadline.frameworks.torch.hooks.eval_mode import EvalModeWatch
from leadline.frameworks.torch.hooks.forward_hooks import ForwardHooks
from leadline.frameworks.torch.hooks.step_hooks import StepHooks
from leadline.frameworks.torch.naming.module_names import ModuleNames
from leadline.frameworks.torch.naming.module_registry import ModuleRegistry
from leadline.frameworks.torch.naming.parameter_names import ParameterNames
from leadline.frameworks.torch.timing.checkpoints import Checkpoints
from leadline.frameworks.torch.timing.collectives import Collectives
from leadline.frameworks.torch.timing.cuda_clock import CLOCKS
from leadline.frameworks.torch.timing.data_loading import Loading
from leadline.frameworks.torch.timing.loader_workers import Fetching, LoadingRecording
from leadline.frameworks.torch.timing.operators import OperatorRecording
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, is_of_forward
from leadline.records.profile_window import ProfileWindow
from leadline.training.guard import Guard
from leadline.training.recording import Recording
from leadline.training.timeline.step_timeline import StepTimeline


class TorchAdapter:
    """See ``leadline.frameworks.adapter.Adapter``."""

    name = "torch"
    family: Family = "network"

    def __init__(self, tell: Callable[[str], None]) -> None:
        """
        Args:
            tell: Takes a line about something that cannot be captured.
        """
        self._tell = tell
        self._registry = ModuleRegistry()
        self._names = ParameterNames(self._registry)
        self._homes = ModuleNames(self._names)
        self._names.on_trained = self._homes.add_trained
        self._labels = Labels()
        self._clipping: Clipping | None = None
        self._hooks: StepHooks | None = None
        self._forward: ForwardHooks | None = None
        self._zone: EvalModeWatch | None = None
        self._timeline: StepTimeline | None = None
        self._around: tuple[Loading | Checkpoints | Collectives, ...] = ()
        """What tells of what a training does besides its passes."""
        self._operators: OperatorRecording | None = None
        self._fetching: Fetching | None = None
        self._is_named_evaluation = False
        self._is_compiling = has_compiled()

    @property
    def depths(self) -> TorchAdapter:
        return self

    def version(self) -> str:
        return str(torch.__version__)

    def knows(self, thing: object) -> bool:
        if isinstance(thing, (torch.Tensor, torch.nn.Module)):
            return True
        return isinstance(getattr(thing, "param_groups", None), list)

    def hears(self, item: CaptureItem) -> bool:
        return is_of_forward(item)

    def describe(self) -> dict[str, Any]:
        return {}

    def inventory(self, optimizers: Sequence[Any]) -> dict[str, Any]:
        from leadline.frameworks.torch.diagnose.inventory import inventory

        return inventory(optimizers)

    def uncovered(self, optimizers: Sequence[Any], backwards: int) -> list[dict[str, str]]:
        from leadline.frameworks.torch.diagnose.coverage_gaps import find_coverage_gaps, why_no_step

        found = find_coverage_gaps(optimizers)
        return [asdict(each) for each in (found if optimizers else [*found, why_no_step(backwards)])]

    def install(self, probes: StepCallbacks, guard: Guard) -> None:
        hide_earlier()
        self._forward = ForwardHooks(self._homes, probes, guard, self._tell)
        checks = LoopChecks(self._names, self._registry, probes)
        self._forward.on_call_without_gradients = checks.call_without_gradients
        self._hooks = StepHooks(probes, guard, self._forward, checks, self._on_compile)
        self._hooks.install()
        self._clipping = Clipping(guard, self._tell, probes.wants_gradient_norms)
        self._clipping.install()
        self._zone = EvalModeWatch(guard, self._on_mode_change)
        self._zone.install()
        self._registry.install()
        self._timeline = timeline = probes.timeline
        self._around = (Loading(timeline, guard), Checkpoints(timeline, guard), Collectives(timeline, guard))
        for each in self._around:
            each.install()

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
        for each in self._around:
            each.uninstall()
        if self._fetching is not None:
            self._fetching.uninstall()
        self._hooks = self._zone = self._forward = None

    def watch_fetching(self, profiles: str, guard: Guard) -> Callable[[ProfileWindow], Recording]:
        """Have the workers of data loaders look for windows; what records one.

        Args:
            profiles: The folder of the run's profiles.
        """
        self._fetching = Fetching(profiles, guard)
        self._fetching.install()
        return lambda window: LoadingRecording(profiles, guard)

    def out_of_memory(self, tell: Callable[[str], None]) -> OutOfMemoryWatch:
        """What tells that an accelerator has no memory left."""
        return OutOfMemoryWatch(tell)

    def is_out_of_memory(self, error: object) -> bool:
        """Whether an error says that there is no memory left."""
        return is_out_of_memory(error)

    def memory(self, optimizers: Iterable[object]) -> dict[str, Any]:
        """What the training's lasting tensors take, by module and category; in bytes."""
        return memory_by_owner(self._homes.trained(), optimizers)

    def open_operators(self, window: ProfileWindow, guard: Guard) -> Recording:
        """What records every operator call of a window."""
        self._operators = OperatorRecording(window, self._homes, guard)
        return self._operators

    def register(self, model: Any) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"a model is a torch.nn.Module, not {type(model).__name__}")
        self._registry.note(model)
        self._homes.add_trained([model])

    def subject(self, optimizer: Any) -> TorchSubject:
        assert self._clipping is not None
        assert self._hooks is not None
        self._clipping.look_again()
        self._note_device(optimizer)
        if self.is_distributed():
            self._hooks.reductions.look(self._registry.outermost())
        return TorchSubject(optimizer, self._names, self._labels, self._clipping, self._hooks.scaler_of, self._tell)

    def _note_device(self, optimizer: Any) -> None:
        """What the first of an optimizer's parameters is on computes, and has a clock, or the host's must do."""
        device = next((each.device for group in optimizer.param_groups for each in group["params"]), None)
        if device is None or self._timeline is None or "device" in self._timeline.facts:
            return
        self._timeline.facts["device"] = str(device)
        if device.type in CLOCKS:
            self._timeline.time_on(CLOCKS[device.type](device))
        elif device.type != "cpu":
            self._tell(f"steps are timed by the host's clock: that of {device} is not read")

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._forward is None:
            return
        if self._is_compiling:
            if items:
                self._tell("activations are not captured: torch.compile is used, and a hook would cut its graphs")
            self._tell("flops_per_step is not known: torch.compile is used, and nobody watches what is called")
            return
        self._forward.begin(items)

    def end_forward(self) -> CapturedTensors | None:
        if self._forward is None:
            return None
        self._forward.end()
        self._note_flops(self._forward)
        return self._forward.captured

    def _note_flops(self, forward: ForwardHooks) -> None:
        """What the step computes, of which the first micro-batch was seen."""
        total = forward.flops.total
        if self._timeline is not None and total:
            times = self._timeline.backwards if forward.models_seen == 1 else 1
            self._timeline.facts["flops_per_step"] = total * max(times, 1)

    def _on_compile(self) -> None:
        """From here on no forward hook is ever active: it would be traced."""
        self._is_compiling = True
        if self._timeline is not None:
            self._timeline.compiles()
        if self._operators is not None:
            self._operators.leave_modules()
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
