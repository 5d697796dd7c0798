"""Capture of module and function inputs and outputs through global forward hooks, installed only while needed."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.nn.modules import module as torch_module

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.torch.capture.device_copy import DeviceScalar
from leadline.frameworks.torch.capture.forward_capture import (
    LOSS_FUNCTIONS,
    AccuracyCounts,
    CapturedTensors,
    keyword_tensors,
    module_collections,
    module_kind,
    tensors_in,
)
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.function_mode import LOSS_KINDS, CallState, FunctionMode, function_collections
from leadline.frameworks.torch.hooks.tracing import HookGuard, is_transformed, python_call_ns
from leadline.frameworks.torch.naming.loss_calls import LossCalls, eval_mean, model_loss
from leadline.frameworks.torch.naming.model_names import ModelModules, ModuleNames
from leadline.frameworks.torch.timing.flops import FlopCount
from leadline.records.plan import CaptureItem
from leadline.training.guard import Guard

_CALLS_PER_MODULE: Final = 30
"""What the two hooks of a module cost outside the measured spans, in calls of a Python function."""
_CALLS_PER_FUNCTION: Final = 40
"""The same of an observed PyTorch function."""
_MAX_FALSE_EVAL_STEPS: Final = 3
"""After so many consecutive supposed eval steps followed by a backward pass, the model is trained in eval mode."""


class ForwardHooks:
    """Captures inputs and outputs of modules, and of activations and losses called as functions.

    A training step is captured in its first forward pass, an eval step throughout. Names are ``<module>_input_<i>`` and
    ``<module>_output_<i>``, and for functions ``<calling module>.relu_output_<i>``; the root and loss modules are named
    after their class. If a module is called again within the pass, its index continues. Recomputations inside a
    backward pass do not count as forward passes. Values are read at once, before the script can change them in place.

    **Eval steps** - while a trained model is in eval mode (``begin_eval``), each outermost forward pass without
    gradients starts an eval step; losses called before the next one belong to it. A pass with gradients is discarded if
    a backward pass follows.

    **Functions** are observed in forward passes with gradients and between forward passes, never inside an eval pass:
    a function mode would disable PyTorch's fast paths, and thereby change its results.
    """

    def __init__(
        self,
        module_names: ModuleNames,
        callbacks: StepCallbacks,
        guard: Guard,
        hook_guard: HookGuard,
        warn: Callable[[str], None],
    ) -> None:
        """
        Args:
            guard: Runs what is timed here, as part of a forward pass.
            hook_guard: Runs, and times, everything else.
        """
        self.captured = CapturedTensors(warn)
        self.losses, self.flops, self._accuracy = LossCalls(), FlopCount(), AccuracyCounts()
        self._module_names, self._callbacks, self._guard, self._hook_guard = module_names, callbacks, guard, hook_guard
        self._state = CallState()
        self._function_modes: list[FunctionMode] = []
        """One for each observed thread."""
        self._handles: list[Any] = []
        self.is_watching = False
        """Whether the hooks are installed, or a function mode may be active."""
        self._is_training_watched = self._is_eval_mode = self._is_explicit = False
        self._train_items: Sequence[CaptureItem] = ()
        self._captured_roots: set[int] = set()
        self._trained_in_train_mode: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._eval_roots: set[int] | None = None
        """Ids of the outermost modules called in the current eval step; None: there is none."""
        self._is_eval_certain = self._is_past_backward = False
        self._false_eval_steps = 0
        self.on_call_without_gradients: Callable[[torch.nn.Module], None] = lambda called: None
        """Called with each outermost module that runs without gradients while hooks are installed."""

    # --- start and end ------------------------------------------------------------------------------------

    def begin(self, items: Sequence[CaptureItem]) -> None:
        """Capture the training step that begins, until ``end``."""
        self._is_training_watched, self._train_items = True, items
        self.flops.clear()
        self._begin_pass(items, "train")
        self._register_hooks()

    def end(self) -> None:
        """End the capture of the training step; its values are in ``captured``."""
        self._add_observed_calls()
        if self._is_training_watched:
            self.captured.accuracy = self._accuracy.take()
        self._is_training_watched = False
        if self._state.mode is not None:
            self._state.mode.leave_when_possible()  # the step may end within a backward pass, where modes are inactive
        self.losses.clear()
        self._remove_hooks()

    def begin_eval(self, *, is_explicit: bool = False) -> None:
        """Start looking for eval steps: a trained model is in eval mode.

        Args:
            is_explicit: The script set the mode: every model counts, regardless of its ``training`` flag.
        """
        self._is_eval_mode, self._is_explicit, self._false_eval_steps = True, is_explicit, 0
        self._register_hooks()

    def end_eval(self) -> None:
        """Stop looking for eval steps: all trained models are in training mode again."""
        self._is_eval_mode = self._is_explicit = False
        self.end_eval_step()
        self.stop_function_capture()
        self._remove_hooks()

    def stop(self) -> None:
        """Stop all capture."""
        self._is_eval_mode, self._eval_roots = False, None
        for mode in self._function_modes:
            mode.leave_when_possible()
        self.end()

    def before_backward(self) -> None:
        """Handle the start of a backward pass: a supposed eval step with gradients was a training step."""
        self.stop_function_capture()
        self._is_past_backward = True
        if self._eval_roots is None or self._is_eval_certain:
            return
        self._eval_roots = None
        self._accuracy.clear()
        self._callbacks.evaluation.discard_step()
        self.captured.begin((), "train")
        self._false_eval_steps += 1
        if self._false_eval_steps >= _MAX_FALSE_EVAL_STEPS:
            self._is_eval_mode = False
            self._remove_hooks()

    def capture_times(self) -> tuple[int, int]:
        """Return the capture time so far of the training step's forward pass, and when the pass began; zeros: none."""
        self._add_observed_calls()
        return (self.captured.own_ns, self.captured.begun_ns) if self._is_training_watched else (0, 0)

    def _add_observed_calls(self) -> None:
        """Add the time that observing functions took outside the measured spans."""
        mode = self._state.mode
        if mode is not None and mode.calls:
            self.captured.own_ns += mode.calls * _CALLS_PER_FUNCTION * python_call_ns()
            mode.calls = 0

    def stop_function_capture(self) -> None:
        """Stop observing functions until the next forward pass."""
        if self._state.mode is not None:
            self._state.mode.leave()

    def before_update(self) -> None:
        """Spare the optimizer a function mode that no longer observes anything."""
        if self._state.mode is not None:
            self._state.mode.leave_if_idle()

    def _begin_pass(self, items: Sequence[CaptureItem], mode: str) -> None:
        self.captured.begin(items, mode)
        self._captured_roots, self._is_past_backward = set(), False
        self._accuracy.begin(items)

    def _register_hooks(self) -> None:
        self.is_watching = True
        if not self._handles:
            self._handles = [
                torch_module.register_module_forward_pre_hook(self._make_pre_hook()),
                torch_module.register_module_forward_hook(self._make_post_hook(), with_kwargs=True, always_call=True),
            ]

    def _remove_hooks(self) -> None:
        if self._is_eval_mode or self._is_training_watched:
            return
        for handle in self._handles:
            handle.remove()
            torch_module._global_forward_hooks_with_kwargs.pop(handle.id, None)  # not done by the handle
        self._handles = []
        self.is_watching = False

    # --- inside the user's forward pass -------------------------------------------------------------------

    def _make_pre_hook(self) -> Callable[..., None]:
        state, guard, hook_guard, captured = self._state, self._guard, self._hook_guard, self.captured
        begin_call, capture_values, clock = self._begin_call, self._capture_inputs, time.perf_counter_ns
        call_ns = _CALLS_PER_MODULE * python_call_ns()

        def pre_hook(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if torch._C._current_graph_task_id() != -1 or is_transformed():
                return
            if state.depth == 0:
                hook_guard.run(begin_call, module)
            start_ns = clock()
            state.depth += 1
            if state.is_captured:
                guard.run(capture_values, module, args)
            captured.own_ns += clock() - start_ns + call_ns

        return hide_from_dynamo(pre_hook)

    def _make_post_hook(self) -> Callable[..., None]:
        state, guard, hook_guard, captured = self._state, self._guard, self._hook_guard, self.captured
        capture_values, end_call, clock = self._capture_outputs, self._end_call, time.perf_counter_ns

        def post_hook(module: torch.nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
            start_ns = clock()
            # After an error in the forward pass PyTorch calls the hook without keyword arguments.
            kwargs, output = rest if len(rest) == 2 else ({}, None)
            if torch._C._current_graph_task_id() != -1 or is_transformed():
                return
            state.depth = max(state.depth - 1, 0)
            if state.is_captured:
                guard.run(capture_values, module, args, kwargs, output)
            captured.own_ns += clock() - start_ns
            if state.depth == 0:
                hook_guard.run(end_call, module)

        return hide_from_dynamo(post_hook)

    def _begin_call(self, outermost: torch.nn.Module) -> None:
        """Decide whether to capture an outermost call: a training pass, an eval pass or a loss."""
        state = self._state
        self.captured.begun_ns = self.captured.begun_ns or time.perf_counter_ns()
        state.stack.clear()
        state.model = self._module_names.model_of(outermost)
        is_grad = torch.is_grad_enabled()
        if not is_grad:
            self.stop_function_capture()
            self.on_call_without_gradients(outermost)
        if isinstance(outermost, torch.nn.modules.loss._Loss):
            state.is_captured = self._is_training_watched or self._eval_roots is not None
        elif self._is_eval_pass(outermost, state.model, is_grad):
            state.is_captured = self._join_eval_step(outermost, is_grad)
        elif self._is_training_watched and (is_grad or outermost.training):
            if self.captured.mode != "train":  # of an evaluation since the step began
                self._begin_pass(self._train_items, "train")
            if is_grad and outermost.training:
                self._trained_in_train_mode.add(outermost)
            state.is_captured = id(outermost) not in self._captured_roots
            self._captured_roots.add(id(outermost))
            if state.is_captured and is_grad:
                self._start_function_capture()
        else:
            state.is_captured = False

    def _is_eval_pass(self, outermost: torch.nn.Module, model: ModelModules, is_grad: bool) -> bool:
        is_training = is_grad and self._is_training_watched and outermost not in self._trained_in_train_mode
        if is_training or not self._is_eval_mode:
            return False
        return self._is_explicit or (model.is_trained and not outermost.training)

    def _join_eval_step(self, outermost: torch.nn.Module, is_grad: bool) -> bool:
        """Add a pass to the eval step, or start the next step if the module ran in this one; return True: captured."""
        if self._eval_roots is None or id(outermost) in self._eval_roots:
            self.end_eval_step()
            items = self._callbacks.evaluation.begin_step()
            self._eval_roots, self._is_eval_certain = set(), False
            self._begin_pass(items, self._callbacks.evaluation.mode())
        self._is_eval_certain = self._is_eval_certain or not is_grad
        self._eval_roots.add(id(outermost))
        return True

    def end_eval_step(self) -> None:
        """End the current eval step, if there is one."""
        if self._eval_roots is not None:
            self._eval_roots = None
            self._false_eval_steps = 0
            self._add_observed_calls()
            self.captured.accuracy = self._accuracy.take()
            self._callbacks.evaluation.end_step(self.captured)

    def _end_call(self, outermost: torch.nn.Module) -> None:
        """End an outermost call; from here on losses may be called as functions."""
        state = self._state
        if state.is_captured and (self._is_training_watched or self._eval_roots is not None):
            self._start_function_capture()
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
        name = model.names.get(id(module)) if model is not None else None
        if name is None:
            self._state.stack.append(("", ""))
            return
        kind = module_kind(module)
        self._state.stack.append((name, kind))
        if self.captured.has_items:
            collections = module_collections(module, kind, "input", is_outermost=self._state.depth == 1)
            self._capture_tensors(name, "input", collections, args)

    def _capture_outputs(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any
    ) -> None:
        name, kind = self._state.stack.pop() if self._state.stack else ("", "")
        is_outermost, is_loss = self._state.depth == 0, isinstance(module, torch.nn.modules.loss._Loss)
        if not name or output is None or not (self.captured.has_items or is_outermost or is_loss):
            return  # without items only losses are needed
        if kwargs and self.captured.has_items:
            collections = module_collections(module, kind, "input", is_outermost=is_outermost)
            self._capture_tensors(name, "input", collections, tuple(kwargs.values()))
        collections = module_collections(module, kind, "output", is_outermost=is_outermost)
        captured = self._capture_tensors(name, "output", collections, output)
        if is_loss:
            self._record_loss(captured, args, kwargs, getattr(module, "reduction", "mean"))
            values = (*args, *kwargs.values())
            self._accuracy.add(LOSS_FUNCTIONS.get(kind, ""), name, values, {**vars(module), **kwargs})
        elif is_outermost and (loss := model_loss(output)) is not None:
            self._record_model_loss(captured, loss)

    def _capture_tensors(
        self, stem: str, side: str, collections: Callable[[int], tuple[str, ...]], values: Any
    ) -> list[tuple[str, torch.Tensor]]:
        captured = []
        with torch._C.DisableTorchFunction():
            for index, tensor in enumerate(tensors_in(values)):
                name = self.captured.next_name(f"{stem}_{side}")
                if not self._is_past_backward:
                    self.captured.add(name, collections(index), tensor)
                captured.append((name, tensor))
            if len(captured) > 1 and "labels" in collections(1) and not self._is_past_backward:
                (_, predictions), (name, labels) = captured[:2]
                self.captured.add_confusion(name, collections(1), labels, predictions)
        return captured

    # --- functions: see leadline.frameworks.torch.hooks.function_mode.FunctionListener ----------------------

    def before_call(self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        start_ns = time.perf_counter_ns()
        stem = self._state.function_stem(kind)
        if stem is not None and self.captured.has_items:
            values = (*args, *keyword_tensors(kwargs))
            self._capture_tensors(stem, "input", function_collections(kind, "input"), values)
        self.captured.own_ns += time.perf_counter_ns() - start_ns
        return stem

    def after_call(
        self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any, token: object
    ) -> None:
        if not isinstance(token, str) or not (self.captured.has_items or kind in LOSS_KINDS):
            return
        start_ns = time.perf_counter_ns()
        captured = self._capture_tensors(token, "output", function_collections(kind, "output"), output)
        if kind in LOSS_KINDS:
            self._record_loss(captured, args, kwargs, kwargs.get("reduction", "mean"))
            self._accuracy.add(kind, token, (*args, *kwargs.values()), kwargs)
        self.captured.own_ns += time.perf_counter_ns() - start_ns

    def count_flops(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        if self._is_training_watched:
            with torch._C.DisableTorchFunction():
                self.flops.add(function, args, kwargs, output)

    @property
    def models_called(self) -> int:
        """Number of outermost modules called in the pass."""
        return len(self._captured_roots)

    # --- losses -------------------------------------------------------------------------------------------

    def _record_loss(
        self, captured: list[tuple[str, torch.Tensor]], args: tuple[Any, ...], kwargs: Mapping[str, Any], reduction: Any
    ) -> None:
        for name, output in captured:
            self.losses.add(name, output)
            if self._eval_roots is not None:
                target = args[1] if len(args) > 1 else kwargs.get("target")
                self._report_eval_loss(name, eval_mean(output, target, str(reduction)))

    def _record_model_loss(self, captured: list[tuple[str, torch.Tensor]], loss: torch.Tensor) -> None:
        name = next((name for name, tensor in captured if tensor is loss), None)
        if name is None:
            return
        self.losses.add(name, loss)
        if self._eval_roots is not None and self._state.model is not None and self._state.model.is_trained:
            self._report_eval_loss(None, eval_mean(loss, None, "mean"))

    def _report_eval_loss(self, name: str | None, value: DeviceScalar | float | None) -> None:
        if value is not None:
            self._callbacks.evaluation.record_loss(name, value)
