"""What a framework adapter offers to capture, and what it tells those who subscribe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from leadline.frameworks.scores import Scores
from leadline.records.names import Family
from leadline.records.plan import CaptureItem
from leadline.records.profile_window import ProfileWindow
from leadline.records.series import SeriesLayout
from leadline.store.tensors import CaptureForm, HostBuffer
from leadline.training.guard import Guard
from leadline.training.pending import Pending, PendingNumbers
from leadline.training.recording import Opener, Recording
from leadline.training.timeline.listener import StepListener
from leadline.training.timeline.step_timeline import StepTimeline


class StepCallbacks(Protocol):
    """What an adapter calls while a training runs; every call goes through the guard.

    **Order** - within a step: ``loss`` any number of times, then for each optimizer that steps
    ``before_update`` and ``after_update``.
    """

    timeline: StepTimeline
    """What adds up the times of the step under way."""

    listener: StepListener
    """Who wants to know where the step under way is."""

    def wants_loss(self) -> bool:
        """Whether the loss of the step under way is captured; asked before it is read."""

    def wants_gradient_norms(self) -> bool:
        """Whether the norms of all gradients of the step under way are captured."""

    def wants_checks(self) -> bool:
        """Whether what the hooks noticed of the loop is captured at the step under way."""

    def checks(self, values: Mapping[str, float]) -> None:
        """What they noticed; after ``before_update``."""

    def loss(self, site: object, value: object, name: str | None = None, marks: tuple[str, ...] = ()) -> None:
        """A backward pass began at a scalar; ``site`` tells the places in the script apart, ``name`` the loss call.

        Args:
            value: A number, or one of the adapter's that is still on a device: such can be added, and divided by
                numbers, and ``Adapter.row`` takes them.
            marks: Collections that it is a member of beside ``losses``.
        """

    def log(self, values: Mapping[str, Any], collection: str = "scalars", marks: tuple[str, ...] = ()) -> None:
        """Numbers of the step under way, by name.

        Args:
            collection: ``scalars`` or ``metrics``.
            marks: Collections that they are members of beside it.
        """

    def scores(self, scores: Scores, values: Sequence[float]) -> None:
        """What the step under way has scored on evaluation sets.

        Args:
            scores: The very same tuple as long as they stay the same.
            values: Of each its number.
        """

    def plain_step(self, owner: object, scores: Scores, values: Sequence[float]) -> bool:
        """A step of somebody without gradients is over that leaves nothing behind but these numbers.

        True where nothing else is due: there is no more to be told of it. False: nothing was done, and the step is to
        be told in full, by ``scores``, ``before_update`` and ``after_update``. May raise ``TrainingStopped``.
        """

    def last_step(self, family: Family) -> None:
        """The step under way is the training's last: what would be captured of that family later is due now."""

    def training_begins(self, owner: object) -> bool:
        """A training that says when it ends begins: from here on its steps are the steps.

        Args:
            owner: Stands where an optimizer does: ``before_update`` and ``after_update`` tell of its steps.
        Returns:
            False: another such training goes on; this one has no steps of its own.
        """

    def training_ends(self, owner: object) -> None:
        """It has ended; the next optimizer that steps owns the clock."""

    def event(self, name: str, args: dict[str, Any]) -> None:
        """Something happened that the timeline keeps."""

    def before_update(self, optimizer: object) -> None:
        """An optimizer is about to use the gradients as they now are."""

    def eval_step_begins(self) -> Sequence[CaptureItem]:
        """A forward pass of an eval step begins; which wishes are due."""

    def evaluation_mode(self) -> str:
        """The mode of the eval step under way: ``eval``, or what the script said."""

    def eval_loss(self, name: str | None, value: object) -> None:
        """A loss was called in the eval step under way; None: the model gave it, nobody knows its call."""

    def eval_step_ends(self, forward: Forward) -> None:
        """The eval step under way is over. May raise ``TrainingStopped``."""

    def eval_step_was_training(self) -> None:
        """What was taken for an eval step was a training step's forward pass."""

    def has_checks(self) -> bool:
        """Whether the checks of the loop are captured at any step."""

    def spent(self, own_ns: int, begun_ns: int) -> None:
        """Something of ours that no other probe tells of took so long, from that moment of the clock on."""

    def after_update(self, optimizer: object, *, is_skipped: object, is_part: bool = False) -> None:
        """The outermost step of an optimizer has returned. May raise ``TrainingStopped``.

        Args:
            is_skipped: Whether a gradient scaler skipped it; where only a device knows, a number like a loss's.
            is_part: Another optimizer's step, which is told last, ends what this one is a part of.
        """


