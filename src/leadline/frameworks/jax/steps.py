"""Steps of a training: calls of compiled functions that compute gradients, and updates outside of such functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from leadline.frameworks.adapter import Forward, StepCallbacks
from leadline.frameworks.capture_requests import CapturedTensor
from leadline.frameworks.frozen_parameters import FrozenParameters
from leadline.frameworks.jax.check.check_hooks import JaxChecks
from leadline.frameworks.jax.facts import LossPlace, losses_in
from leadline.frameworks.jax.groups import RATIO
from leadline.frameworks.jax.handover import ProgramHandover
from leadline.frameworks.jax.jit_wrapper import JitWrapper
from leadline.frameworks.jax.keras_evaluation import KerasBatches
from leadline.frameworks.jax.loss_numbers import LOSS_FACTS
from leadline.frameworks.jax.loss_only_steps import LossOnlySteps
from leadline.frameworks.jax.owners import Owners, name_of
from leadline.frameworks.jax.program_checks import ProgramChecks
from leadline.frameworks.jax.replay import Programs
from leadline.frameworks.jax.replayer import Replayer
from leadline.frameworks.jax.scalars import Element, JaxScalar, losses_at
from leadline.frameworks.jax.step_calls import EagerCall, JittedCall, StepOwner
from leadline.frameworks.jax.step_count import counted_steps
from leadline.frameworks.jax.tensors import LOSS
from leadline.frameworks.jax.uncaptured import AHEAD_OF_TIME, TRACED_ALONE
from leadline.frameworks.kit.fresh_gradients import FRESH_GRADIENTS
from leadline.frameworks.kit.loss_facts import NO_FACTS
from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.kit.uncaptured import Uncaptured
from leadline.frameworks.process_memory import process_memory
from leadline.instrumentation.guard import Guard
from leadline.records.phases import COMPUTE
from leadline.records.plan import CaptureItem

Call = JittedCall | EagerCall


class TrainingSteps:
    """Calls the recorder at each step, however the script computes it.

    A step is a call of a compiled function that computes gradients or calls an optimizer; where the one function
    computes them and another, or the script itself, calls the optimizer, the latter ends the step. A call in which
    ``lax.scan`` repeats the step ``n`` times is ``n`` steps. Without an optimizer a step ends when the next begins.

    Args:
        replayer: Captures from the calls.
        uncaptured: Describes what is not seen.
        captured_layers: Returns what was captured of layers in an eval step, given its call and the items.
        keras: Knows the batches and the losses of Keras.
    """

    def __init__(
        self,
        callbacks: StepCallbacks,
        guard: Guard,
        replayer: Replayer,
        uncaptured: Uncaptured,
        *,
        captured_layers: Callable[[JittedCall, Sequence[CaptureItem]], Forward],
        keras: KerasBatches,
    ) -> None:
        self._callbacks, self._guard = callbacks, guard
        self.replayer, self._uncaptured = replayer, uncaptured
        self._captured_layers, self._keras = captured_layers, keras
        facts, self._checked = callbacks.facts, ProgramChecks(callbacks.facts)
        self._losses_read, self.layers_read = facts.of("losses are", is_vital=True), facts.of("layers are")
        self.loss_facts_read = facts.of("facts about loss calls are")
        self._clock = callbacks.cost.clock
        self._loss_only = LossOnlySteps(callbacks, guard, self._losses_of)
        self.forward_items: tuple[CaptureItem, ...] = ()
        self.checks: JaxChecks | None = None
        self.is_evaluation = False
        """Whether the script has set the mode to evaluation."""
        self._owners, self.handover, self._frozen = Owners(), ProgramHandover(), FrozenParameters()
        self._call: Call | None = None
        self._pending: Call | None = None
        """A call whose step may be ended by an update that follows it."""
        self._are_separate_updates = self.is_within_call = False
        self.eager: EagerCall | None = None
        """The step outside of compiled functions."""
        self._layers: list[CapturedTensor] = []
        self._labels: list[NamedTensor] = []
        """What was captured of layers in the current step, and the labels that Keras gives to it."""

    @property
    def sees_all_calls(self) -> bool:
        """Whether also the calls of functions are of interest that do not train."""
        return self.is_evaluation or self._keras.evaluation.is_running

    # --- calls of compiled functions ----------------------------------------------------------------------

    def call_traced(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function within the program of another one."""
        return jitted(*args, **kwargs)

    def call(self, function: JitWrapper, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the script, and capture it if it trains."""
        begun_ns = self._clock()
        if self._keras.evaluation.is_running:
            self._guard.run(self._keras.evaluation.see_call, args)
        if self._loss_only.accepts(function, args, kwargs):
            return self._loss_only.make(self._compiled, function, args, kwargs, begun_ns)
        programs = self._guard.run(self._learn, function, args, kwargs)
        facts = programs.facts if programs is not None else None
        if programs is None or facts is None or not (facts.trains or (facts.has_layers and self.is_evaluation)):
            if programs is not None:
                self._guard.run(self._checked.look, function, programs, args, kwargs)
            try:
                return self._compiled(function, args, kwargs)
            finally:
                function.note_size(passes=self._checked.is_settled)
        if not facts.trains:
            return self._evaluate(self._jitted_call(function, args, kwargs, programs, StepOwner("", "")))
        owner = self._owners.of_compiled(function)
        call = self._jitted_call(function, args, kwargs, programs, owner)
        self._guard.run(self._begin, call)
        try:
            result = self._compiled(function, args, kwargs)
        finally:
            function.note_size(passes=False)
        self._guard.run(self._end, call, result)
        return result

    def _jitted_call(
        self, function: JitWrapper, args: tuple[Any, ...], kwargs: dict[str, Any], programs: Programs, owner: StepOwner
    ) -> JittedCall:
        return JittedCall(function, args, kwargs, programs=programs, owner=owner, replayer=self.replayer)

    def _compiled(self, function: JitWrapper, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before, self.is_within_call = self.is_within_call, True
        try:
            return function.compiled(*args, **kwargs)
        finally:
            self.is_within_call = before

    def _learn(self, function: JitWrapper, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Programs | None:
        before, self.is_within_call = self.is_within_call, True
        try:
            programs = function.programs_of(args, kwargs)
        except Exception:  # noqa: BLE001 - the script's own call raises it again
            return None
        finally:
            self.is_within_call = before
        facts = programs.facts
        if facts.trains and facts.refusal and not programs.refusal:
            self.replayer.refuse(function.__name__, programs, facts.refusal)
        return programs

    def _begin(self, call: JittedCall) -> None:
        facts = call.facts
        call.note_trace()
        if facts.is_separate_update:
            self._begin_update(call, call.owner)
        else:
            self.finish()
            self._callbacks.timeline.begin_model()
            self._call = call
            if self._are_separate_updates and not facts.has_optimizer:
                call.is_part = True
                self._capture_forward(call)
                self._record_loss_facts(call)
            else:
                self._begin_steps(call)
        if self.checks is not None:
            self.is_within_call = True  # what the check computes is no step
            self.checks.begin(call, self._callbacks.timeline)
            self.is_within_call = False
        call.begun_ns = self._callbacks.timeline.clock()

    def _begin_update(self, call: Call, owner: StepOwner) -> None:
        """Begin a call that applies gradients which others have computed."""
        self._are_separate_updates = True
        pending, self._pending = self._pending, None
        if pending is not None:  # the first one: its gradients were captured where they were computed
            owner.replace(pending.owner)
            call.owner = pending.owner
            self._call = pending
            return
        call.owner, self._call = owner, call
        self._begin_steps(call)

    def _begin_steps(self, call: Call) -> None:
        """Begin the first step of a call; what is captured of the others is computed now."""
        callbacks, owner = self._callbacks, call.owner.current
        owner.sites = call.sites
        self.handover.begin(call)
        if isinstance(call, JittedCall):
            if owner.chain.begins_another((call.args, call.kwargs)):
                callbacks.begin_another_training(owner)
            self._checked.follow(owner.chain, call)
        if call.steps > 1:
            begun = callbacks.cost.begin()
            items = callbacks.items_within(owner, call.steps)
            if items:
                call.values((*items, *self._fact_items()))
            callbacks.cost.end(begun)
        self._begin_step(call)

    def _begin_step(self, call: Call) -> None:
        self._callbacks.timeline.facts.setdefault("device", jax.default_backend())  # running by now, not before
        self._callbacks.before_update(call.owner.current)
        self._capture_forward(call)
        self._record_checks(call)

    def steps_before(self) -> int | None:
        """Return the number of steps before the call that begins; None: nothing in its arguments tells it."""
        call = self._call
        return counted_steps((call.args, call.kwargs)) if isinstance(call, JittedCall) else None

    def _capture_forward(self, call: Call) -> None:
        if self.forward_items:
            begun = self._callbacks.cost.begin()
            values = self.layers_read.call(call.values, self.forward_items) or ()
            self._layers = [value for value in values if "layers" in value.info.collections]
            if isinstance(call, JittedCall) and call.steps == 1:
                self._labels = self.layers_read.call(self._keras.labels_of_step, call.args) or []
            self._callbacks.cost.end(begun)

    def take_layers(self) -> tuple[list[CapturedTensor], list[NamedTensor]]:
        """Return what was captured of layers in the current step, and its labels, and forget both."""
        layers, labels = self._layers, self._labels
        self._layers, self._labels = [], []
        return layers, labels

    def _record_loss_facts(self, call: Call) -> None:
        callbacks = self._callbacks
        if callbacks.loss_facts_step() is not None:
            begun = callbacks.cost.begin()
            callbacks.record_checks(self.loss_facts_read.call(call.loss_facts) or NO_FACTS)
            callbacks.cost.end(begun)

    def _record_checks(self, call: Call) -> None:
        """Record facts about loss calls, and the memory of the process."""
        callbacks = self._callbacks
        self._record_loss_facts(call)
        if callbacks.wants_checks():
            callbacks.record_checks({**process_memory(), **FRESH_GRADIENTS, **self._checked.of_step(call)})

    def _end(self, call: JittedCall, result: Any) -> None:
        call.is_over = True
        self._callbacks.timeline.call(COMPUTE, call.begun_ns)
        if call.is_part:
            self._record_losses(call, self._losses_read.call(losses_at, call.losses, 0, result) or ())
            return
        call.owner.current.chain.end_step(result)
        for step in range(call.steps):
            if step:
                call.index = step
                self._call = call
                self._begin_step(call)
            self._record_losses(call, self._losses_read.call(self._losses_at_step, call, step, result) or ())
            if step < call.steps - 1:
                self._end_step(call.owner.current)
        if call.facts.has_optimizer or self._are_separate_updates:
            self._end_step(call.owner.current)
            if not self._are_separate_updates:
                self._loss_only.follow(call)
        else:
            self._pending = call

    def _losses_of(self, places: Sequence[LossPlace], result: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Return the losses of a call that is one step."""
        return self._losses_read.call(self._found_losses, places, 0, result, args) or ()

    def _losses_at_step(self, call: JittedCall, step: int, result: Any) -> Sequence[Any]:
        return self._found_losses(call.losses, step, result, call.args) or call.replayed_losses()

    def _found_losses(self, places: Sequence[LossPlace], step: int, result: Any, args: Sequence[Any]) -> Sequence[Any]:
        return losses_at(places, step, result) or self._keras.losses_of(result, args)

    def _record_losses(self, call: Call, losses: Sequence[Any]) -> None:
        if self._callbacks.wants_loss():
            for at, loss in enumerate(losses):
                self._callbacks.record_loss((call.owner, at), loss, LOSS)

    def _end_step(self, owner: StepOwner) -> None:
        try:
            self._callbacks.after_update(owner, is_skipped=False)
            if self._callbacks.ends_steps(owner):
                self.handover.follow(owner)
        finally:
            self._call = self.eager = None

    def finish(self) -> None:
        """End the step whose gradients no optimizer has used. May raise ``TrainingStopped``."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self._end_step(pending.owner.current)

    # --- values of the current step -----------------------------------------------------------------------

    def values(self, items: Sequence[CaptureItem]) -> list[CapturedTensor]:
        """Return what ``items`` select in the current step."""
        if self._call is None:
            return []
        return self._call.values((*items, *self.forward_items, *self._fact_items()))

    def _fact_items(self) -> Sequence[CaptureItem]:
        """Return what selects facts about loss calls, if they are captured at this step: one replay has all."""
        return (LOSS_FACTS,) if self._callbacks.loss_facts_step() is not None else ()

    # --- outside of compiled functions --------------------------------------------------------------------

    def begin_eager(self) -> EagerCall:
        """Return the step outside of compiled functions, beginning it if there is none."""
        if self.eager is None:
            self.eager = EagerCall(self.replayer)
        return self.eager

    def wants_eager_layers(self) -> bool:
        """Return whether layers that are called outside of compiled functions are captured."""
        return bool(self.forward_items)

    def begin_eager_gradients(self) -> None:
        """Begin to compute gradients outside of compiled functions."""
        if self.checks is not None:
            self.checks.begin_eager()
        if not self._are_separate_updates:
            self.finish()
            self.eager = None  # of calls before the training, such as those that initialize a model

    def end_eager_gradients(self, function: Any, loss: Any) -> None:
        """Handle gradients that were computed outside of compiled functions."""
        call = self.begin_eager()
        call.owner = self._owners.of(getattr(function, "__code__", function), call, name_of(function))
        losses = [JaxScalar([Element(loss)])] if loss is not None else []
        if not self._are_separate_updates:
            self._call = call
            self._begin_steps(call)
            self._pending = call
        else:
            self._capture_forward(call)
        self._record_losses(call, losses)

    def begin_eager_update(self, function: Any) -> None:
        """Begin an update outside of compiled functions; the gradients are among its values."""
        call = self.begin_eager()
        self._begin_update(call, self._owners.of(function, call, name_of(function)))

    def end_eager_update(self) -> None:
        """End an update outside of compiled functions."""
        if self._call is not None:
            self._end_step(self._call.owner.current)

    def origin(self) -> list[CapturedTensor]:
        """Return the layers of the current step, if it is the first one with a loss or gradient that is not finite."""
        if self._call is None or not self._call.shows_origin or self.forward_items:
            return []
        return [value for value in self._call.values(()) if "layers" in value.info.collections]

    def ratios(self, items: Sequence[CaptureItem]) -> dict[str, float]:
        """Return the ratios of the updates of the current step by the names of the weights."""
        values = self._call.updates(items) if self._call is not None else []
        found = {value.info.name: value.numbers[0] for value in values if value.primaries == RATIO}
        frozen = {name for name, numbers in found.items() if len(numbers) > 1 and numbers[1] == numbers[2]}
        self._callbacks.record_checks(self._frozen.checks(frozen, found.keys() - frozen))
        return {name: float(numbers[0]) for name, numbers in found.items()}

    # --- evaluation ---------------------------------------------------------------------------------------

    def _evaluate(self, call: JittedCall) -> Any:
        """Make a call of an eval step."""
        self._guard.run(self._begin_evaluation, call)
        try:
            result = self._compiled(call.function, call.args, call.kwargs)
        finally:
            call.function.note_size(passes=False)
        self._guard.run(self._end_evaluation, call, result)
        return result

    def _begin_evaluation(self, call: JittedCall) -> None:
        self.finish()
        call.items = self._callbacks.evaluation.begin_step()
        if call.items:
            call.values(call.items)

    def _end_evaluation(self, call: JittedCall, result: Any) -> None:
        for name, loss in losses_in(result):
            self._callbacks.evaluation.record_loss(name, JaxScalar([Element(loss)]))
        self._callbacks.evaluation.end_step(self._captured_layers(call, call.items))

    # --- what is not captured -----------------------------------------------------------------------------

    def lower_ahead_of_time(self, function: JitWrapper, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Lower a function ahead of its calls, and note that they will not be seen."""
        self._uncaptured.gaps[f"{function.__name__}.lower()"] = AHEAD_OF_TIME
        before, self.is_within_call = self.is_within_call, True
        try:
            return function.compiled.lower(*args, **kwargs)
        finally:
            self.is_within_call = before

    def notice_traced(self) -> None:
        """Note that gradients are computed in a program that is being traced."""
        if not self.is_within_call:
            self._uncaptured.gaps["gradients outside of jax.jit"] = TRACED_ALONE
