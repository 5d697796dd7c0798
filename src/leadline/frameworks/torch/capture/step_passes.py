"""The forward passes of the current train step and eval step, and which of them a module call belongs to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from leadline.frameworks.adapter import EvalCallbacks
from leadline.frameworks.torch.capture.forward_capture import tensors_in
from leadline.frameworks.torch.capture.forward_pass import ForwardPass, choose_pass
from leadline.frameworks.torch.naming.model_names import ModelModules
from leadline.instrumentation.guard import Facts
from leadline.records.plan import CaptureItem

_MAX_CANDIDATES: Final = 4
_MAX_FALSE_EVAL_STEPS: Final = 3
"""After so many consecutive supposed eval steps followed by a backward pass, the model is trained in eval mode."""


class StepPasses:
    """Attributes each call of an outermost module to the train step, to an eval step, or to both until it is known.

    **Eval steps** - while a trained model is in eval mode, each pass of it starts one; losses called before the next
    belong to it, as do criteria of the script: modules that returned what a backward pass began at. One with gradients
    may be a train step, and is discarded if a backward pass follows, unless the script has set the mode and the model
    is in eval mode. A pass with gradients of a trained model in training mode ends the evaluation, however the mode
    was set.

    **Before the first backward pass** a script may call its model, to print shapes for example. So each time that a
    module is called again a further pass begins; the one that the first backward pass belongs to is kept.

    Attributes:
        train: The pass of the train step.
        current: The passes that the latest outermost call, and the losses called after it, belong to.
        is_watched: Whether the train step is captured.
        is_eval_mode: Whether eval steps are looked for.
        is_eval_step: Whether an eval step is under way.
    """

    def __init__(
        self,
        evaluation: EvalCallbacks,
        warn: Callable[[str], None],
        facts: Facts,
        returns_loss: Callable[[torch.nn.Module], bool],
    ) -> None:
        """
        Args:
            evaluation: Is called about eval steps.
            warn: Called with a message about something that cannot be captured.
            returns_loss: Returns whether a backward pass began at a number that a module returned.
        """
        self._evaluation, self._warn, self._facts = evaluation, warn, facts
        self._returns_loss = returns_loss
        self._tensors = facts.of("tensors of some forward passes are", is_vital=True)
        self._accuracy, self._flops = facts.of("accuracies are"), facts.of("flops_per_step is")
        self.train, self._eval = ForwardPass(warn, facts), ForwardPass(warn, facts)
        self.current: tuple[ForwardPass, ...] = ()
        self.is_watched = self.is_eval_mode = self.is_eval_step = False
        self._items: Sequence[CaptureItem] = ()
        self._has_trained = False
        self._candidates: list[ForwardPass] = []
        """Until the first backward pass: the passes of which one is that of the train step."""
        self._is_explicit = False
        self._is_eval_certain = False
        """Whether a pass of the eval step was without gradients."""
        self._is_eval_requested = False
        """Whether the script has set the mode, and the model is in eval mode: a backward pass is part of the step."""
        self._is_shared = False
        """Whether the eval step may be the train step."""
        self._false_eval_steps = 0

    @property
    def has_items(self) -> bool:
        """Whether any tensor is captured; otherwise only losses are of interest."""
        return any(one.captured.has_items for one in self.current)

    @property
    def is_evaluation(self) -> bool:
        """Whether eval steps are looked for, or one is under way."""
        return self.is_eval_mode or self.is_eval_step

    # --- train steps --------------------------------------------------------------------------------------

    def begin_train(self, items: Sequence[CaptureItem]) -> None:
        """Begin to capture a train step, or capture other items in the rest of it."""
        was_watched, self._items, self.is_watched = self.is_watched, items, True
        if not was_watched:
            self._begin_train_pass()
        for one in self._candidates or [self.train]:
            one.captured.extend(items)

    def end_train(self) -> None:
        """End the capture of the train step, which is then in ``train``."""
        if self.is_watched:
            self.train.finish()
        self.is_watched, self._candidates = False, []
        if not self.is_eval_step:
            self._attribute_to_train()

    def before_backward(self, outputs: Sequence[Any]) -> None:
        """Handle the start of a backward pass: a supposed eval step with gradients was a train step.

        Args:
            outputs: The tensors at which it begins.
        """
        if self.is_eval_step and self._is_eval_requested:
            return
        if self._candidates:
            self.train, self._candidates = choose_pass(self._candidates, outputs), []
            if not self.is_eval_step:
                self._attribute_to_train()
        self._has_trained = self.train.is_past_backward = True
        if not self.is_eval_step or self._is_eval_certain:
            return
        self.is_eval_step = self._is_shared = False
        self._attribute_to_train()
        self._eval.accuracy.clear()
        self._evaluation.discard_step()
        self._false_eval_steps += 1
        self.is_eval_mode = self.is_eval_mode and self._false_eval_steps < _MAX_FALSE_EVAL_STEPS

    def _begin_train_pass(self) -> None:
        self.train.begin(self._items, "train")
        self._candidates = [] if self._has_trained else [self.train]
        if not self.is_eval_step:
            self._attribute_to_train()

    def _attribute_to_train(self) -> None:
        """Attribute what is called from here on to the train step, if that is watched."""
        self.current = tuple(reversed(self._candidates or [self.train])) if self.is_watched else ()
        self.reopen()

    # --- eval steps ---------------------------------------------------------------------------------------

    def begin_eval(self, *, is_explicit: bool) -> None:
        """Start looking for eval steps.

        Args:
            is_explicit: The script set the mode: every model counts, regardless of its ``training`` flag.
        """
        self.is_eval_mode, self._is_explicit, self._false_eval_steps = True, is_explicit, 0

    def end_eval(self) -> None:
        """Stop looking for eval steps."""
        self.is_eval_mode = self._is_explicit = False
        self.end_eval_step()

    def end_eval_step(self) -> None:
        """End the current eval step, if there is one."""
        if not self.is_eval_step:
            return
        self.is_eval_step = False
        if self._is_eval_certain:
            self._false_eval_steps = 0
        if self._is_shared:
            self._begin_train_pass()  # what it has captured was no train step
        self._is_shared = False
        self._attribute_to_train()
        self._evaluation.end_step(self._eval.finish())

    def _join_eval_step(self, outermost: torch.nn.Module, *, is_grad: bool) -> None:
        """Begin the next eval step, unless the call belongs to the current one.

        It does if the module did not run in this step yet, and gradients were not disabled before.
        """
        if self.is_eval_step and id(outermost) not in self._eval.roots and not (is_grad and self._is_eval_certain):
            self._is_eval_certain = not is_grad
            return
        self.end_eval_step()
        self._is_eval_requested = self._is_explicit and not outermost.training
        items = self._evaluation.begin_step()
        self.is_eval_step, self._is_eval_certain = True, not is_grad
        self._eval.begin(items, self._evaluation.mode())

    # --- calls --------------------------------------------------------------------------------------------

    def begin_call(self, outermost: torch.nn.Module, model: ModelModules, *, is_grad: bool) -> None:
        """Attribute a call of an outermost module, other than a loss."""
        passes = self._passes_of(outermost, model, is_grad=is_grad)
        for one in (*self.current, *passes):
            one.is_open = False
        for one in passes:
            one.join(outermost, is_grad=is_grad)
            one.captured.begun_ns = one.captured.begun_ns or time.perf_counter_ns()
        self.current = passes or self.current

    def reopen(self) -> None:
        """Capture what is called between the calls of outermost modules."""
        for one in self.current:
            one.reopen()

    def note_outputs(self, outermost: torch.nn.Module, output: Any) -> None:
        """Note what an outermost module returned, as long as it is not known which pass is the train step's."""
        for one in self._candidates:
            if one.is_open:
                one.note_outputs(outermost, output)

    def has_resumed(self, outermost: torch.nn.Module, model: ModelModules, *, is_grad: bool) -> bool:
        """Return whether a call shows that the evaluation is over."""
        return is_grad and self.is_eval_mode and not self._is_explicit and model.is_trained and outermost.training

    def is_of_eval(self, loss: torch.Tensor) -> bool:
        """Return whether a loss is one of the eval step: after passes without gradients it has none either."""
        return self.is_eval_step and not (self._is_eval_certain and loss.requires_grad)

    def charge(self, own_ns: int) -> None:
        """Add overhead to the step that it occurred in."""
        (self._eval if self.is_eval_step else self.train).captured.own_ns += own_ns

    # --- what is captured of them ---------------------------------------------------------------------------

    def capture(
        self, stem: str, side: str, collections: Callable[[int], tuple[str, ...]], values: Any
    ) -> list[tuple[str, torch.Tensor]]:
        """Capture the tensors in values; see ``ForwardPass.add``."""
        return self._tensors.call(self._capture, stem, side, collections, values) or []

    def _capture(
        self, stem: str, side: str, collections: Callable[[int], tuple[str, ...]], values: Any
    ) -> list[tuple[str, torch.Tensor]]:
        captured: list[tuple[str, torch.Tensor]] = []
        with torch._C.DisableTorchFunction():
            tensors = [tensor for tensor in tensors_in(values) if not tensor.is_meta]
            for one in reversed(self.current):
                if one.is_open:
                    captured = one.add(stem, side, collections, tensors)
        return captured

    def add_accuracy(self, kind: str, stem: str, values: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Count the correct predictions of a loss call; see ``AccuracyCounts.add``."""
        for one in self.current:
            self._accuracy.call(one.accuracy.add, kind, stem, values, options)

    def count_flops(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        """Count the operations of a function."""
        with torch._C.DisableTorchFunction():
            for one in self.current:
                self._flops.call(one.flops.add, function, args, kwargs, output)

    # --- which of them a call belongs to --------------------------------------------------------------------

    def _passes_of(self, outermost: torch.nn.Module, model: ModelModules, *, is_grad: bool) -> tuple[ForwardPass, ...]:
        """Return the passes that a call belongs to, the latest candidate first."""
        if self.is_eval_mode and (self._is_explicit or (model.is_trained and not outermost.training)):
            self._join_eval_step(outermost, is_grad=is_grad)
            if not is_grad or not self.is_watched or self._is_explicit:
                return (self._eval,)
            self._is_shared = True
            return (self._eval, self.train)
        if self.is_eval_step and not model.is_trained and self._returns_loss(outermost):
            return (self._eval, self.train) if self._is_shared else (self._eval,)
        if self.has_resumed(outermost, model, is_grad=is_grad):
            self.end_eval_step()
        if self.is_eval_step and not is_grad:
            return ()  # a metric or a teacher
        if not self.is_watched or not (is_grad or (outermost.training and self._has_trained)):
            return ()
        if is_grad and not self.train.has_gradients and id(outermost) in self.train.roots:
            self._begin_again()
        if self._candidates and id(outermost) in self._candidates[-1].roots:
            self._begin_candidate(outermost)
        return tuple(reversed(self._candidates or [self.train]))

    def _begin_again(self) -> None:
        """Begin the pass of the train step again: what was called without gradients was none, such as an evaluation."""
        before = self.train.captured
        own_ns, begun_ns = before.own_ns, before.begun_ns
        self._begin_train_pass()
        self.train.captured.own_ns, self.train.captured.begun_ns = own_ns, begun_ns

    def _begin_candidate(self, outermost: torch.nn.Module) -> None:
        """Begin a further pass, since a module is called again."""
        if len(self._candidates) < _MAX_CANDIDATES:
            candidate = ForwardPass(self._warn, self._facts)
            candidate.begin(self._items, "train")
            candidate.repeated = self._candidates[-1].outputs_of(outermost)
            self._candidates.append(candidate)
