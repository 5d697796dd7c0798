"""Steps of a training: calls of functions that train, eager updates, and the batches of Keras."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tensorflow as tf

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.capture_requests import CapturedTensor, numbers_of
from leadline.frameworks.keras.batches import EvaluatedBatch
from leadline.frameworks.keras.frozen import frozen_parameters
from leadline.frameworks.kit.fresh_gradients import FRESH_GRADIENTS
from leadline.frameworks.kit.loss_facts import NO_FACTS
from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.process_memory import process_memory
from leadline.frameworks.tensorflow.check.check_hooks import TensorFlowChecks
from leadline.frameworks.tensorflow.eval_batches import joined, take_batches
from leadline.frameworks.tensorflow.given_arrays import given_to, given_to_fit
from leadline.frameworks.tensorflow.handover import VariableHandover
from leadline.frameworks.tensorflow.loss_only_batches import LossOnlyBatches, scores_of
from leadline.frameworks.tensorflow.losses import LossReading, LossTotals
from leadline.frameworks.tensorflow.replay import Replays, StepCall
from leadline.frameworks.tensorflow.step_owners import counted_by, iterations_of, micro_batches_of, owners_of
from leadline.frameworks.tensorflow.taps import EagerTaps
from leadline.frameworks.tensorflow.tracing import TracedFunction, Tracing, is_eager
from leadline.frameworks.tensorflow.trained_modes import TrainedModes
from leadline.instrumentation.guard import Guard
from leadline.records.phases import COMPUTE
from leadline.records.plan import CaptureItem

LOSS = "loss"


class Phase(NamedTuple):
    """A method of a Keras model that is running."""

    mode: str
    model: Any
    data: Any
    """What it was given first."""
    number: int


@dataclass(slots=True)
class _Step:
    """A step whose update was computed, and which was not ended yet."""

    owners: list[Any]
    function: Any = None
    """The function whose call has made the step, if each of its calls makes one."""
    steps: int = 1
    is_skipped: bool = False
    losses: dict[object, float] = field(default_factory=dict)


class Steps:
    """Calls the recorder at each step, however the script computes it.

    A step is a call of a function that trains; within ``fit`` it ends when Keras has told its callbacks the results of
    the batch, so that its metrics belong to it. A call of several batches (``steps_per_execution``) is as many steps,
    of which the first is captured. Without a function a step ends when the optimizer has been applied.

    Args:
        forward_items: Returns what is captured of layers in the current step.
        handover: Follows the owner of the steps.
        modes: Follows the modes of the models.
    """

    def __init__(
        self,
        callbacks: StepCallbacks,
        guard: Guard,
        tracing: Tracing,
        replays: Replays,
        note: Callable[[str], None],
        handover: VariableHandover,
        modes: TrainedModes,
    ) -> None:
        self._callbacks, self._guard, self._note = callbacks, guard, note
        self.handover, self.modes = handover, modes
        self.layers = callbacks.facts.of("layers and gradients within functions are")
        self._modes = callbacks.facts.of("modes and regularizers of layers are")
        self.checks: TensorFlowChecks | None = None
        self._losses = callbacks.facts.of("losses are", is_vital=True)
        self._results = callbacks.facts.of("results of batches are", is_vital=True)
        self.tracing, self._replays = tracing, replays
        self.forward_items: tuple[CaptureItem, ...] = ()
        self.eager_taps: EagerTaps | None = None
        self._phases: list[Phase] = []
        self._numbers = itertools.count()
        self._call: StepCall | None = None
        self._eager_gradients: Callable[[Sequence[CaptureItem]], list[CapturedTensor]] | None = None
        self._pending: _Step | None = None
        self.before_optimizer: Callable[[], None] = lambda: None
        """Called before an optimizer uses the gradients that were computed outside of a function."""
        self.eager_variables: Sequence[Any] = ()
        """The variables of the current eager update: an optimizer has none before its first one."""
        self.scaled_loss: tuple[Any, Any] | None = None
        """The last loss that an optimizer has scaled, and the loss itself."""
        self._evaluated = EvaluatedBatch(note)
        self._totals, self._clock = LossTotals(), callbacks.cost.clock
        self.loss_only = LossOnlyBatches(callbacks, guard, self._totals, self._record_loss_of_batch)

    @property
    def phase(self) -> Phase | None:
        """The method of a Keras model that is running."""
        return self._phases[-1] if self._phases else None

    @property
    def applies_optimizer(self) -> bool:
        """Whether the function that the script is calling applies an optimizer of Keras."""
        return self._call is not None and bool(self._call.facts.optimizers)

    @property
    def is_exhausted(self) -> bool:
        """Whether the call that the script is making will end without a step, because there is no batch left."""
        return self._call is not None and self._call.is_exhausted

    # --- calls of functions -------------------------------------------------------------------------------

    def call(self, original: Callable[..., Any], function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the script, and capture it if it trains."""
        if self.tracing.is_active:
            return self.tracing.call_nested(original, function, args, kwargs)
        if not is_eager() or function._run_functions_eagerly:
            return original(function, *args, **kwargs)
        begun_ns = self._clock()
        if self.loss_only.accepts(function):
            return self.loss_only.make(begun_ns, self.tracing.call, original, function, args, kwargs)
        facts = self.tracing.facts_of(function) or self._guard.run(self._learn, function, args, kwargs)
        if facts is None or not facts.trains:
            given = self._guard.run(self._see_batch, args) if self._evaluated.is_wanted else None
            return self.tracing.call(original, function, given or args, kwargs)
        call = StepCall(function, facts, args, kwargs)
        if self.phase is None:  # Keras traces a function of its own for each model
            call.traces = self._guard.run(self.tracing.count_traces, function, facts) or call.traces
        self._guard.run(self._begin, call)
        if call.substitute is None:
            result = self.tracing.call(original, function, call.args, call.kwargs)
        else:
            result = self.tracing.call_within(function, call.substitute)
        self._guard.run(self._end, call, result)
        return result

    def _learn(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TracedFunction:
        facts = self.tracing.learn(function, args, kwargs)
        if facts.refusal:
            self._note(f"{function.name} is not captured: {facts.refusal}")
        return facts

    def replay(self, items: Sequence[CaptureItem]) -> list[CapturedTensor]:
        """Return what ``items`` select in the current step."""
        if self._call is not None:
            return self._replays.run(self._call, (*items, *self.forward_items))
        return self._eager_gradients(items) if self._eager_gradients is not None else []

    def forward_values(self) -> list[CapturedTensor]:
        """Return what was captured of layers in the current step."""
        if self._call is not None and self._call.replayed is not None:
            return self._call.replayed
        return self.eager_taps.values() if self.eager_taps is not None else []

    def given(self) -> list[NamedTensor]:
        """Return the arrays that the current step was given: those of its function, or all of ``fit``."""
        if self.phase is not None:
            return given_to_fit(self.phase.data)
        return given_to(self._call) if self._call is not None else []

    def prepare(self, items: Sequence[CaptureItem]) -> None:
        """Trace what ``replay`` will need of the current step."""
        if self._call is not None:
            self._replays.prepare(self._call, (*items, *self.forward_items))

    def take_blocked_ns(self) -> int:
        """Return the time that replays have taken in other threads since the last call."""
        return self._replays.take_blocked_ns()

    def _begin(self, call: StepCall) -> None:
        self.finish()
        self._callbacks.timeline.begin_model()
        phase = self.phase
        if phase is not None and phase.mode == "train":
            call.batches = getattr(phase.model, "steps_per_execution", 1)
            self._modes.call(self.modes.begin_fitted, call, owners_of(call), phase.model, phase.number)
        counted = counted_by(call)
        call.iterations = iterations_of(counted) if counted is not None else 0
        self._call = call
        if counted is not None and call.batches == 1 and (call.iterations + 1) % micro_batches_of(counted):
            call.replayed = []  # it only adds to the gradients that a later call applies
            return
        call.facts.steps += call.batches + self.loss_only.take_made()
        for owner in owners_of(call):
            self._callbacks.before_update(owner)
        if self.forward_items and call.replayed is None:
            begun = self._callbacks.cost.begin()
            self._replays.run(call, self.forward_items)
            self._callbacks.cost.end(begun)
        self._record_checks(call, lambda: self.modes.of_call(call, owners_of(call)))
        if self.checks is not None:
            self.checks.begin(call, self._replays, self._callbacks.timeline)
        call.begun_ns = self._callbacks.timeline.clock()

    def _record_checks(self, call: StepCall | None, modes: Callable[[], Mapping[str, float]]) -> None:
        """Record facts about the loss calls of a call, None: of an eager step, modes, and the memory of the process."""
        callbacks = self._callbacks
        if callbacks.loss_facts_step() is not None and not self.is_exhausted:
            begun = callbacks.cost.begin()
            if call is not None:
                self._replays.run(call, self.forward_items)
            callbacks.record_checks(self._replays.loss_facts(call) if call is not None else NO_FACTS)
            callbacks.cost.end(begun)
        if callbacks.wants_checks():
            callbacks.record_checks({**process_memory(), **FRESH_GRADIENTS, **(self._modes.call(modes) or {})})

    def _end(self, call: StepCall, result: Any) -> None:
        self._callbacks.timeline.call(COMPUTE, call.begun_ns)
        step = self._pending = _Step(owners_of(call))
        counted = counted_by(call)
        if counted is not None:
            now, size = iterations_of(counted), micro_batches_of(counted)
            step.is_skipped = now == call.iterations and hasattr(counted, "inner_optimizer")
            step.steps = max(now // size - call.iterations // size, int(step.is_skipped))
        elif len(step.owners) == 1 and call.facts.optimizers and call.batches == 1 and call.substitute is None:
            step.function = call.function
        if self.phase is not None and self.phase.mode == "train":
            return
        if self._callbacks.wants_loss():
            if call.facts.loss_outputs:
                results = tf.nest.flatten(result)
                read = {(call.facts, at): self._losses.call(float, results[at]) for at in call.facts.loss_outputs}
                step.losses = {site: loss for site, loss in read.items() if loss is not None}
            elif call.replayed:
                step.losses.update(numbers_of(call.replayed, "losses"))
        self.finish()

    # --- eager updates ------------------------------------------------------------------------------------

    def begin_update(
        self,
        optimizer: Any,
        gradients: Callable[[Sequence[CaptureItem]], list[CapturedTensor]],
        variables: Sequence[Any],
    ) -> None:
        """Begin an update outside of a function."""
        self.finish()
        self._call = None  # of a call that failed
        self.eager_variables = variables
        self._eager_gradients = gradients
        self._callbacks.before_update(optimizer)
        mode = self._modes.call(self.modes.of_update, optimizer, variables)
        self._record_checks(None, lambda: mode or {})
        if self.checks is not None:
            self.checks.begin_eager()
        self._callbacks.timeline.begin_update()

    def end_update(self, optimizer: Any, *, is_skipped: bool = False) -> None:
        """End an update outside of a function."""
        self._callbacks.timeline.end_update()
        self._eager_gradients, self.eager_variables = None, ()
        self._pending = _Step([optimizer], is_skipped=is_skipped)
        if self.phase is None or self.phase.mode != "train":
            self.finish()

    def takes_over(self, owner: Any) -> bool:
        """Return whether the step that ends shows that the training of another owner is over."""
        phase, function = self.phase, self._call.function if self._call is not None else None
        return self.handover.is_over(owner, phase.number if phase is not None else None, function)

    def begin_backward(self, tape: Any) -> None:
        """Begin to compute gradients outside of a function."""
        timeline = self._callbacks.timeline
        self.handover.note_tape(tape)
        timeline.end_forward()
        timeline.begin_backward()

    def end_backward(self) -> None:
        """End the computation of gradients outside of a function."""
        self._callbacks.timeline.end_backward()

    def unscaled(self, loss: Any) -> Any:
        """Return the loss that an optimizer has scaled."""
        scaled, self.scaled_loss = self.scaled_loss, None
        return scaled[1] if scaled is not None and scaled[0] is loss else loss

    def record_loss(self, loss: Any) -> None:
        """Record the loss of which gradients are computed outside of a function."""
        if self.phase is None and self._callbacks.wants_loss():
            frame = sys._getframe(4)
            value = self._losses.call(float, loss)
            if value is not None:
                self._callbacks.record_loss((frame.f_code, frame.f_lineno), value, LOSS)

    # --- Keras --------------------------------------------------------------------------------------------

    def begin_phase(self, mode: str, model: Any, data: Any) -> None:
        """Begin ``fit``, ``evaluate`` or ``predict``, with the data that it is given."""
        self.finish()
        self.loss_only.forget()
        self._phases.append(Phase(mode, model, data, next(self._numbers)))

    def end_phase(self) -> None:
        """End the method that began last."""
        self.finish()
        self.loss_only.forget()
        self._phases.pop()

    def end_training(self) -> bool:
        """Ask ``fit`` to end after this batch; return whether it runs."""
        models = [phase.model for phase in self._phases if phase.mode == "train"]
        for model in models:
            model.stop_training = True
        return bool(models)

    def end_batch(self, logs: Mapping[str, Any] | None) -> None:
        """End the step of a batch, with the results that Keras tells its callbacks."""
        if self._pending is None and self.phase is not None:
            self._begin_without_update(self.phase.model)
        self.finish(logs or {})

    def _begin_without_update(self, model: Any) -> None:
        """Begin a step at a batch that updated nothing, because the whole model is frozen."""
        checks = frozen_parameters(model)
        if not checks:
            return
        self._call = None
        self._callbacks.before_update(model.optimizer)
        if self._callbacks.wants_checks():
            self._callbacks.record_checks(checks)
        self._pending = _Step([model.optimizer])

    def begin_eval_batch(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begin the step of a batch in ``evaluate`` or ``predict``."""
        mode, evaluation = self.phase.mode if self.phase is not None else "eval", self._callbacks.evaluation
        items = evaluation.begin_step(mode)
        self.layers.call(self._evaluated.begin, items if self.phase else (), mode, self.phase and self.phase.model)

    def _see_batch(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Capture the batch of an eval step; return arguments to compute it with, None: as they are."""
        assert self.phase is not None
        taken = self.layers.call(take_batches, args, getattr(self.phase.model, "steps_per_execution", 1))
        if taken is None:
            return None
        self.layers.call(lambda: self._evaluated.take(joined(taken[0])))
        return taken[1]

    def end_eval_batch(self, logs: Mapping[str, Any] | None) -> None:
        """End the step of a batch in ``evaluate`` or ``predict``, with the results that Keras tells its callbacks."""
        evaluation, phase = self._callbacks.evaluation, self.phase
        if phase is not None and phase.mode == "eval":
            loss = self._losses.call(self._mean_loss, self._losses.call(self._totals.read, phase.model))
            if loss is not None:
                evaluation.record_loss(LOSS, loss)
            if logs:
                self._log(logs)
        evaluation.end_step(self._evaluated.captured)

    def finish(self, logs: Mapping[str, Any] | None = None) -> None:
        """End the step that was computed. May raise ``TrainingStopped``."""
        step, self._pending = self._pending, None
        if step is None:
            return
        callbacks = self._callbacks
        phase = self.phase
        if phase is not None:
            self._record_results(phase.model, logs or {})
        for site, loss in step.losses.items():
            callbacks.record_loss(site, float(loss), LOSS)
        for at in range(step.steps):
            for owner in step.owners:
                callbacks.after_update(owner, is_skipped=step.is_skipped)
                if callbacks.ends_steps(owner):
                    self.handover.follow(owner, phase.number if phase is not None else None)
            if at == 0:
                self._call = None
                self._replays.release()
        if step.function is not None and phase is not None and phase.mode == "train":
            self.loss_only.follow(step.function, phase.model, step.owners[0])

    def _record_results(self, model: Any, logs: Mapping[str, Any]) -> None:
        self._record_loss_of_batch(self._losses.call(self._totals.read, model), logs)
        if logs:
            self._log(logs)

    def _record_loss_of_batch(self, reading: LossReading | None, logs: Mapping[str, Any]) -> None:
        loss = self._losses.call(self._mean_loss, reading)
        if loss is None and LOSS in logs:
            loss = self._losses.call(float, logs[LOSS])
        if loss is not None and self._callbacks.wants_loss():
            self._callbacks.record_loss(LOSS, loss, LOSS)

    def _mean_loss(self, reading: LossReading | None) -> float | None:
        return self._totals.mean_since(reading) if reading is not None else None

    def _log(self, results: Mapping[str, Any]) -> None:
        self._callbacks.record_scores(scores_of(results, self._results))
