"""The PyTorch adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import torch

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.labels import Labels
from leadline.frameworks.torch.capture.continuation import LatestOptimizer
from leadline.frameworks.torch.capture.device_copy import DeviceScalar, PendingRow, number_of, row_of
from leadline.frameworks.torch.capture.forward_capture import CapturedTensors
from leadline.frameworks.torch.capture.loss_inputs import LossInputs
from leadline.frameworks.torch.capture.optimizer_capture import TorchSubject
from leadline.frameworks.torch.capture.resized_embeddings import ResizedEmbeddings
from leadline.frameworks.torch.capture.step_count import steps_before
from leadline.frameworks.torch.check.check_hooks import CheckHooks
from leadline.frameworks.torch.diagnose.dropped_examples import DroppedExamples
from leadline.frameworks.torch.diagnose.epoch_orders import EpochOrders
from leadline.frameworks.torch.diagnose.loaded_states import LoadedStates
from leadline.frameworks.torch.diagnose.loop_checks import LoopChecks
from leadline.frameworks.torch.diagnose.memory import OutOfMemoryWatch, is_out_of_memory, memory_by_owner
from leadline.frameworks.torch.diagnose.rollouts import Rollouts
from leadline.frameworks.torch.diagnose.scaled_clips import ScaledClips
from leadline.frameworks.torch.diagnose.schedules import Schedules
from leadline.frameworks.torch.diagnose.starting_over import StartingOver
from leadline.frameworks.torch.diagnose.unaccumulated_batches import UnaccumulatedBatches
from leadline.frameworks.torch.diagnose.unfit_states import UnfitStates
from leadline.frameworks.torch.diagnose.unused_loads import UnusedLoads
from leadline.frameworks.torch.hooks.clipping import Clipping
from leadline.frameworks.torch.hooks.compiled_models import CompiledModels
from leadline.frameworks.torch.hooks.dynamo import hide_pending_functions
from leadline.frameworks.torch.hooks.forward_hooks import ForwardHooks
from leadline.frameworks.torch.hooks.keras_losses import KerasLosses
from leadline.frameworks.torch.hooks.manual_steps import ManualSteps
from leadline.frameworks.torch.hooks.mode_watch import EvalModeWatch
from leadline.frameworks.torch.hooks.model_hooks import ModelHooks
from leadline.frameworks.torch.hooks.step_hooks import StepHooks
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.frameworks.torch.kernels.current_stream import CurrentStream
from leadline.frameworks.torch.naming.model_names import ModuleNames, ModuleRegistry, ParameterNames
from leadline.frameworks.torch.timing.call_timing import CheckpointHooks, CollectiveHooks, DataLoaderHooks
from leadline.frameworks.torch.timing.loader_workers import FetchHooks, LoadingRecording
from leadline.frameworks.torch.timing.model_calls import ModelCallHook
from leadline.frameworks.torch.timing.operators import OperatorRecording
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.check import StepChecks
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Recording
from leadline.instrumentation.timeline.device_clock import DeviceClock
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.records.doctor_report import Inventory, UncapturedEntry
from leadline.records.memory_by_owner import MemoryByOwner
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, needs_forward_pass
from leadline.records.profile_window import ProfileWindow


class _Hooks(Protocol):
    """Hooks or replaced functions of PyTorch."""

    def install(self) -> None: ...

    def uninstall(self) -> None: ...


class TorchAdapter:
    """See ``leadline.frameworks.adapter.Adapter``."""

    name = "torch"
    family: Family = "network"

    def __init__(self, warn: Callable[[str], None]) -> None:
        """
        Args:
            warn: Called with a message about something that cannot be captured.
        """
        self._warn = warn
        self._registry = ModuleRegistry()
        self._names = ParameterNames(self._registry, lambda roots: self._module_names.add_trained(roots))
        self._module_names = ModuleNames(self._names)
        self._labels = Labels()
        self._clipping: Clipping | None = None
        self._hooks: StepHooks | None = None
        self._forward: ForwardHooks | None = None
        self._timeline: StepTimeline | None = None
        self._model_calls: ModelCallHook | None = None
        self._installed: list[_Hooks] = []
        self._operators: OperatorRecording | None = None
        self._is_explicit_evaluation = False
        self._compiled = CompiledModels()
        self._watched: Sequence[CaptureItem] | None = None
        """What the current step captures of forward passes; None: nothing."""

    def version(self) -> str:
        return str(torch.__version__)

    def knows(self, thing: object) -> bool:
        if isinstance(thing, (torch.Tensor, torch.nn.Module, DeviceScalar)):
            return True
        return isinstance(getattr(thing, "param_groups", None), list)

    def captures_between_steps(self, item: CaptureItem) -> bool:
        return needs_forward_pass(item)

    def describe(self) -> TrainingDescription:
        return {}

    def steps_before(self, optimizer: Any) -> int | None:
        return steps_before(optimizer)

    def continues(self, optimizer: Any) -> bool:
        return self._hooks is not None and self._hooks.latest.is_continued_by(optimizer)

    def takes_over(self, optimizer: Any) -> bool:
        return self._hooks is not None and self._hooks.latest.is_left

    def batch(self) -> list[NamedTensor]:
        return self._model_calls.batch(self._module_names) if self._model_calls is not None else []

    def inventory(self, optimizers: Sequence[Any]) -> Inventory:
        from leadline.frameworks.torch.diagnose.inventory import inventory

        return inventory(optimizers)

    def coverage_gaps(self, optimizers: Sequence[Any], backwards: int) -> list[UncapturedEntry]:
        from leadline.frameworks.torch.diagnose.inventory import find_coverage_gaps, no_step_gap

        gaps = find_coverage_gaps(optimizers)
        return [
            UncapturedEntry(what=gap.what, why=gap.why)
            for gap in (gaps if optimizers else [*gaps, no_step_gap(backwards)])
        ]

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        hide_pending_functions()
        hook_guard = HookGuard(guard, callbacks.cost)
        lost = StartingOver(
            LatestOptimizer(), UnfitStates(callbacks.facts.of("states that models are loaded from are")), hook_guard
        )
        schedules = Schedules(hook_guard)
        loaded = LoadedStates(schedules, lost.scheduled_steps, hook_guard)
        self._clipping = Clipping(hook_guard, self._warn, callbacks)
        sources = (
            ScaledClips(hook_guard, self._clipping, callbacks.wants_checks),
            EpochOrders(hook_guard, self._module_names.is_evaluating),
            Rollouts(hook_guard, callbacks.facts.of("episodes are")),
            UnaccumulatedBatches(hook_guard, callbacks.facts.of("batches that are to be accumulated are")),
            DroppedExamples(hook_guard, callbacks.facts.of("examples that were left out are")),
        )
        checks = LoopChecks(self._names, self._registry, callbacks, lost, schedules, loaded, sources)
        hooks = ModelHooks(self._registry, self._compiled)
        self._forward = ForwardHooks(self._module_names, hooks, callbacks, guard, hook_guard, checks, self._warn)
        self._timeline = timeline = callbacks.timeline
        self._model_calls = ModelCallHook(timeline, hook_guard)
        loss_inputs = LossInputs(callbacks, self._forward.losses, self._registry)
        manual = ManualSteps(callbacks, checks, self._forward, self._names)
        self._hooks = StepHooks(
            callbacks,
            hook_guard,
            self._forward,
            checks,
            loss_inputs,
            self._model_calls,
            manual,
            self._on_compile,
            self._on_compiled,
        )
        self._install(self._hooks)
        if not self._compiled.exist:
            self._install(self._model_calls)
        self._install(self._clipping)
        self._install(lost)
        self._install(schedules)
        for source in sources:
            self._install(source)
        if callbacks.captures_checks():
            of_loads = callbacks.facts.of("algorithms that are loaded are")
            self._install(UnusedLoads(hook_guard, of_loads, callbacks.record_checks))
        self._install(ResizedEmbeddings(guard, callbacks.facts.of("tokens that were added are")))
        self._install(loaded)
        self._install(EvalModeWatch(guard, callbacks.cost, self._is_evaluation, self._on_mode_change))
        self._install(self._registry)
        on_trained = self._module_names.add_trained
        self._install(KerasLosses(self._forward, loss_inputs, guard, callbacks.facts, on_trained))
        self._install(DataLoaderHooks(timeline, hook_guard))
        for kind in (CheckpointHooks, CollectiveHooks):
            self._install(kind(timeline, guard))

    def _install(self, hooks: _Hooks) -> None:
        self._installed.append(hooks)
        hooks.install()

    def uninstall(self) -> None:
        for hooks in self._installed:
            hooks.uninstall()
        self._installed.clear()
        if self._forward is not None:
            self._forward.stop()
        self._hooks = self._forward = None

    def watch_data_loading(self, profiles: str, guard: Guard) -> Callable[[ProfileWindow], Recording]:
        """Make data loader workers watch for profile windows; return the function that records one.

        Args:
            profiles: The folder of the run's profiles.
        """
        self._install(FetchHooks(profiles, guard))
        return lambda window: LoadingRecording(profiles, guard)

    def watch_checks(self, checks: StepChecks, guard: Guard) -> None:
        self._install(CheckHooks(checks, guard))

    def watch_memory(self, on_out_of_memory: Callable[[str], None]) -> OutOfMemoryWatch:
        return OutOfMemoryWatch(on_out_of_memory)

    def is_out_of_memory(self, error: object) -> bool:
        return is_out_of_memory(error)

    def memory_by_owner(self, optimizers: Iterable[object]) -> MemoryByOwner:
        return memory_by_owner(self._module_names.trained(), optimizers)

    def open_operators(self, window: ProfileWindow, guard: Guard) -> Recording:
        """Return a recording of every operator call in a profile window."""
        self._operators = OperatorRecording(window, self._module_names, guard)
        return self._operators

    def register(self, model: Any) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"a model is a torch.nn.Module, not {type(model).__name__}")
        self._registry.add(model)
        self._module_names.add_trained([model])

    def subject(self, optimizer: Any) -> TorchSubject:
        assert self._clipping is not None
        assert self._hooks is not None
        self._clipping.wrap_new_imports()
        self._set_device_clock(optimizer)
        if self.is_distributed():
            self._hooks.reductions.discover(self._registry.outermost())
        return TorchSubject(optimizer, self._names, self._labels, self._clipping, self._hooks.scaler_of, self._warn)

    def _set_device_clock(self, optimizer: Any) -> None:
        """Use the clock of the device that holds the optimizer's first parameter, else the host clock."""
        device = next((parameter.device for group in optimizer.param_groups for parameter in group["params"]), None)
        if device is None or self._timeline is None or "device" in self._timeline.facts:
            return
        self._timeline.facts["device"] = str(device)
        if device.type in CLOCKS:
            self._timeline.time_on(CLOCKS[device.type](device))
        elif device.type != "cpu":
            self._warn(f"steps are timed by the host clock: timing on {device} is not supported")

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        if self._forward is None:
            return
        if self._compiled.exist:
            what = "of models only inputs, outputs and losses" if self._compiled.are_observable else "no activations"
            if items:
                self._warn(f"{what} are captured: the script uses torch.compile, and hooks would break its graphs")
            self._warn("flops_per_step is unknown: the script uses torch.compile, and calls in its graphs are not seen")
        if self._compiled.are_observable:
            self._watched = items
            self._forward.begin(items)

    def end_forward(self) -> CapturedTensors | None:
        if self._forward is None:
            return None
        self._watched = None
        self._forward.end()
        self._record_flops(self._forward)
        return self._forward.captured

    def _record_flops(self, forward: ForwardHooks) -> None:
        """Record the FLOPs of the step, extrapolated from its first micro-batch."""
        total = forward.flops
        if self._timeline is not None and total:
            times = self._timeline.backwards if forward.models_called == 1 else 1
            self._timeline.facts["flops_per_step"] = total * max(times, 1)

    def _on_compile(self) -> None:
        """Remove all forward hooks: ``torch.compile`` would trace them."""
        if self._model_calls is not None:
            self._model_calls.uninstall()
        if self._timeline is not None:
            self._timeline.compiles()
        if self._operators is not None:
            self._operators.stop_module_marks()
        if self._forward is not None:
            self._forward.end_eval()
            self._forward.stop()

    def _on_compiled(self, given: object, compiled: object) -> None:
        """Observe the rest of the step from outside of what was compiled."""
        self._compiled.add(given, compiled)
        if self._watched is not None and self._forward is not None and self._compiled.are_observable:
            self._forward.stop()
            self._forward.begin(self._watched)

    def _is_evaluation(self) -> bool:
        """Return whether an evaluation is under way, or a trained model is in eval mode."""
        is_under_way = self._forward is not None and self._forward.passes.is_evaluation
        return is_under_way or self._is_explicit_evaluation or self._module_names.is_evaluating()

    def _on_mode_change(self) -> None:
        if self._forward is None or not self._compiled.are_observable:
            return
        if self._is_explicit_evaluation or self._module_names.is_evaluating():
            self._forward.begin_eval(is_explicit=self._is_explicit_evaluation)
        else:
            self._forward.end_eval()

    def end_step(self) -> None:
        if self._hooks is not None:
            self._hooks.end_manual_step()

    def end_evaluation(self) -> None:
        if self._forward is not None:
            self._forward.end_eval_step()

    def set_mode(self, *, is_evaluation: bool) -> None:
        self._is_explicit_evaluation = is_evaluation
        self._on_mode_change()

    def is_distributed(self) -> bool:
        distributed = torch.distributed
        return bool(distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)

    def captures_together(self) -> bool:
        return False

    def rank(self) -> int | None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        return None

    def number(self, value: Any) -> Any:
        if isinstance(value, DeviceScalar):
            return value
        if isinstance(value, torch.Tensor):
            number = number_of(value)
            return float("nan") if number is None else number
        return float(value)

    def row(self, values: Sequence[Any]) -> bytes | PendingRow:
        return row_of(values)


class CudaClock:
    """See ``leadline.instrumentation.timeline.device_clock.DeviceClock``; each mark is an event in the stream.

    Tested on a GPU only where one is available (``tests/gpu``).
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = CurrentStream(device)

    def mark(self) -> Any:
        if torch.cuda.is_current_stream_capturing():
            return None  # during graph capture an event would become part of the graph
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream.get())
        return event

    def is_past(self, mark: Any) -> bool:
        # a query during graph capture would abort the capture
        return not torch.cuda.is_current_stream_capturing() and bool(mark.query())

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def between_ns(self, first: Any, second: Any) -> int:
        return int(first.elapsed_time(second) * 1e6)


CLOCKS: Final[dict[str, Callable[[torch.device], DeviceClock]]] = {"cuda": CudaClock}
"""Constructors of clocks, by device type."""
