"""Steps of a training: calls of compiled functions that compute gradients, and updates outside of such functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.frozen_parameters import FrozenParameters
from leadline.frameworks.jax.calls import EagerCall, JittedCall, Owner
from leadline.frameworks.jax.facts import LossPlace, TapSite, losses_in
from leadline.frameworks.jax.jitted import Jitted
from leadline.frameworks.jax.owners import Owners
from leadline.frameworks.jax.quiet_steps import QuietSteps
from leadline.frameworks.jax.replay import RATIO, CaptureProgram, Programs, Recipe, Timer, evaluate_eager
from leadline.frameworks.jax.scalars import LateNumber
from leadline.frameworks.jax.step_count import counted_steps
from leadline.frameworks.jax.tensors import LOSS
from leadline.frameworks.kit.fresh_gradients import FRESH_GRADIENTS
from leadline.frameworks.kit.loss_facts import NO_FACTS
from leadline.frameworks.process_memory import process_memory
from leadline.frameworks.tapped import Values, record_compilation
from leadline.records.phases import COMPUTE
from leadline.records.plan import CaptureItem
from leadline.training.guard import Guard

Call = JittedCall | EagerCall


class TrainingSteps:
    """Calls the recorder at each step, however the script computes it.

    A step is a call of a compiled function that computes gradients or calls an optimizer; where the one function
    computes them and another, or the script itself, calls the optimizer, the latter ends the step. A call in which
    ``lax.scan`` repeats the step ``n`` times is ``n`` steps. Without an optimizer a step ends when the next begins.

    Args:
        jit: ``jax.jit``, not replaced.
        note: Takes a line about something that cannot be captured.
    """

    def __init__(
        self, jit: Callable[..., Any], callbacks: StepCallbacks, guard: Guard, note: Callable[[str], None]
    ) -> None:
        self._jit, self._callbacks, self._guard, self._note = jit, callbacks, guard, note
        self._losses_read = callbacks.facts.of("losses are", is_vital=True)
        self.layers_read = callbacks.facts.of("layers are")
        self._clock, self._quiet = callbacks.cost.clock, QuietSteps(callbacks, guard, self._losses_of)
        self.forward_items: tuple[CaptureItem, ...] = ()
        self.is_evaluation = False
        """Whether the script has set the mode to evaluation."""
        self.ahead_of_time: set[str] = set()
        """Functions that were lowered ahead of their calls."""
        self.refusals: dict[str, str] = {}
        """Why functions cannot be replayed, by their names."""
        self.has_traced_alone = False
        """Whether gradients were computed in a program that is no call of a compiled function."""
        self._owners, self._frozen = Owners(), FrozenParameters()
        self._call: Call | None = None
        self._pending: Call | None = None
        """A call whose step may be ended by an update that follows it."""
        self._are_updates_apart = False
        self.is_within_call = False
        self.eager: EagerCall | None = None
        """The step outside of compiled functions."""
        self._layers: list[Values] = []
        """What was captured of layers in the current step."""
        self._eager_programs: dict[Recipe, CaptureProgram] = {}
        self._elsewhere_ns = 0
        self.seeks_origin = True
        """Whether no loss and no gradient of a replayed step was NaN or infinite so far."""
        self.captured_layers: Callable[..., Any]
        """Returns what was captured of layers in an eval step, as a ``Forward``; set by the adapter."""
        self.other_losses: Callable[..., Sequence[Any]]
        """Returns losses that a result holds in another form; set by the adapter."""

    # --- calls of compiled functions ----------------------------------------------------------------------

    def call_traced(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function within the program of another one."""
        return jitted(*args, **kwargs)

    def call(self, function: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the script, and capture it if it trains."""
        begun_ns = self._clock()
        if self._quiet.accepts(function, args, kwargs):
            return self._quiet.make(self._compiled, function, args, kwargs, begun_ns)
        programs = self._guard.run(self._learn, function, args, kwargs)
        facts = programs.facts if programs is not None else None
        if programs is None or facts is None or not (facts.trains or (facts.has_layers and self.is_evaluation)):
            try:
                return self._compiled(function, args, kwargs)
            finally:
                function.note_size(passes=True)
        if not facts.trains:
            return self._evaluate(JittedCall(function, args, kwargs, programs, Owner("", "")))
        owner = self._owners.of_compiled(function)
        call = JittedCall(function, args, kwargs, programs, owner)
        self._guard.run(self._begin, call)
        try:
            result = self._compiled(function, args, kwargs)
        finally:
            function.note_size(passes=False)
        self._guard.run(self._end, call, result)
        return result

    def _compiled(self, function: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before, self.is_within_call = self.is_within_call, True
        try:
            return function.compiled(*args, **kwargs)
        finally:
            self.is_within_call = before

    def _learn(self, function: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Programs | None:
        before, self.is_within_call = self.is_within_call, True
        try:
            programs = function.programs_of(args, kwargs)
        except Exception:  # noqa: BLE001 - the script's own call raises it again
            return None
        finally:
            self.is_within_call = before
        facts = programs.facts
        if facts.trains and facts.refusal and not programs.refusal:
            self.refuse(function.__name__, programs, facts.refusal)
        return programs

    def refuse(self, name: str, programs: Programs, why: str) -> None:
        """Note that a function cannot be replayed."""
        programs.refusal = self.refusals[name] = why
        self._note(f"gradients, weights and activations of {name} are not captured: {why}")

    def _begin(self, call: JittedCall) -> None:
        facts = call.facts
        call.note_trace()
        if facts.is_update_apart:
            self._begin_update(call, call.owner)
        else:
            self.finish()
            self._callbacks.timeline.begin_model()
            self._call = call
            if self._are_updates_apart and not facts.has_optimizer:
                call.is_part = True
                self._capture_forward(call)
            else:
                self._begin_steps(call)
        call.begun_ns = self._callbacks.timeline.clock()

    def _begin_update(self, call: Call, owner: Owner) -> None:
        """Begin a call that applies gradients which others have computed."""
        self._are_updates_apart = True
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
        if isinstance(call, JittedCall) and owner.chain.begins_another((call.args, call.kwargs)):
            callbacks.begin_another_training(owner)
        if call.steps > 1:
            begun = callbacks.cost.begin()
            items = callbacks.items_within(owner, call.steps)
            if items:
                call.values(self, items)
            callbacks.cost.end(begun)
        self._begin_step(call)

    def _begin_step(self, call: Call) -> None:
        self._callbacks.timeline.facts.setdefault("device", jax.default_backend())  # running by now, not before
        self._callbacks.before_update(call.owner.current)
        self._capture_forward(call)
        self._record_checks()

    def steps_before(self) -> int | None:
        """Return the number of steps before the call that begins; None: nothing in its arguments tells it."""
        call = self._call
        return counted_steps((call.args, call.kwargs)) if isinstance(call, JittedCall) else None

    def _capture_forward(self, call: Call) -> None:
        if self.forward_items:
            begun = self._callbacks.cost.begin()
            values = self.layers_read.call(call.values, self, self.forward_items) or ()
            self._layers = [value for value in values if "layers" in value.info.collections]
            self._callbacks.cost.end(begun)

    def take_layers(self) -> list[Values]:
        """Return what was captured of layers in the current step, and forget it."""
        taken, self._layers = self._layers, []
        return taken

    def _record_checks(self) -> None:
        """Record the memory of the process, and that nothing is known of loss calls."""
        callbacks = self._callbacks
        if callbacks.loss_facts_step() is not None:
            callbacks.record_checks(NO_FACTS)
        if callbacks.wants_checks():
            callbacks.record_checks({**process_memory(), **FRESH_GRADIENTS})

    def _end(self, call: JittedCall, result: Any) -> None:
        call.is_over = True
        self._callbacks.timeline.call(COMPUTE, call.begun_ns)
        if call.is_part:
            self._record_losses(call, self._losses_read.call(_losses_at, call.losses, 0, result) or ())
            return
        call.owner.current.chain.end_step(result)
        for step in range(call.steps):
            if step:
                call.at = step
                self._call = call
                self._begin_step(call)
            self._record_losses(call, self._losses_read.call(self._losses_at_step, call, step, result) or ())
            if step < call.steps - 1:
                self._end_step(call.owner.current)
        if call.facts.has_optimizer or self._are_updates_apart:
            self._end_step(call.owner.current)
            if not self._are_updates_apart:
                self._quiet.follow(call)
        else:
            self._pending = call

    def _losses_of(self, places: Sequence[LossPlace], result: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Return the losses of a call that is one step."""
        return self._losses_read.call(self._found_losses, places, 0, result, args) or ()

    def _losses_at_step(self, call: JittedCall, step: int, result: Any) -> Sequence[Any]:
        return self._found_losses(call.losses, step, result, call.args) or call.replayed_losses()

    def _found_losses(self, places: Sequence[LossPlace], step: int, result: Any, args: Sequence[Any]) -> Sequence[Any]:
        return _losses_at(places, step, result) or self.other_losses(result, args)

    def _record_losses(self, call: Call, losses: Sequence[Any]) -> None:
        if self._callbacks.wants_loss():
            for at, loss in enumerate(losses):
                self._callbacks.record_loss((call.owner, at), loss, LOSS)

    def _end_step(self, owner: Owner) -> None:
        try:
            self._callbacks.after_update(owner, is_skipped=False)
        finally:
            self._call = self.eager = None

    def finish(self) -> None:
        """End the step whose gradients no optimizer has used. May raise ``TrainingStopped``."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self._end_step(pending.owner.current)

    # --- values of the current step -----------------------------------------------------------------------

    def values(self, items: Sequence[CaptureItem]) -> list[Values]:
        """Return what ``items`` select in the current step."""
        return self._call.values(self, (*items, *self.forward_items)) if self._call is not None else []

    def compiled_by_us(self) -> Callable[..., Any]:
        """Return ``jax.jit``, not replaced."""
        return self._jit

    def account(self, timer: Timer, *, is_new: bool) -> None:
        """Account for a replay: the first one of a program is that of its compilation."""
        took, took_cpu = timer.took()
        if is_new:
            record_compilation(self._callbacks, took, took_cpu)
        else:
            self._elsewhere_ns += took - took_cpu

    def take_elsewhere_ns(self) -> int:
        """Return the time that replays have taken in other threads since the last call."""
        taken, self._elsewhere_ns = self._elsewhere_ns, 0
        return taken

    # --- outside of compiled functions --------------------------------------------------------------------

    def begin_eager(self) -> EagerCall:
        """Return the step outside of compiled functions, beginning it if there is none."""
        if self.eager is None:
            self.eager = EagerCall()
        return self.eager

    def wants_eager_layers(self) -> bool:
        """Return whether layers that are called outside of compiled functions are captured."""
        return bool(self.forward_items)

    def begin_eager_gradients(self) -> None:
        """Begin to compute gradients outside of compiled functions."""
        if not self._are_updates_apart:
            self.finish()
            self.eager = None  # of calls before the training, such as those that initialize a model

    def end_eager_gradients(self, function: Any, loss: Any) -> None:
        """Handle gradients that were computed outside of compiled functions."""
        call = self.begin_eager()
        call.owner = self._owners.of(getattr(function, "__code__", function), call, name_of(function))
        losses = [LateNumber([(loss, 0)])] if loss is not None else []
        if not self._are_updates_apart:
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

    def origin(self) -> list[Values]:
        """Return the layers of the current step, if it is the first one with a loss or gradient that is not finite."""
        if self._call is None or not self._call.shows_origin or self.forward_items:
            return []
        return [value for value in self._call.values(self, ()) if "layers" in value.info.collections]

    def ratios(self, items: Sequence[CaptureItem]) -> dict[str, float]:
        """Return the ratios of the updates of the current step by the names of the weights."""
        values = self._call.updates(self, items) if self._call is not None else []
        found = {value.info.name: value.numbers[0] for value in values if value.primaries == RATIO}
        frozen = {name for name, numbers in found.items() if len(numbers) > 1 and numbers[1] == numbers[2]}
        self._callbacks.record_checks(self._frozen.checks(frozen, found.keys() - frozen))
        return {name: float(numbers[0]) for name, numbers in found.items()}

    def eager_program(self, recipe: Recipe, sites: Sequence[TapSite]) -> CaptureProgram:
        """Return the program that computes a recipe from arrays at hand."""
        if recipe not in self._eager_programs:
            self._eager_programs[recipe] = CaptureProgram(self._jit, evaluate_eager, sites, 0, recipe)
        return self._eager_programs[recipe]

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
            call.values(self, call.items)

    def _end_evaluation(self, call: JittedCall, result: Any) -> None:
        for name, loss in losses_in(result):
            self._callbacks.evaluation.record_loss(name, LateNumber([(loss, 0)]))
        self._callbacks.evaluation.end_step(self.captured_layers(call, call.items))

    # --- what is not captured -----------------------------------------------------------------------------

    def lower_ahead_of_time(self, function: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Lower a function ahead of its calls, and note that they will not be seen."""
        self.ahead_of_time.add(function.__name__)
        before, self.is_within_call = self.is_within_call, True
        try:
            return function.compiled.lower(*args, **kwargs)
        finally:
            self.is_within_call = before

    def notice_traced(self) -> None:
        """Note that gradients are computed in a program that is being traced."""
        if not self.is_within_call:
            self.has_traced_alone = True


def _losses_at(places: Sequence[LossPlace], step: int, result: Any) -> list[LateNumber]:
    """Return the losses of a step of a call."""
    return [LateNumber([(place.find(result), step)]) for place in places]


def name_of(function: Any) -> str:
    """Return the name of a function of the script."""
    return str(getattr(function, "__name__", None) or type(function).__name__)
