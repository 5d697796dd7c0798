"""Hooks that record a training step, and have it checked on a copy before its update."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.optim import optimizer as torch_optimizer
from torch.overrides import _get_current_function_mode
from torch.utils.data.dataloader import _BaseDataLoaderIter

from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.check.carried_states import draws_at_random, last_state
from leadline.frameworks.torch.check.forked_check import Copied, ForkedCheck
from leadline.frameworks.torch.check.step_tape import TRANSFORMED, TapeMode, is_model, plain_values, unseen
from leadline.frameworks.torch.hooks.dynamo import has_compiled, hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import is_transformed
from leadline.instrumentation.check import StepChecks
from leadline.instrumentation.guard import Guard

KEPT: Final = 64
"""Elements of each gradient of the step before that are kept."""


class CheckHooks:
    """Counts the steps of the first optimizer that steps, records the ones to check, and forks the copy.

    A step is recorded from the end of the step before to the moment at which its optimizer is about to use the
    gradients: the weights of the copy are those of the forward pass. If that optimizer is deleted, the next one that
    steps takes its place.
    """

    def __init__(self, checks: StepChecks, guard: Guard) -> None:
        """
        Args:
            checks: What is to be checked, and takes the results.
        """
        self._checks, self._guard = checks, guard
        self._fact = checks.fact
        self._owner: weakref.ref[Any] | None = None
        self._others: list[weakref.ref[Any]] = []
        self._steps = 0
        self._depth = 0
        self._mode: TapeMode | None = None
        self._handles: list[Any] = []
        self._patches, self._recording = Patches(), Patches()
        self._called: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._last_states: dict[int, tuple[torch.Tensor, ...]] = {}

    def install(self) -> None:
        """Install the hooks of optimizers."""
        self._handles = [
            torch_optimizer.register_optimizer_step_pre_hook(self._make_pre_hook()),
            torch_optimizer.register_optimizer_step_post_hook(self._make_post_hook()),
        ]

    def uninstall(self) -> None:
        """Remove the hooks; a step that is being recorded is not checked."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._recording.restore()
        self._stop_recording()

    def _make_pre_hook(self) -> Callable[..., Any]:
        guard, alone, before_step = self._guard, self._alone, self._before_step

        def before_update(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._depth += 1
            if self._mode is None or self._depth > 1:
                return None
            closure = args[1] if len(args) > 1 else kwargs.get("closure") if kwargs else None
            if closure is None:
                guard.run(alone, before_step, optimizer)
                self._pause(1)
                return None
            checked = self._checking_closure(closure, optimizer)
            return ((args[0], checked, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": checked})

        return hide_from_dynamo(before_update)

    def _checking_closure(self, closure: Callable[[], Any], optimizer: Any) -> Callable[[], Any]:
        """Return the closure of ``step(closure)``, which is checked after its first evaluation."""
        is_first = True

        def evaluate() -> Any:
            nonlocal is_first
            result = closure()
            if is_first:
                is_first = False
                self._guard.run(self._alone, self._before_step, optimizer)
                self._pause(1)
            return result

        return hide_from_dynamo(evaluate)

    def _make_post_hook(self) -> Callable[..., Any]:
        guard, alone, after_step = self._guard, self._alone, self._after_step

        def after_update(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._depth = max(self._depth - 1, 0)
            if self._depth == 0:
                self._pause(-1)
                guard.run(alone, after_step, optimizer)

        return hide_from_dynamo(after_update)

    def _alone(self, function: Callable[[Any], None], optimizer: Any) -> None:
        """Call a function of which a failure ends the checks, and nothing else that is captured."""
        self._fact.call(function, optimizer)
        if self._fact.has_ended:
            self._recording.restore()
            self._stop_recording()

    def _pause(self, change: int) -> None:
        if self._mode is not None:
            self._mode.paused = max(self._mode.paused + change, 0)

    def _after_step(self, optimizer: Any) -> None:
        if self._owner is None or self._owner() is None:
            self._owner = weakref.ref(optimizer)
        if optimizer is not self._owner():
            self._others = [other for other in self._others if other() not in (None, optimizer)]
            self._others.append(weakref.ref(optimizer))
            if self._mode is not None:
                self._mode.tape.leave_to(optimizer)
            return
        self._steps += 1
        self._checks.poll()
        if self._mode is not None:
            return
        if self._checks.checks_step(self._steps):
            self._begin_recording(optimizer)
        elif self._checks.checks_step(self._steps + 1):
            self._recording.replace(
                torch.nn.Module,
                "__call__",
                lambda call: _noted_module(call, self._called, self._note_state),
            )

    def _before_step(self, optimizer: Any) -> None:
        mode = self._mode
        if mode is None or self._owner is None or optimizer is not self._owner():
            return
        tape = mode.tape
        self._stop_recording()
        if torch._C._current_graph_task_id() != -1:
            tape.problem = "the optimizer steps within the backward pass"
        others = tuple(other for reference in self._others if (other := reference()) is not None)
        copied = Copied(tape, optimizer, others, self._steps)
        self._checks.begin(ForkedCheck(copied), self._steps)

    # --- recording ----------------------------------------------------------------------------------------------

    def _begin_recording(self, optimizer: Any) -> None:
        if has_compiled() and os.environ.get("TORCHDYNAMO_DISABLE") != "1":
            self._checks.refuse("the script uses torch.compile", self._steps)
            return
        self._recording.restore()
        self._mode = mode = TapeMode()
        self._keep_values(mode)
        self._recording.replace(torch.nn.Module, "__call__", lambda original: _recorded_model(original, mode))
        self._recording.replace(torch.autograd, "_engine_run_backward", lambda run: _recorded_backward(run, mode))
        self._recording.replace(torch.amp.GradScaler, "scale", lambda scale: _recorded_scaling(scale, mode))
        self._recording.replace(_BaseDataLoaderIter, "__next__", lambda original: _noted_batch(original, mode))
        self._keep_gradients(optimizer, mode)
        mode.__enter__()

    def _keep_values(self, mode: TapeMode) -> None:
        """Keep the numbers and arrays of the modules that the step before has called, as that step has left them."""
        with unseen():
            for reference in self._called.values():
                if (module := reference()) is not None and (values := plain_values(module)):
                    mode.tape.values[id(module)] = values
        self._called.clear()
        mode.tape.last_states, self._last_states = self._last_states, {}

    def _note_state(self, layer: torch.nn.Module, output: Any) -> None:
        """Keep the state that a recurrent layer has returned in the step before the one that is recorded."""
        if not is_transformed():
            self._fact.call(self._keep_state, layer, output)

    def _keep_state(self, layer: torch.nn.Module, output: Any) -> None:
        with unseen():
            self._last_states[id(layer)] = last_state(output)

    def _keep_gradients(self, optimizer: Any, mode: TapeMode) -> None:
        """Keep some elements of the gradients of the step before: they should be gone when the next ones are added."""
        with unseen():
            for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
                if parameter.grad is not None and not parameter.grad.is_sparse:
                    mode.tape.left_over[id(parameter)] = parameter.grad.detach().flatten()[:KEPT].clone()

    def _stop_recording(self) -> None:
        mode, self._mode = self._mode, None
        if mode is None:
            return
        self._recording.restore()
        mode.paused = 1 << 30
        if _get_current_function_mode() is mode and threading.get_ident() == mode.thread:
            mode.__exit__(None, None, None)
        else:
            mode.tape.problem = "a mode of the script was active at the end of the step"


def _noted_module(
    original: Callable[..., Any],
    called: dict[int, weakref.ref[torch.nn.Module]],
    note_state: Callable[[torch.nn.Module, Any], object],
) -> Callable[..., Any]:
    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        called[id(module)] = weakref.ref(module)
        output = original(module, *args, **kwargs)
        if isinstance(module, torch.nn.RNNBase):
            note_state(module, output)
        return output

    return hide_from_dynamo(call)


def _noted_batch(original: Callable[..., Any], mode: TapeMode) -> Callable[..., Any]:
    def following(iterator: Any) -> Any:
        batch = original(iterator)
        mode.attempt(mode.keep_batch, batch, is_random=draws_at_random(iterator))
        return batch

    return hide_from_dynamo(following)


def _recorded_model(original: Callable[..., Any], mode: TapeMode) -> Callable[..., Any]:
    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if mode.paused or threading.get_ident() != mode.thread or not is_model(module):
            return original(module, *args, **kwargs)
        if is_transformed():
            mode.tape.problem = mode.tape.problem or TRANSFORMED
            return original(module, *args, **kwargs)
        mode.attempt(mode.keep_inputs, (args, kwargs))
        mode.attempt(mode.keep_state, module)
        random_state = torch.get_rng_state()
        modes = tuple(part.training for part in module.modules())
        with mode.left_to_script():
            output = original(module, *args, **kwargs)
        mode.attempt(mode.add, module, args, kwargs, output, random_state, modes=modes)
        return output

    return hide_from_dynamo(call)


def _recorded_scaling(original: Callable[..., Any], mode: TapeMode) -> Callable[..., Any]:
    def scale(scaler: Any, outputs: Any) -> Any:
        result = original(scaler, outputs)
        if isinstance(result, torch.Tensor) and isinstance(outputs, torch.Tensor):
            mode.tape.unscaled[id(result)] = outputs
        return result

    return hide_from_dynamo(scale)


def _recorded_backward(original: Callable[..., Any], mode: TapeMode) -> Callable[..., Any]:
    def run(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == mode.thread and not mode.paused and kwargs.get("accumulate_grad"):
            unscaled = mode.tape.unscaled
            mode.tape.losses += [unscaled.get(id(out), out) for out in t_outputs if isinstance(out, torch.Tensor)]
        with mode.left_to_script():
            return original(t_outputs, *args, **kwargs)

    return hide_from_dynamo(run)
