"""The protocols between framework adapters and the recorder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.pending import Pending, PendingNumbers
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.guard import Facts, Guard
from leadline.instrumentation.timeline.deferred_calls import DeferredCalls, OverheadSpans
from leadline.instrumentation.timeline.step_clock import StepListener
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.records.documents import WatchedModel
from leadline.records.json_object import JsonObject
from leadline.records.names import Family
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout, StepStamp
from leadline.store.tensors import CaptureForm, HostBuffer

# --- calls from an adapter to the recorder ----------------------------------------------------------------


class Score(NamedTuple):
    """The value of a metric on one evaluation set."""

    name: str
    """``<set>-<metric>``."""
    value: float
    is_loss: bool
    marks: tuple[str, ...] = ()
    """Further collections that it belongs to: ``training_set`` or ``validation_set``."""


class StepCallbacks(Protocol):
    """The calls that an adapter makes while a training runs; each goes through the guard.

    **Order** - in a step: ``record_loss`` any number of times; for each optimizer ``before_update``, ``after_update``.
    """

    timeline: StepTimeline
    """Adds up the times of the current step."""

    listener: StepListener
    """Follows the current step while a profile window is open or pending."""

    @property
    def cost(self) -> OverheadSpans:
        """The overhead of the process."""

    facts: Facts
    """What an adapter finds from values of the script: each fact runs within the guard, and fails alone."""

    deferred: DeferredCalls
    """The calls that are made later, of steps at which nothing but losses is captured."""

    @property
    def evaluation(self) -> EvalCallbacks:
        """The calls about eval steps."""

    @property
    def given(self) -> GivenCallbacks:
        """The calls about what the script itself gives."""

    def defer_loss_only_steps(self) -> None:
        """Allow the next steps to be deferred, as long as nothing but losses is captured."""

    def ends_steps(self, optimizer: object) -> bool:
        """Return whether the steps of an optimizer are those of the training, so that they may be deferred."""

    def has_request(self) -> bool:
        """Return whether a control request may wait, so that the end of a step must not be deferred."""

    def after_loss_only_update(self, optimizer: object) -> None:
        """Handle the end of an optimizer's step in which nothing but losses was captured; it is called later."""

    def items_within(self, optimizer: object, steps: int) -> tuple[CaptureItem, ...]:
        """Return the items scheduled for any of the next train steps, if one call of the script makes several."""

    def wants_loss(self) -> bool:
        """Return whether the loss of the current step is captured; called before the loss is read."""

    def wants_gradient_norms(self) -> bool:
        """Return whether the gradient norms of the current step are captured."""

    def wants_checks(self) -> bool:
        """Return whether the loop checks of the current step are captured."""

    def captures_checks(self) -> bool:
        """Return whether the loop checks are captured at any step."""

    def has_loss_facts(self) -> bool:
        """Return whether facts about loss calls are captured at the current step, or at a later one of its training."""

    def loss_facts_step(self, *, in_later_trainings: bool = False) -> int | None:
        """Capture facts about loss calls at the current step, if its training still has any.

        Args:
            in_later_trainings: Whether those of a later training of the process are captured as well: not where a
                program would be compiled for each.

        Returns:
            How many steps of the training had facts before; None: it has none at this step.
        """

    def record_checks(self, values: Mapping[str, object]) -> None:
        """Record the results of the loop checks, and facts about loss calls: numbers, possibly device scalars."""

    def record_loss(self, site: object, value: object, name: str | None = None, marks: tuple[str, ...] = ()) -> None:
        """Record the scalar at which a backward pass begins.

        Args:
            site: Identifies the place in the script.
            value: A number, or a device scalar of the adapter: it supports addition and division by numbers, and
                ``DeviceScalars.row`` accepts it.
            name: The loss call, if known.
            marks: Further collections that the loss belongs to, in addition to ``losses``.
        """

    def log(self, values: Mapping[str, Any], collection: str = "scalars", marks: tuple[str, ...] = ()) -> int:
        """Record numbers that the script gives by name; return the global step to which they belong.

        Args:
            collection: ``scalars`` or ``metrics``.
            marks: Collections that the numbers belong to beside ``collection``.
        """

    def record_scores(self, scores: Sequence[Score]) -> None:
        """Record the scores of the current step on the evaluation sets."""

    def capture_last_step(self, family: Family) -> None:
        """Capture now what is scheduled for later steps of that family: the current step is the training's last."""

    def begin_training(self, owner: object) -> bool:
        """Begin a training that announces its end: until then its steps are the steps of the run.

        Args:
            owner: Takes the place of an optimizer in ``before_update`` and ``after_update``.
        Returns:
            False if another such training is running: this one has no steps of its own.
        """

    def end_training(self, owner: object) -> None:
        """End such a training; the next optimizer that steps owns the clock."""

    def begin_another_training(self, owner: object) -> None:
        """Begin another training with the current step, whose owner stays the same; the first one begins by itself."""

    def record_event(self, name: str, args: JsonObject) -> None:
        """Add an event to the timeline."""

    def note(self, line: str) -> None:
        """Record a line about what is not captured; every surface shows it."""

    def before_update(self, optimizer: object) -> None:
        """Called before an optimizer uses the gradients."""

    def after_update(self, optimizer: object, *, is_skipped: Any, is_part: bool = False) -> None:
        """Called when the outermost step of an optimizer has returned. May raise ``TrainingStopped``.

        Args:
            is_skipped: Whether a gradient scaler skipped the step; a device scalar where only the device knows.
            is_part: Whether this optimizer is part of another, whose own call follows and ends the step.
        """


