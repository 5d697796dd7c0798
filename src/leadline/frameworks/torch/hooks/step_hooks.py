"""The three places where PyTorch tells of a training step: optimizer steps, the gradient scaler, backward passes."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, Final

import torch
from torch.optim import optimizer as torch_optimizer

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.torch.capture.device_copy import LateNumber, number_of, scale_of
from leadline.frameworks.torch.diagnose.loop_checks import LoopChecks
from leadline.frameworks.torch.hooks.dynamo import hide
from leadline.frameworks.torch.hooks.forward_hooks import ForwardHooks
from leadline.frameworks.torch.hooks.tracing import UnseenGuard
from leadline.frameworks.torch.timing.gradient_reduction import GradientReductions
from leadline.training.guard import Guard

_NOT_THE_SCRIPT: Final = (torch.__file__.rsplit("/", 1)[0] + "/", __file__.rsplit("/", 1)[0] + "/")
_MOST_SCALED: Final = 64


class _StepFrame:
    """The outermost optimizer step under way in a thread."""

    __slots__ = ("caller", "depth", "found_inf", "is_read", "optimizer")

    def __init__(self, optimizer: object, caller: FrameType) -> None:
        self.optimizer = optimizer
        self.caller = caller
        self.depth = 0
        self.is_read = False
        self.found_inf: torch.Tensor | None = None
        """Above 0 where a fused optimizer will skip by itself: its scaler calls it all the same."""

    def is_stale(self, current: FrameType) -> bool:
        """Whether the step was left by an exception: its frame is no longer on the stack."""
        frame: FrameType | None = current
        while frame is not None:
            if frame is self.caller:
                return False
            frame = frame.f_back
        return True


class _Local(threading.local):
    frame: _StepFrame | None = None


class StepHooks:
    """Installs the hooks, and turns what they see into probes.

    A step is the outermost ``optimizer.step`` or ``GradScaler.step`` of a thread: ``super().step()`` and wrappers
    nest. A scaler that skips never calls its optimizer, or a fused one skips by itself; the gradients are read all
    the same. Optimizers that step within a backward pass make one step together, which ends with it.
    """

    def __init__(
        self,
        probes: StepCallbacks,
        guard: Guard,
        forward: ForwardHooks,
        checks: LoopChecks,
        on_compile: Callable[[], None],
    ) -> None:
        """
        Args:
            forward: Is told of backward passes, and knows the loss calls that they come from.
            checks: Is told of backward passes and steps.
            on_compile: Called when something is about to be compiled for the first time and at every time after.
        """
        self._probes, self._guard, self._on_compile = probes, UnseenGuard(guard), on_compile
        self._forward, self._checks, self._timeline = forward, checks, probes.timeline
        self.reductions = GradientReductions()
        self._local = _Local()
        self._scaled: dict[int, tuple[weakref.ref[torch.Tensor], weakref.ref[Any]]] = {}
        self._scalers: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()
        self._stepped_within: list[Any] = []
        """Optimizers that stepped within the backward pass under way, from the hooks of their parameters."""
        self._leads_within: weakref.WeakSet[Any] = weakref.WeakSet()
        self._handles: list[Any] = []
        self._originals: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Put the hooks in place."""
        self._handles = [
            torch_optimizer.register_optimizer_step_pre_hook(self._make_pre_hook()),
            torch_optimizer.register_optimizer_step_post_hook(self._make_post_hook()),
        ]
        self._patch(torch.autograd, "_engine_run_backward", self._make_backward)
        self._patch(torch.amp.GradScaler, "step", self._make_scaler_step)
        self._patch(torch.amp.GradScaler, "scale", self._make_scale)
        self._patch(torch, "compile", self._make_compile)
        self._patch(torch.nn.Module, "compile", self._make_compile)

    def uninstall(self) -> None:
        """Put everything back that still bears our mark."""
        for handle in self._handles:
            handle.remove()
        for owner, name, original in reversed(self._originals):
            if getattr(getattr(owner, name), "_leadline", None) is self:
                setattr(owner, name, original)
        self._handles, self._originals = [], []

    def _patch(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        replacement = hide(make(original))
        replacement._leadline = self
        replacement.__wrapped__ = original
        replacement.__name__ = name
        self._originals.append((owner, name, original))
        setattr(owner, name, replacement)

    # The functions below run inside the user's training; they are closures because Dynamo must be kept from each
    # one by its code object, and because a bound method would be looked up anew at every call.

    def _make_pre_hook(self) -> Callable[..., Any]:
        local, guard, before_update = self._local, self._guard, self._before_update
        timeline = self._timeline

        def before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            caller = sys._getframe(1)
            frame = local.frame
            if frame is None or frame.is_stale(caller):
                frame = local.frame = _StepFrame(optimizer, caller)
                timeline.leave_update()
            frame.depth += 1
            if frame.is_read or frame.optimizer is not optimizer:
                return None
            closure = args[1] if len(args) > 1 else kwargs.get("closure")
            frame.found_inf = getattr(optimizer, "found_inf", None)
            if closure is None:
                frame.is_read = True
                guard.run(before_update, optimizer)
                return None
            guard.run(timeline.begin_update)
            read_once = _reading(closure, frame, before_update, guard)
            if len(args) > 1:
                return (args[0], read_once, *args[2:]), kwargs
            return args, {**kwargs, "closure": read_once}

        return hide(before_step)

    def _make_post_hook(self) -> Callable[..., Any]:
        local, guard, stepped_within = self._local, self._guard, self._stepped_within
        after_part, after_update = self._after_part, self._after_update

        def after_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            frame = local.frame
            if frame is None:
                return
            frame.depth -= 1
            if frame.depth == 0:
                local.frame = None
                if torch._C._current_graph_task_id() != -1:
                    guard.run(after_part, frame.optimizer)
                    stepped_within.append(frame.optimizer)
                    return
                guard.run(after_update, frame.optimizer)

        return hide(after_step)

    def _make_scaler_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, probes, guard, scalers = self._local, self._probes, self._guard, self._scalers
        after_part, timeline = self._after_part, self._timeline

        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(0)
            if local.frame is not None and not local.frame.is_stale(caller):
                return original(scaler, optimizer, *args, **kwargs)
            frame = local.frame = _StepFrame(optimizer, caller)
            frame.depth = 1
            timeline.leave_update()
            guard.run(timeline.begin_update)
            result = original(scaler, optimizer, *args, **kwargs)
            local.frame = None
            guard.run(after_part, optimizer)
            scalers[optimizer] = weakref.ref(scaler)
            is_skipped: LateNumber | bool | None = True
            if frame.is_read:
                is_skipped = guard.run(_overflow, frame.found_inf)
            if not frame.is_read:
                guard.run(probes.before_update, optimizer)
            guard.run(probes.after_update, optimizer, is_skipped=is_skipped or False)
            return result

        return step

    def _make_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        on_compile = self._on_compile

        def compile(*args: Any, **kwargs: Any) -> Any:
            on_compile()
            return original(*args, **kwargs)

        return compile

    def _make_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        scaled = self._scaled

        def scale(scaler: Any, outputs: Any) -> Any:
            result = original(scaler, outputs)
            if isinstance(result, torch.Tensor) and scaler.is_enabled():
                if len(scaled) > _MOST_SCALED:
                    scaled.clear()
                scaled[id(result)] = (weakref.ref(result), weakref.ref(scaler))
            return result

        return scale

    def _make_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, stepped_within = self._guard, self._stepped_within
        begin_backward, end_backward = self._begin_backward, self._end_backward

        def _engine_run_backward(t_outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            # A nested call (checkpointing) is nobody's loss; without accumulation it is autograd.grad.
            if torch._C._current_graph_task_id() != -1 or not kwargs.get("accumulate_grad"):
                return original(t_outputs, *args, **kwargs)
            stepped_within.clear()  # what a backward pass that raised has left
            guard.run(begin_backward, t_outputs, sys._getframe(1))
            result = original(t_outputs, *args, **kwargs)
            guard.run(end_backward)
            return result

        return _engine_run_backward

    def _begin_backward(self, outputs: Sequence[Any], caller: FrameType) -> None:
        self._timeline.end_forward(*self._forward.seen_ns())
        self._forward.at_backward()
        if self._checks.is_wanted:
            self._checks.at_backward()
        if self._probes.wants_loss():
            self._tell_losses(outputs, caller)
        if not self._probes.listener.is_calm:
            self._probes.listener.mark("backward")
        self._timeline.begin_backward()

    def _end_backward(self) -> None:
        took_ns = self._timeline.end_backward()
        if self.reductions and took_ns:
            for each in self.reductions.after_backward(took_ns):
                self._timeline.reduction(each.waited_ns, each.group, each.bytes)
        if self._stepped_within:
            self._end_steps_within()

    def _before_update(self, optimizer: Any) -> None:
        self._probes.before_update(optimizer)
        if self._checks.is_wanted:
            self._checks.before_update(optimizer)
        self._timeline.begin_update()

    def _after_update(self, optimizer: Any) -> None:
        self._timeline.end_update()
        if self._checks.is_wanted:
            self._checks.after_update(optimizer)
        self._probes.after_update(optimizer, is_skipped=False)

    def _after_part(self, optimizer: Any) -> None:
        """An optimizer has stepped within something that will tell of it."""
        self._timeline.end_update()
        self._checks.after_update(optimizer)

    def scaler_of(self, optimizer: object) -> Any:
        """The gradient scaler that steps an optimizer; None: there is none."""
        known = self._scalers.get(optimizer)
        scaler = known() if known is not None else None
        return scaler if scaler is not None and scaler.is_enabled() else None

    def _end_steps_within(self) -> None:
        """The backward pass has ended in which optimizers stepped: one step of the training, told by one of them."""
        stepped = list(dict.fromkeys(self._stepped_within))
        self._stepped_within.clear()
        leader = next((each for each in stepped if each in self._leads_within), stepped[0])
        self._leads_within.add(leader)
        for each in stepped:
            if each is not leader:
                self._probes.after_update(each, is_skipped=False, is_part=True)
        self._probes.after_update(leader, is_skipped=False)

    def _tell_losses(self, outputs: Sequence[Any], frame: FrameType) -> None:
        site = _call_site(frame)
        for output in outputs:
            if isinstance(output, torch.Tensor) and output.numel() == 1 and not output.is_meta:
                scale, node = self._unscaled(output)
                name, factor = self._forward.losses.settle(site, node)
                value = number_of(output)
                if value is not None:
                    self._probes.loss(site, value / factor / scale, name)

    def _unscaled(self, output: torch.Tensor) -> tuple[LateNumber | float, Any]:
        """What a gradient scaler multiplied a loss by, and the loss's own place in the graph."""
        known = self._scaled.pop(id(output), None)
        node = output.grad_fn
        if known is None or known[0]() is not output:
            return 1.0, node
        return scale_of(known[1]()), node.next_functions[0][0] if node is not None else None


def _reading(
    closure: Callable[[], Any], frame: _StepFrame, before_update: Callable[[Any], None], guard: UnseenGuard
) -> Callable[[], Any]:
    """The closure of ``step(closure)``; the gradients are read after its first evaluation."""

    def read_once() -> Any:
        result = closure()
        if not frame.is_read:
            frame.is_read = True
            guard.run(before_update, frame.optimizer)
        return result

    return hide(read_once)


def _overflow(found_inf: Any) -> LateNumber | bool:
    """Whether a fused optimizer skips by itself, as its scaler has told it; perhaps only its device knows yet."""
    found = number_of(found_inf) if isinstance(found_inf, torch.Tensor) else None
    return found if isinstance(found, LateNumber) else found is not None and found > 0


def _is_between(code: CodeType) -> bool:
    return code.co_name == "__torch_function__" or code.co_filename.startswith(_NOT_THE_SCRIPT)


def _call_site(frame: FrameType | None) -> object:
    """The first place outside PyTorch, ourselves and the script's function modes that leads here: file and line."""
    while frame is not None and _is_between(frame.f_code):
        frame = frame.f_back
    return (frame.f_code, frame.f_lineno) if frame is not None else None
