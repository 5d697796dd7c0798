"""Capture of module and function inputs and outputs through global forward hooks, installed only while needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.nn.modules.loss import _Loss

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.torch.capture.forward_capture import (
    LOSS_FUNCTIONS,
    CapturedTensors,
    keyword_tensors,
    module_collections,
    module_kind,
)
from leadline.frameworks.torch.capture.step_passes import StepPasses
from leadline.frameworks.torch.diagnose.loop_checks import LoopChecks
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.forward_losses import ForwardLosses
from leadline.frameworks.torch.hooks.function_mode import LOSS_KINDS, CallState, FunctionMode, function_collections
from leadline.frameworks.torch.hooks.inner_calls import InnerCalls
from leadline.frameworks.torch.hooks.model_hooks import ModelHooks
from leadline.frameworks.torch.hooks.tracing import HookGuard, is_transformed, python_call_ns
from leadline.frameworks.torch.naming.model_names import ModuleNames, unwrap
from leadline.instrumentation.guard import Guard
from leadline.records.plan import CaptureItem

_CALLS_PER_MODULE: Final = 320
"""What the two hooks of a module cost outside the measured spans, in calls of a Python function."""
_CALLS_PER_FUNCTION: Final = 40
"""The same of an observed PyTorch function."""


class ForwardHooks:
    """Captures inputs and outputs of modules, and of activations and losses called as functions.

    A training step is captured in its first forward pass, an eval step throughout. Names are ``<module>_input_<i>`` and
    ``<module>_output_<i>``, and for functions ``<calling module>.relu_output_<i>``; the root and loss modules are named
    after their class. If a module is called again within the pass, its index continues. Recomputations inside a
    backward pass do not count as forward passes. Values are read at once, before the script can change them in place.

    **Which pass** of a train or eval step a call belongs to is decided by ``StepPasses``.

    **Functions** are observed in forward passes with gradients and between forward passes, never inside an eval pass:
    a function mode would disable PyTorch's fast paths, and thereby change its results.
    """

    def __init__(
        self,
        module_names: ModuleNames,
        hooks: ModelHooks,
        callbacks: StepCallbacks,
        guard: Guard,
        hook_guard: HookGuard,
        checks: LoopChecks,
        warn: Callable[[str], None],
    ) -> None:
        """
        Args:
            guard: Runs what is timed here, as part of a forward pass.
            hook_guard: Runs, and times, everything else.
            checks: Receives calls and losses without gradients, and called modules that no optimizer may hold.
        """
        facts = callbacks.facts
        self._names, self._checks = facts.of("names of losses are"), facts.of("checks of the training loop are")
        self.passes = StepPasses(callbacks.evaluation, warn, facts, lambda module: self.losses.returns_loss(module))
        self.recorded = ForwardLosses(callbacks, self.passes, checks.loss_without_gradients)
        self.losses = self.recorded.calls
        self._call_without_gradients = checks.call_without_gradients
        self._called_modules = checks.called
        self._module_names = module_names
        self._callbacks = callbacks
        self._guard = guard
        self._hook_guard = hook_guard
        self._state = CallState()
        self._function_modes: list[FunctionMode] = []
        """One for each observed thread."""
        self._inner = InnerCalls()
        self._hooks = hooks
        self.is_watching = False
        """Whether the hooks are installed, or a function mode may be active."""
        self.enter: Callable[[torch.nn.Module, tuple[Any, ...]], None] = self._make_pre_hook()
        """Called at the beginning of each module call while the hooks are installed."""
        self._leave = self._make_post_hook()
        self._is_resumed = False
        """Whether the outermost call under way shows that the evaluation is over."""
        self.is_within_loss = False
        """Whether a loss of another library is computed, which is one loss call."""

    @property
    def captured(self) -> CapturedTensors:
        """What the train step captured."""
        return self.passes.train.captured

    @property
    def flops(self) -> int:
        """The operations of the train step's forward pass; 0 if not all of them were observed."""
        return 0 if self.passes.train.is_shallow else self.passes.train.flops.total

    # --- start and end ------------------------------------------------------------------------------------

    def begin(self, items: Sequence[CaptureItem]) -> None:
        """Capture the training step that begins, until ``end``."""
        self.passes.begin_train(items)
        self._register_hooks()

    def end(self) -> None:
        """End the capture of the training step; its values are in ``captured``."""
        self._add_observed_calls()
        self.passes.end_train()
        if self._state.mode is not None:
            self._state.mode.leave_when_possible()  # the step may end within a backward pass, where modes are inactive
        self.losses.clear()
        self._remove_hooks()

    def begin_eval(self, *, is_explicit: bool = False) -> None:
        """Start looking for eval steps: a trained model is in eval mode.

        Args:
            is_explicit: The script set the mode: every model counts, regardless of its ``training`` flag.
        """
        self.passes.begin_eval(is_explicit=is_explicit)
        self._register_hooks()

    def end_eval(self) -> None:
        """Stop looking for eval steps: all trained models are in training mode again."""
        self._add_observed_calls()
        self.passes.end_eval()
        self.stop_function_capture()
        self._remove_hooks()

    def stop(self) -> None:
        """Stop all capture."""
        self.passes.is_eval_mode = self.passes.is_eval_step = False
        for mode in self._function_modes:
            mode.leave_when_possible()
        self.end()

    def before_backward(self, outputs: Sequence[Any]) -> None:
        """Handle the start of a backward pass at these tensors."""
        self.stop_function_capture()
        self.passes.before_backward(outputs)
        if not self.passes.is_eval_mode:
            self._remove_hooks()

    def end_eval_step(self) -> None:
        """End the current eval step, if there is one."""
        self._add_observed_calls()
        self.passes.end_eval_step()

    def capture_times(self) -> tuple[int, int]:
        """Return the capture time so far of the training step's forward pass, and when the pass began; zeros: none."""
        self._add_observed_calls()
        return (self.captured.own_ns, self.captured.begun_ns) if self.passes.is_watched else (0, 0)

    def _add_observed_calls(self) -> None:
        """Add the time that observing functions took outside the measured spans."""
        mode = self._state.mode
        if mode is not None and mode.calls:
            self.passes.charge(mode.calls * _CALLS_PER_FUNCTION * python_call_ns())
            mode.calls = 0

    def stop_function_capture(self) -> None:
        """Stop observing functions until the next forward pass."""
        if self._state.mode is not None:
            self._state.mode.leave()

    @property
    def is_observing(self) -> bool:
        """Whether modules or functions are observed."""
        return self.is_watching or (self._state.mode is not None and self._state.mode.is_on_stack)

    def before_update(self) -> None:
        """Spare the optimizer a function mode that no longer observes anything."""
        mode = self._state.mode
        if mode is not None and mode.is_on_stack:
            mode.leave_if_idle()

    def _register_hooks(self) -> None:
        self.is_watching = True
        if not self._hooks.are_installed:
            self._state.depth = 0
            self._hooks.install(self.enter, self._leave)

    def _remove_hooks(self) -> None:
        if self.passes.is_eval_mode or self.passes.is_watched:
            return
        self._hooks.remove()
        self.is_watching = False

    # --- inside the user's forward pass -------------------------------------------------------------------

    def _make_pre_hook(self) -> Callable[..., None]:
        state, guard, hook_guard, charge = self._state, self._guard, self._hook_guard, self.passes.charge
        begin_call, capture_values, clock = self._begin_call, self._capture_inputs, time.thread_time_ns
        call_ns = _CALLS_PER_MODULE * python_call_ns()

        def pre_hook(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if torch._C._current_graph_task_id() != -1 or is_transformed():
                return
            if state.depth == 0:
                hook_guard.run(begin_call, module, args)
            state.depth += 1
            own_ns = call_ns
            if state.is_captured and (state.depth == 1 or state.sees_inner or isinstance(module, _Loss)):
                start_ns = clock()
                guard.run(capture_values, module, args)
                own_ns += clock() - start_ns
            charge(own_ns)
            if state.is_shallow:
                self._hooks.pause(module)

        return hide_from_dynamo(pre_hook)

    def _make_post_hook(self) -> Callable[..., None]:
        state, guard, hook_guard, charge = self._state, self._guard, self._hook_guard, self.passes.charge
        capture_values, end_call, clock = self._capture_outputs, self._end_call, time.thread_time_ns
        losses = self.losses

        def post_hook(module: torch.nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
            # After an error in the forward pass PyTorch calls the hook without keyword arguments.
            kwargs, output = rest if len(rest) == 2 else ({}, None)
            if torch._C._current_graph_task_id() != -1 or is_transformed():
                return
            state.depth = max(state.depth - 1, 0)
            if state.is_captured and (state.depth == 0 or state.sees_inner or isinstance(module, _Loss)):
                start_ns = clock()
                guard.run(capture_values, module, args, kwargs, output)
                charge(clock() - start_ns)
            if state.depth == 0:
                state.is_shallow = False
                if losses.keeps_labels and "labels" in kwargs and torch.is_grad_enabled():
                    losses.add_given(module, kwargs, output)
                hook_guard.run(end_call, module)

        return hide_from_dynamo(post_hook)

    def _begin_call(self, outermost: torch.nn.Module, args: tuple[Any, ...]) -> None:
        """Attribute an outermost call to the train step or an eval step, and observe functions called in the former."""
        state, passes, is_grad = self._state, self.passes, torch.is_grad_enabled()
        state.stack.clear()
        model = state.model = self._module_names.model_of(outermost)
        self._add_observed_calls()
        if any(isinstance(value, torch.Tensor) and value.is_meta for value in args):
            state.is_captured = False  # a library asks for the shapes of the outputs
            return
        if not is_grad:
            self.stop_function_capture()
            self.losses.calls_without_gradients += 1
            self._checks.call(self._call_without_gradients, outermost)
        if not isinstance(outermost, _Loss):
            self._is_resumed = passes.has_resumed(outermost, model, is_grad=is_grad)
            passes.begin_call(outermost, model, is_grad=is_grad)
            is_training = is_grad and passes.train in passes.current
            if is_training and not model.is_trained:
                self._checks.call(self._called_modules.add_model, outermost)
        state.is_captured = any(one.is_open for one in passes.current)
        state.sees_inner = is_grad or passes.has_items
        is_outside = self._hooks.is_outside
        depth = "nothing" if is_outside else self._inner.depth(outermost, passes.current, is_grad=is_grad)
        state.is_shallow = depth != "everything"
        if state.is_shallow:
            for one in passes.current:
                one.is_shallow = one.is_shallow or one.is_open
        if depth != "nothing" and is_grad and state.is_captured and passes.train in passes.current:
            self._start_function_capture()
        elif depth == "nothing" or not passes.current:
            self.stop_function_capture()

    def _end_call(self, outermost: torch.nn.Module) -> None:
        """End an outermost call; from here on losses may be called as functions."""
        state, passes = self._state, self.passes
        self._inner.end()
        if self._is_resumed and not self._module_names.is_evaluating():
            self.end_eval()
        self._is_resumed = False
        passes.reopen()
        if any(one.roots and one.is_open and not one.is_past_backward for one in passes.current):
            self._start_function_capture()
        elif passes.current:
            self.stop_function_capture()
        state.is_captured = False
        state.stack.clear()

    def _start_function_capture(self) -> None:
        state = self._state
        if state.mode is None:
            state.mode = FunctionMode(self, self._guard)
            self._function_modes.append(state.mode)
        state.mode.enter()

    def _capture_inputs(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        model = self._state.model
        default = type(module).__name__ if isinstance(module, _Loss) else None  # a loss module created in the call
        name = model.names.get(id(module), default) if model is not None else default
        if name is None:
            self._checks.call(self._note_unregistered, module)
            self._state.stack.append(("", ""))
            return
        kind = module_kind(module)
        if self._state.depth > 1:
            self._inner.add(kind, is_loss=isinstance(module, _Loss))
        self._state.stack.append((name, kind))
        if self.passes.has_items and name:
            collections = module_collections(module, kind, "input", is_outermost=self._is_whole(name, depth=1))
            self.passes.capture(name, "input", collections, args)

    def _note_unregistered(self, module: torch.nn.Module) -> None:
        """Note a module that its model does not know, such as one in a plain list."""
        stack, model = self._state.stack, self._state.model
        if not stack or not stack[-1][0] or model is None or not torch.is_grad_enabled():
            return
        root, name = model.root(), stack[-1][0]
        name = "" if name == model.root_name else name.removeprefix(model.prefix)
        if root is not None:
            owner = dict(unwrap(root).named_modules()).get(name)
            self._called_modules.add_unregistered(module, owner, f"{model.prefix}{name}")

    def _capture_outputs(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any
    ) -> None:
        name, kind = self._state.stack.pop() if self._state.stack else ("", "")
        is_outermost, is_loss = self._is_whole(name, depth=0), isinstance(module, _Loss)
        if not name or output is None or not (self.passes.has_items or is_outermost or is_loss):
            return
        if kwargs and self.passes.has_items:
            collections = module_collections(module, kind, "input", is_outermost=is_outermost)
            self.passes.capture(name, "input", collections, tuple(kwargs.values()))
        collections = module_collections(module, kind, "output", is_outermost=is_outermost)
        captured = self.passes.capture(name, "output", collections, output)
        if is_loss:
            self.recorded.add(captured, args, kwargs, getattr(module, "reduction", "mean"))
            options = {**vars(module), **kwargs}
            self.passes.add_accuracy(LOSS_FUNCTIONS.get(kind, ""), name, (*args, *kwargs.values()), options)
        elif is_outermost:
            self._names.call(self.passes.note_outputs, module, output)
            model = self._state.model
            self.recorded.add_own(module, captured, output, is_trained=model is not None and model.is_trained)

    def _is_whole(self, name: str, depth: int) -> bool:
        """Return whether a called module is a whole model, in a wrapper such as DistributedDataParallel or not.

        Args:
            name: Its name; "" for a wrapper.
            depth: The current depth if it is the outermost one.
        """
        model = self._state.model
        return self._state.depth == depth or (model is not None and name == model.root_name)

    # --- functions: see leadline.frameworks.torch.hooks.function_mode.FunctionListener ----------------------

    def before_call(self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        start_ns, state = time.thread_time_ns(), self._state
        if state.depth:
            is_loss = kind in LOSS_KINDS
            if state.is_shallow and not is_loss:
                return None
            self._inner.add(kind, is_loss=is_loss, is_direct=sum(bool(name) for name, _ in state.stack) == 1)
        stem = None if self.is_within_loss else state.function_stem(kind)
        if stem is not None and self.passes.has_items:
            values = (*args, *keyword_tensors(kwargs))
            self.passes.capture(stem, "input", function_collections(kind, "input"), values)
        self.passes.charge(time.thread_time_ns() - start_ns)
        return stem

    def after_call(
        self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any, token: object
    ) -> None:
        if not isinstance(token, str) or not (self.passes.has_items or kind in LOSS_KINDS):
            return
        start_ns = time.thread_time_ns()
        captured = self.passes.capture(token, "output", function_collections(kind, "output"), output)
        if kind in LOSS_KINDS:
            self.recorded.add(captured, args, kwargs, kwargs.get("reduction", "mean"))
            self.passes.add_accuracy(kind, token, (*args, *kwargs.values()), kwargs)
        self.passes.charge(time.thread_time_ns() - start_ns)

    def count_flops(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        if not self._state.is_shallow:
            self.passes.count_flops(function, args, kwargs, output)

    @property
    def models_called(self) -> int:
        """Number of outermost modules called in the pass."""
        return len(self.passes.train.roots)