class GivenCallbacks(Protocol):
    """The calls about what the script itself gives: before the end of a step it belongs to that step, after it to the
    one that ended, until the next begins; see ``leadline.training.recorder.last_step.LastStep``."""

    def follow(self, name: str, value: float, mode: str, *, is_loss: bool) -> bool:
        """Record a number by name if it belongs to the step that ended; return whether it does."""

    def arrays(self, name: str, mode: str) -> CapturedArrays | None:
        """Return where an array is captured that belongs to the step that ended; None: it is of the current step."""

    def close_step(self) -> None:
        """Give nothing more to the step that ended: the script itself ends its steps."""


class EvalCallbacks(Protocol):
    """The calls that an adapter makes about eval steps."""

    def begin_step(self, mode: str = "eval") -> Sequence[CaptureItem]:
        """Begin an eval step with its forward pass; return the items to capture.

        Args:
            mode: Its mode, where the script has not set one: ``eval`` or ``predict``.
        """

    def join_step(self, forward: Forward, mode: str) -> Sequence[CaptureItem]:
        """Capture in the current eval step too, whoever ends it, and begin one if there is none; return its items."""

    def mode(self) -> str:
        """Return the mode of the current eval step: ``eval``, or the mode that the script has set."""

    @property
    def stamp(self) -> StepStamp | None:
        """The current eval step; None between eval steps."""

    def record_loss(self, name: str | None, value: object) -> None:
        """Record a loss of the current eval step.

        Args:
            name: The loss call; None if the model returned the loss itself.
        """

    def end_step(self, forward: Forward) -> None:
        """End the current eval step. May raise ``TrainingStopped``."""

    def discard_step(self) -> None:
        """Discard the current eval step: its forward pass was that of a training step."""


# --- captured data ----------------------------------------------------------------------------------------


