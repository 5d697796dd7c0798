"""The end of a step where no PyTorch optimizer steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.torch.capture.manual_updates import (
    FirstChange,
    GradientRenewals,
    ManualUpdates,
    TensorVersions,
    has_optimizer,
    is_held,
    leaves_of,
)
from leadline.frameworks.torch.diagnose.loop_checks import LoopChecks
from leadline.frameworks.torch.hooks.forward_hooks import ForwardHooks
from leadline.frameworks.torch.naming.model_names import ParameterNames, parameters_of

_FEW_LEAVES: Final = 64
_RENEWALS: Final = 3
"""After so many backward passes with new gradients an optimizer that exists is taken not to step at all."""


class ManualSteps:
    """Ends the steps of a training that steps no PyTorch optimizer: updates by hand, of fastai.

    A backward pass that follows a forward pass makes a step. The step ends when the next forward pass begins, so that
    the update, which comes in between, is part of it.

    **Micro-batches** - where updates are in-place operations on the parameters, which advance their versions, a
    backward pass without an update is a micro-batch. Updates through ``.data`` leave the versions alone: there every
    backward pass makes a step.

    **Not every backward pass is training** - steps are counted once an update was seen; at once if there is no
    optimizer in the process and a model is in training mode; and if gradients are renewed again and again although an
    optimizer exists: then somebody has forgotten to step it. A first change of weights that an optimizer holds is no
    update if it goes along a gradient: it moves them for a second backward pass, ahead of the optimizer's step (SAM).
    """

    def __init__(
        self, callbacks: StepCallbacks, checks: LoopChecks, forward: ForwardHooks, names: ParameterNames
    ) -> None:
        self._callbacks = callbacks
        self._checks = checks
        self._forward = forward
        self._names = names
        self._loop = callbacks.facts.of("checks of the training loop are")
        self._updates: ManualUpdates | None = None
        self._versions, self._renewals, self._change = TensorVersions(), GradientRenewals(), FirstChange()
        self._is_pending = False
        """Whether a backward pass has ended, and no forward pass has begun since."""
        self._is_counted = False
        """Whether it is known that the backward passes make steps."""
        self._is_captured = False
        """Whether the gradients of the current step were captured."""
        self._next_node = 0
        """The sequence number of the first graph node created since the last backward pass."""
        self._backwards = self._usual_backwards = 0
        """Backward passes since the last visible update, and the most that ever preceded one; 0: none was visible."""

    def before_backward(self, outputs: Sequence[Any]) -> None:
        """Handle the start of a backward pass; a forward pass that called no module ends a step here."""
        nodes = [output.grad_fn for output in outputs if isinstance(output, torch.Tensor)]
        if self._is_pending and any(node is not None and node._sequence_nr() >= self._next_node for node in nodes):
            self.end_step()
        self._renewals.compare()
        if self._updates is not None and self._updates.is_alive():
            self._versions.record(parameters_of(self._updates))
        elif self._is_counted or not has_optimizer() or self._renewals.count >= _RENEWALS:
            self._updates = ManualUpdates(leaves_of(outputs), self._names)
            self._versions.record(parameters_of(self._updates))
        else:
            self._versions.record(leaves_of(outputs, _FEW_LEAVES))

    def after_backward(self) -> None:
        """Handle the end of a backward pass: capture the gradients of the step's first."""
        self._is_pending = True
        self._next_node = torch.autograd._get_sequence_nr()
        self._renewals.record(self._versions.tensors())
        updates = self._updates
        if updates is None:
            self._change.record(self._versions.tensors())
        if updates is None or not (self._is_counted or self._is_training(updates)):
            return
        if not self._is_captured:
            self._is_captured = True
            self._callbacks.before_update(updates)
            if self._checks.is_enabled:
                self._loop.call(self._checks.before_update, updates)
        if self._checks.is_tracking:
            self._loop.call(
                self._checks.after_update, updates
            )  # here, since the script may zero the gradients ahead of the next pass

    def begin_forward(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        """Handle the call of a model, ahead of all other hooks: it ends a step."""
        was_watching = self._forward.is_watching
        self.end_step()
        if self._forward.is_watching and not was_watching:
            self._forward.enter(module, args)  # the new hooks come too late for this call

    def end_step(self) -> None:
        """End the step of the last backward pass, unless it was a micro-batch or no training. May raise
        ``TrainingStopped``."""
        if not self._is_pending:
            return
        self._is_pending = False
        self._backwards += 1
        is_updated = self._versions.have_advanced()
        if is_updated and self._updates is None:
            if not self._change.is_update() and is_held(self._versions.tensors()):
                self._backwards = 0
                return
            self._updates = ManualUpdates(self._versions.tensors(), self._names)
            self._change = FirstChange()
        updates = self._updates
        if updates is None:
            return
        self._is_counted = self._is_counted or is_updated or self._is_training(updates)
        if self._is_counted and self._is_over(is_updated=is_updated):
            self._is_captured = False
            self._callbacks.after_update(updates, is_skipped=False)

    def _is_training(self, updates: ManualUpdates) -> bool:
        """Return whether backward passes are training although no update is visible."""
        return updates.is_training() and (not has_optimizer() or self._renewals.count >= _RENEWALS)

    def _is_over(self, *, is_updated: bool) -> bool:
        """Return whether the step is over: after an update, or as many backward passes as ever preceded one."""
        if is_updated:
            self._usual_backwards = max(self._usual_backwards, self._backwards)
        is_over = is_updated or self._backwards >= self._usual_backwards
        if is_updated or (is_over and self._usual_backwards):
            self._backwards = 0
        return is_over
