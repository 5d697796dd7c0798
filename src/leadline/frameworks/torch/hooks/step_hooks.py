"""Hooks that observe a training step: optimizer steps, the gradient scaler and backward passes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.capture.device_copy import DeviceScalar, number_of
from leadline.frameworks.torch.capture.loss_inputs import LossInputs
from leadline.frameworks.torch.capture.manual_updates import is_keras_here
from leadline.frameworks.torch.diagnose.loop_checks import LoopChecks
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.forward_hooks import ForwardHooks
from leadline.frameworks.torch.hooks.loss_reader import LossReader, ReadLoss, call_site, is_of_nothing
from leadline.frameworks.torch.hooks.manual_steps import ManualSteps
from leadline.frameworks.torch.hooks.step_frames import StepFrame, StepThread
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.frameworks.torch.timing.call_timing import GradientReductions
from leadline.frameworks.torch.timing.model_calls import ModelCallHook


class StepHooks:
    """Installs the hooks, and translates their calls into step callbacks.

    A step is the outermost ``optimizer.step`` or ``GradScaler.step`` of a thread: calls of ``super().step()`` and of
    wrappers nest. If a scaler skips the update, it never calls its optimizer, or a fused optimizer skips by itself; the
    gradients are captured in both cases. Optimizers that step within a backward pass form one step, which ends with it.
    """

    def __init__(
        self,
        callbacks: StepCallbacks,
        guard: HookGuard,
        forward: ForwardHooks,
        checks: LoopChecks,
        loss_inputs: LossInputs,
        model_calls: ModelCallHook,
        manual: ManualSteps,
        on_compile: Callable[[], None],
        on_compiled: Callable[[object, object], None],
    ) -> None:
        """
        Args:
            forward: Receives backward passes, and knows the loss calls that they start from.
            checks: Receives backward passes and steps.
            loss_inputs: Receives backward passes.
            model_calls: Observes the next forward pass after each backward pass and step.
            manual: Ends the steps until an optimizer steps.
            on_compile: Called before each call of ``torch.compile``.
            on_compiled: Called with what it was given, and what it has returned for it; None: a model compiled itself.
        """
        facts = callbacks.facts
        self._callbacks = callbacks
        self._guard = guard
        self._on_compile, self._on_compiled = on_compile, on_compiled
        self._forward = forward
        self._checks = checks
        self._timeline = callbacks.timeline
        self._loss_inputs = loss_inputs
        self._loss_facts = facts.of("facts about loss calls are")
        self._loop = facts.of("checks of the training loop are")
        self._skips = facts.of("whether a gradient scaler skips a step is")
        self._model_calls = model_calls
        self._expect_model = model_calls.expect
        callbacks.deferred.call_ns = guard.call_ns
        self._manual: ManualSteps | None = manual
        """None as soon as an optimizer has stepped, or Keras is there, whose adapter ends the steps."""
        self.reductions = GradientReductions()
        self.latest = checks.lost.latest
        self._local = StepThread()
        self._losses = LossReader(forward.losses, facts)
        self._scalers: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()
        self._stepped_in_backward: list[Any] = []
        """Optimizers that stepped within the current backward pass, from hooks of their parameters."""
        self._leaders: weakref.WeakSet[Any] = weakref.WeakSet()
        self._handles: list[Any] = []
        self._patches = Patches()

    def install(self) -> None:
        """Install the hooks."""
        if self._manual is not None:
            self._model_calls.follow(self._manual.begin_forward)
        self._handles = [
            torch_optimizer.register_optimizer_step_pre_hook(self._make_pre_hook()),
            torch_optimizer.register_optimizer_step_post_hook(self._make_post_hook()),
        ]
        replace = self._patches.replace
        replace(torch.autograd, "_engine_run_backward", self._make_backward)
        replace(torch.amp.GradScaler, "step", self._make_scaler_step)
        replace(torch.amp.GradScaler, "scale", self._make_scale)
        replace(torch, "compile", self._make_compile)
        replace(torch.nn.Module, "compile", self._make_compile)

    def uninstall(self) -> None:
        """Remove the hooks, and restore the functions."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._patches.restore()

    # The functions below run inside the user's training. They are closures because Dynamo must be excluded from each
    # one by its code object, and because a bound method would be looked up at every call.

    def _make_pre_hook(self) -> Callable[..., Any]:
        local, guard, before_update = self._local, self._guard, self._before_update
        timeline, before_loss_only_update = self._timeline, self._before_loss_only_update
        ends_steps, clock = self._callbacks.ends_steps, guard.clock

        def before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            begun_ns = clock()
            caller = sys._getframe(1)
            frame = local.frame
            if frame is None or frame.is_stale(caller):
                if frame is not None:
                    guard.run(timeline.leave_update)
                frame = local.frame = StepFrame(optimizer, caller)
            elif frame.optimizer is optimizer and not frame.has_read_gradients:  # within a scaler's step
                frame.found_inf = getattr(optimizer, "found_inf", None)
            frame.depth += 1
            if frame.has_read_gradients or frame.optimizer is not optimizer:
                return None
            closure = args[1] if len(args) > 1 else kwargs.get("closure") if kwargs else None
            if closure is None:
                frame.has_read_gradients = True
                if not (ends_steps(optimizer) and guard.defer(begun_ns, before_loss_only_update, optimizer)):
                    guard.run(before_update, optimizer)
                return None
            guard.run(timeline.begin_update)
            closure_with_capture = _wrap_closure(closure, frame, before_update, guard)
            if len(args) > 1:
                return (args[0], closure_with_capture, *args[2:]), kwargs
            return args, {**kwargs, "closure": closure_with_capture}

        return hide_from_dynamo(before_step)

    def _make_post_hook(self) -> Callable[..., Any]:
        local, guard, stepped_in_backward = self._local, self._guard, self._stepped_in_backward
        after_partial_update, after_update = self._after_partial_update, self._after_update
        after_loss_only_update, deferred = self._after_loss_only_update, self._callbacks.deferred
        has_request, clock, note_update = self._callbacks.has_request, guard.clock, self.latest.after_update

        def after_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            begun_ns = clock()
            frame = local.frame
            if frame is None:
                return
            frame.depth -= 1
            if frame.depth == 0:
                # the caller's variables hold a closure that refers to this object
                local.frame = frame.caller = None
                note_update(optimizer)
                if torch._C._current_graph_task_id() != -1:
                    guard.run(after_partial_update, frame.optimizer)
                    stepped_in_backward.append(frame.optimizer)
                    return
                if (
                    deferred.steps > 1
                    and not has_request()
                    and guard.defer(begun_ns, after_loss_only_update, frame.optimizer)
                ):
                    deferred.steps -= 1
                else:
                    guard.run(after_update, frame.optimizer)

        return hide_from_dynamo(after_step)

    def _make_scaler_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, callbacks, guard, scalers = self._local, self._callbacks, self._guard, self._scalers
        after_partial_update, timeline, skips = self._after_partial_update, self._timeline, self._skips

        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if local.frame is not None and not local.frame.is_stale(sys._getframe(0)):
                return original(scaler, optimizer, *args, **kwargs)
            # A reference to this function's own frame would keep the frames of all callers, with their variables,
            # until the garbage collector finds the cycle.
            frame = local.frame = StepFrame(optimizer, None)
            frame.depth = 1
            guard.run(timeline.leave_update)
            guard.run(timeline.begin_update)
            try:
                result = original(scaler, optimizer, *args, **kwargs)
            finally:
                local.frame = None
            self.latest.after_update(optimizer)
            guard.run(after_partial_update, optimizer)
            scalers[optimizer] = weakref.ref(scaler)
            is_skipped: DeviceScalar | bool | None = True
            if frame.has_read_gradients:
                is_skipped = guard.run(skips.call, _skips_update, frame.found_inf)
            if not frame.has_read_gradients:
                guard.run(callbacks.before_update, optimizer)
            guard.run(callbacks.after_update, optimizer, is_skipped=is_skipped or False)
            return result

        return hide_from_dynamo(step)

    def _make_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        on_compile, on_compiled, guard = self._on_compile, self._on_compiled, self._guard

        def compile(*args: Any, **kwargs: Any) -> Any:
            on_compile()
            compiled = original(*args, **kwargs)
            given = args[0] if args else kwargs.get("model")
            if given is not None:  # else it has returned a decorator
                guard.run(on_compiled, given, compiled)
            return compiled

        return hide_from_dynamo(compile)

    def _make_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        note_scaled = self._losses.note_scaled

        def scale(scaler: Any, outputs: Any) -> Any:
            result = original(scaler, outputs)
            if isinstance(result, torch.Tensor) and scaler.is_enabled():
                note_scaled(result, scaler)
            return result

        return hide_from_dynamo(scale)

    def _make_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, stepped_in_backward = self._guard, self._stepped_in_backward
        begin_backward, end_backward = self._begin_backward, self._end_backward
        read_losses, begin_loss_only_backward = self._losses.read_plain, self._begin_loss_only_backward
        end_loss_only_backward, expect_model, clock = self._timeline.end_backward, self._expect_model, guard.clock

        def _engine_run_backward(t_outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            begun_ns = clock()
            # A nested call (checkpointing) does not start at a loss; without accumulation it is autograd.grad.
            if torch._C._current_graph_task_id() != -1 or not kwargs.get("accumulate_grad"):
                return original(t_outputs, *args, **kwargs)
            if stepped_in_backward:
                stepped_in_backward.clear()  # left over from a backward pass that raised
            caller = sys._getframe(1)
            if not guard.defer_with(begun_ns, begin_loss_only_backward, read_losses, t_outputs, caller):
                guard.run(begin_backward, t_outputs, caller)
            result = original(t_outputs, *args, **kwargs)
            begun_ns = clock()
            if not stepped_in_backward and guard.defer(begun_ns, end_loss_only_backward):
                expect_model()
            else:
                guard.run(end_backward)
            return result

        return hide_from_dynamo(_engine_run_backward)

    def _begin_backward(self, outputs: Sequence[Any], caller: FrameType) -> None:
        callbacks, forward = self._callbacks, self._forward
        if self._manual is not None and is_keras_here():
            self._leave_manual_steps()
        if self._manual is not None:
            self._manual.before_backward(outputs)
        if forward.is_watching:
            self._timeline.end_forward(*forward.capture_times())
            forward.before_backward(outputs)
        else:
            self._timeline.end_forward()
        if self._checks.is_tracking:
            self._loop.call(self._checks.before_backward)
        losses = self._losses.read(outputs, caller) if callbacks.wants_loss() else []
        for loss in losses:
            callbacks.record_loss(*loss)
        if self._loss_inputs.is_active:
            self._loss_facts.call(self._loss_inputs.before_backward, outputs, call_site(caller))
        if not self._loss_inputs.is_active:
            is_suspicious = any(is_of_nothing(value) for _, value, _ in losses)
            if is_suspicious or forward.is_watching:
                self._loss_facts.call(
                    self._loss_inputs.count_ignored, outputs, call_site(caller), is_suspicious=is_suspicious
                )
        if not callbacks.listener.is_idle:
            callbacks.listener.mark("backward")
        self._timeline.begin_backward()

    def _begin_loss_only_backward(self, losses: list[ReadLoss]) -> None:
        """Begin a deferred backward pass, at a step at which nothing but losses is captured."""
        self._timeline.end_forward()
        if self._callbacks.wants_loss():
            for loss in losses:
                self._callbacks.record_loss(*loss)
        self._timeline.begin_backward()

    def _end_backward(self) -> None:
        duration_ns = self._timeline.end_backward()
        if self._manual is not None:
            self._manual.after_backward()
        self._expect_model()
        if duration_ns and self.reductions.replicas:
            for reduction in self.reductions.after_backward(duration_ns):
                self._timeline.reduction(reduction.waited_ns, reduction.group, reduction.bytes)
        if self._stepped_in_backward:
            self._end_steps_in_backward()

    def end_manual_step(self) -> None:
        """End the step under way, if no optimizer steps."""
        if self._manual is not None:
            self._manual.end_step()

    def _leave_manual_steps(self) -> None:
        """From now on optimizers end the steps."""
        self._manual = None
        self._model_calls.follow(None)

    def _before_update(self, optimizer: Any) -> None:
        if self._manual is not None:
            self._leave_manual_steps()
        self._forward.before_update()
        self.latest.before_update(optimizer)
        self._callbacks.before_update(optimizer)
        if self._checks.is_enabled:
            self._loop.call(self._checks.before_update, optimizer)
        self._timeline.begin_update()

    def _before_loss_only_update(self, optimizer: Any) -> None:
        """Handle the beginning of a deferred step of an optimizer."""
        self._callbacks.before_update(optimizer)
        self._timeline.begin_update()

    def _after_update(self, optimizer: Any) -> None:
        self._timeline.end_update()
        if self._checks.is_tracking:
            self._loop.call(self._checks.after_update, optimizer)
        self._callbacks.after_update(optimizer, is_skipped=False)
        self._loss_inputs.after_update()
        is_observing = self._checks.is_tracking or self._forward.is_observing or self._loss_inputs.is_active
        if not is_observing and not self.reductions.replicas:
            self._callbacks.defer_loss_only_steps()

    def _after_loss_only_update(self, optimizer: Any) -> None:
        """Handle the end of a deferred step of an optimizer."""
        self._timeline.end_update()
        self._callbacks.after_loss_only_update(optimizer)

    def _after_partial_update(self, optimizer: Any) -> None:
        """Handle a step inside a scaler step or backward pass, which reports the whole step itself."""
        if self._manual is not None:
            self._leave_manual_steps()
        self._timeline.end_update()
        if self._checks.is_tracking:
            self._loop.call(self._checks.after_update, optimizer)

    def scaler_of(self, optimizer: object) -> Any:
        """Return the gradient scaler that steps an optimizer; None: there is none."""
        reference = self._scalers.get(optimizer)
        scaler = reference() if reference is not None else None
        return scaler if scaler is not None and scaler.is_enabled() else None

    def _end_steps_in_backward(self) -> None:
        """End a backward pass in which optimizers stepped: one training step, ended by one of the optimizers."""
        stepped = list(dict.fromkeys(self._stepped_in_backward))
        self._stepped_in_backward.clear()
        leader = next((optimizer for optimizer in stepped if optimizer in self._leaders), stepped[0])
        self._leaders.add(leader)
        for optimizer in stepped:
            if optimizer is not leader:
                self._callbacks.after_update(optimizer, is_skipped=False, is_part=True)
        self._callbacks.after_update(leader, is_skipped=False)


def _wrap_closure(
    closure: Callable[[], Any], frame: StepFrame, before_update: Callable[[Any], None], guard: HookGuard
) -> Callable[[], Any]:
    """Wrap the closure of ``step(closure)`` to capture the gradients after its first evaluation."""

    def closure_with_capture() -> Any:
        result = closure()
        if not frame.has_read_gradients:
            frame.has_read_gradients = True
            guard.run(before_update, frame.optimizer)
        return result

    return hide_from_dynamo(closure_with_capture)


def _skips_update(found_inf: Any) -> DeviceScalar | bool:
    """Whether a fused optimizer skips the update, as its scaler has decided; the answer may still be on the device."""
    number = number_of(found_inf) if isinstance(found_inf, torch.Tensor) else None
    return number if isinstance(number, DeviceScalar) else number is not None and number > 0