class Program(Protocol):
    """Captures some statistics and raw tensors of one optimizer's parameters; made once, run at many steps."""

    update_layout: SeriesLayout | None
    """What ``after`` gives; None: it needs not be called."""

    def before(self) -> tuple[SeriesLayout, bytes | PendingNumbers] | None:
        """Compute what is to be read before the update: the layout, and one float64 a column."""

    def after(self) -> bytes | PendingNumbers | None:
        """Compute what the update changed: one float64 a column of ``update_layout``; None: that cannot be had."""

    def raw_form(self) -> CaptureForm | None:
        """The form of the raw tensors as they are now; None: nothing raw is asked."""

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy the raw tensors into a buffer of ``raw_form()``; what tells when that is done, None: it is.

        Args:
            buffer: None: there is no room for them, and they are forgotten.
        """


class Subject(Protocol):
    """One optimizer with the parameters that it updates."""

    model: str
    """The root module's class."""
    optimizer: str
    parameters: int

    def is_current(self) -> bool:
        """Whether the optimizer still updates the parameters that it did."""

    def program(self, items: Sequence[CaptureItem], device_bytes: int) -> Program | None:
        """A program for those wishes; None where they select nothing of this subject."""

    def hyperparameters(self) -> Mapping[str, object]:
        """The optimizer's settings as they are now, by name: numbers, perhaps some that are still on a device."""

    def clipped(self) -> Mapping[str, object]:
        """What clipping these gradients found, by name, since this was last asked: numbers likewise."""


class Forward(Protocol):
    """What a training step's first forward pass took and gave."""

    own_ns: int
    """The time that capturing it took within the pass."""
    begun_ns: int
    """When the pass began, as ``time.perf_counter_ns`` tells it; 0: there was none."""
    accuracy: dict[str, Any]
    """The share of samples predicted right, where a classification loss was called and it is wished for."""

    def row(self) -> tuple[SeriesLayout, bytes | PendingNumbers] | None:
        """Its statistics: the layout, and one float64 a column."""

    def raw_form(self) -> CaptureForm | None:
        """The form of its raw tensors; None: there are none."""

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy the raw tensors into a buffer of ``raw_form()``; what tells when that is done, None: it is.

        Args:
            buffer: None: there is no room for them, and they are forgotten.
        """


class Depths(Protocol):
    """What only frameworks can tell that compute on devices of their own."""

    def open_operators(self, window: ProfileWindow, guard: Guard) -> Recording:
        """What records every operator call of a window."""

    def watch_fetching(self, profiles: str, guard: Guard) -> Opener:
        """Have the workers of data loaders look for windows; what records one."""

    def out_of_memory(self, tell: Callable[[str], None]) -> MemoryWatch:
        """What tells that an accelerator has no memory left."""

    def is_out_of_memory(self, error: object) -> bool:
        """Whether an error says that there is no memory left."""

    def memory(self, optimizers: Iterable[object]) -> dict[str, Any]:
        """What the training's lasting tensors take, by module and category; in bytes."""


class MemoryWatch(Protocol):
    """Waits for an accelerator to have no memory left."""

    def start(self) -> None:
        """Begin to wait."""

    def stop(self) -> None:
        """Wait no longer."""


class Adapter(Protocol):
    """A framework.

    **Changes nothing** - no call changes a bit of the training, its random state or its settings.

    **Leaves nothing** - after ``uninstall`` no trace is left in the framework or in the user's objects.
    """

    name: str
    family: Family
    depths: Depths | None
    """None: it has no devices of its own."""

    def version(self) -> str:
        """The framework's version."""

    def install(self, probes: StepCallbacks, guard: Guard) -> None:
        """Begin to call ``probes``, each call through the guard."""

    def uninstall(self) -> None:
        """Stop calling them."""

    def knows(self, thing: object) -> bool:
        """Whether an optimizer, model or number is one of this framework's."""

    def register(self, model: object) -> None:
        """Name a model, so that it need not be looked for.

        Raises:
            TypeError: It is none of this framework's.
        """

    def hears(self, item: CaptureItem) -> bool:
        """Whether a wish may mean what it captures between the beginning and the end of a step."""

    def describe(self) -> dict[str, Any]:
        """What the worker's document says of the training, by key; plain JSON values."""

    def survey(self, optimizers: Sequence[object]) -> dict[str, Any]:
        """What a doctor reports of optimizers that stepped: ``models``, ``optimizers``, ``module_kinds``."""

    def uncovered(self, optimizers: Sequence[object], backwards: int) -> list[dict[str, str]]:
        """What is alive and not watched, or in part only: ``what`` and ``why`` of each.

        Args:
            optimizers: Those of this framework that stepped.
            backwards: How many backward passes were seen.
        """

    def subject(self, optimizer: object) -> Subject:
        """What an optimizer updates, with names."""

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        """Capture those wishes from the forward pass of the step that begins."""

    def end_forward(self) -> Forward | None:
        """Stop; what was captured."""

    def end_evaluation(self) -> None:
        """The eval step under way, if there is one, is over."""

    def name_mode(self, *, is_evaluation: bool) -> None:
        """The script says that what follows is evaluation, or that it is no longer."""

    def is_distributed(self) -> bool:
        """Whether this process is one rank of several."""

    def rank(self) -> int | None:
        """This process's rank in a distributed job, where the framework knows it."""

    def number(self, value: object) -> object:
        """A scalar of the framework (or anything float() takes) as a number, or as one that is still on a device."""

    def row(self, values: Sequence[object]) -> bytes | PendingNumbers:
        """Numbers, some of which may be still on a device, as a row."""