class Program(Protocol):
    """Captures some statistics and raw tensors of one optimizer's parameters; built once, run at many steps."""

    update_layout: SeriesLayout | None
    """The layout of the row of ``after``; None if ``after`` need not be called."""

    def before(self) -> tuple[SeriesLayout, bytes | PendingNumbers] | None:
        """Compute the statistics before the update: the layout, and one float64 per column."""

    def after(self) -> bytes | PendingNumbers | None:
        """Compute the statistics of the update: one float64 per column of ``update_layout``; None if unavailable."""

    def raw_form(self) -> CaptureForm | None:
        """Return the form of the raw tensors at this step; None if none are captured."""

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy the raw tensors into a buffer of ``raw_form()``; return the pending copy, None if it is complete.

        Args:
            buffer: None if there is no memory for them: the tensors are dropped.
        """


class Subject(Protocol):
    """One optimizer with the parameters that it updates."""

    model: str
    """The class of the root module."""
    optimizer: str
    parameters: int
    elements: int
    """The elements of all parameters of the model, also of those that the optimizer does not update; 0: not known."""
    trainable: int
    """Those that require a gradient."""

    def is_current(self) -> bool:
        """Return whether the optimizer still updates the same parameters."""

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> Program | None:
        """Build a program for the items; None if they select nothing of this optimizer."""

    def hyperparameters(self) -> Mapping[str, object]:
        """Return the current settings of the optimizer by name: numbers, possibly device scalars."""

    def clipped(self) -> Mapping[str, object]:
        """Return the gradient norms that clipping has computed since the last call, by name: numbers likewise."""


Trained = tuple[WatchedModel, str]
"""The model of an optimizer, and the optimizer's class."""


def trained_by(subject: Subject) -> Trained:
    """Return what the worker's document says of an optimizer."""
    model = WatchedModel(subject.model, subject.parameters, subject.elements, subject.trainable)
    return model, subject.optimizer


class Forward(Protocol):
    """The tensors captured in the first forward pass of a training step."""

    own_ns: int
    """The processor time of the capture within the pass."""
    begun_ns: int
    """When the pass began, in ``time.perf_counter_ns``; 0 if there was no pass."""
    accuracy: dict[str, Any]
    """The share of correctly predicted samples, if a classification loss was called and accuracy is captured."""

    def row(self) -> tuple[SeriesLayout, bytes | PendingNumbers] | None:
        """Return the statistics: the layout, and one float64 per column."""

    def raw_form(self) -> CaptureForm | None:
        """Return the form of the raw tensors; None if there are none."""

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy the raw tensors into a buffer of ``raw_form()``; return the pending copy, None if it is complete.

        Args:
            buffer: None if there is no memory for them: the tensors are dropped.
        """


# --- adapters and their capabilities ----------------------------------------------------------------------


class Captures(Protocol):
    """The capture of optimizers, and of data between the beginning and the end of a step."""

    def subject(self, optimizer: object) -> Subject:
        """Return the parameters of an optimizer, with names."""

    def captures_between_steps(self, item: CaptureItem) -> bool:
        """Return whether an item may select data that is captured between the beginning and the end of a step."""

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        """Capture the items in the forward pass of the step that begins; called again within it, others in its rest."""

    def end_forward(self) -> Forward | None:
        """Stop the capture; return what was captured."""


class Adapter(Captures, Protocol):
    """The adapter of a framework; further capabilities are the protocols below, each of which an adapter may lack.

    **Changes nothing** - no call changes a bit of the training, its random state or its settings.

    **Leaves nothing** - after ``uninstall`` no trace is left in the framework or in the user's objects.
    """

    name: str
    family: Family

    def version(self) -> str:
        """Return the version of the framework."""

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        """Begin to call ``callbacks``, each call through the guard."""

    def uninstall(self) -> None:
        """Stop calling the callbacks."""

    def knows(self, thing: object) -> bool:
        """Return whether an optimizer, model or number belongs to this framework."""

    def register(self, model: object) -> None:
        """Register a model, so that it need not be searched for.

        Raises:
            TypeError: It is not a model of this framework.
        """

    def describe(self) -> TrainingDescription:
        """Return the entries of the worker document about the training: plain JSON values."""
