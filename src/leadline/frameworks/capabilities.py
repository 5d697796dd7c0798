"""Interfaces of what an adapter may do beside capturing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.pending import PendingNumbers
from leadline.instrumentation.check import StepChecks
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Opener, Recording
from leadline.records.doctor_report import Inventory, UncapturedEntry
from leadline.records.memory_by_owner import MemoryByOwner
from leadline.records.profile_window import ProfileWindow


@runtime_checkable
class BlocksTrainingThread(Protocol):
    """The capability of a program to compute in other threads than that of the training, which waits for them."""

    def take_blocked_ns(self) -> int:
        """Return the time that the training has waited for other threads since the last call."""


@runtime_checkable
class Evaluates(Protocol):
    """The capability to detect eval steps."""

    def end_evaluation(self) -> None:
        """End the current eval step, if there is one."""

    def set_mode(self, *, is_evaluation: bool) -> None:
        """Follow the mode that the script has set: evaluation, or no longer."""


@runtime_checkable
class ChecksSteps(Protocol):
    """The capability to have train steps checked on a copy of the training."""

    def watch_checks(self, checks: StepChecks, guard: Guard) -> None:
        """Check the steps that ``checks`` asks for."""


@runtime_checkable
class CountsSteps(Protocol):
    """The capability to tell how many steps an optimizer has made, those before a checkpoint included."""

    def steps_before(self, optimizer: object) -> int | None:
        """Return the number of steps before the one that begins; None: it is not known."""


@runtime_checkable
class ContinuesTrainings(Protocol):
    """The capability to tell a training from the one before it in the same process.

    Without it every other optimizer that ends steps begins another training.
    """

    def continues(self, optimizer: object) -> bool:
        """Return whether an optimizer goes on with the training of the one before; called in its first step."""


@runtime_checkable
class SeesTrainingsEnd(Protocol):
    """The capability to see, in the first step of an optimizer, that the training before it is over.

    Without it that step is not counted.
    """

    def takes_over(self, optimizer: object) -> bool:
        """Return whether the latest step of an optimizer shows that the owner of the steps has ended its own."""


@runtime_checkable
class KeepsBatch(Protocol):
    """The capability to look at what the current step was given once its loss is known."""

    def batch(self) -> Sequence[NamedTensor]:
        """Return what the current step was given, as numpy arrays, as far as it still exists."""


@runtime_checkable
class EndsStepsLater(Protocol):
    """The capability to end a step later than its update, where the update itself cannot be observed."""

    def end_step(self) -> None:
        """End the step whose update may have been made, if there is one."""


@runtime_checkable
class DeviceScalars(Protocol):
    """The capability to read numbers that may still be on a device."""

    def knows(self, thing: object) -> bool:
        """Return whether a number belongs to this framework."""

    def number(self, value: object) -> object:
        """Return a scalar of the framework (or anything that float() accepts) as a number or as a device scalar."""

    def row(self, values: Sequence[object]) -> bytes | PendingNumbers:
        """Return numbers, of which some may be device scalars, as a row."""


@runtime_checkable
class Distributes(Protocol):
    """The capability to train on several ranks."""

    def is_distributed(self) -> bool:
        """Return whether this process is one rank of several."""

    def captures_together(self) -> bool:
        """Return whether a capture communicates, so that all ranks must capture at the same steps."""

    def rank(self) -> int | None:
        """Return the rank of this process in a distributed job, if the framework knows it."""


@runtime_checkable
class EndsTraining(Protocol):
    """The capability to end the loop of a training while the script continues."""

    def end_training(self) -> bool:
        """Ask the running loops to end after this step; return whether there are any."""


@runtime_checkable
class RecordsProfiles(Protocol):
    """The capability to record operators."""

    def open_operators(self, window: ProfileWindow, guard: Guard) -> Recording:
        """Return a recording of every operator call of a window."""


@runtime_checkable
class RecordsDataLoading(Protocol):
    """The capability to record data loaders."""

    def watch_data_loading(self, folder: str, guard: Guard) -> Opener:
        """Let the workers of data loaders find windows in the run's profiles folder; return the recordings' opener."""


@runtime_checkable
class Diagnoses(Protocol):
    """The capability to report models, optimizers and coverage gaps to ``leadline doctor``."""

    def inventory(self, optimizers: Sequence[object]) -> Inventory:
        """Return ``models``, ``optimizers`` and ``module_kinds`` of optimizers that stepped."""

    def coverage_gaps(self, optimizers: Sequence[object], backwards: int) -> list[UncapturedEntry]:
        """Return ``what`` is not captured, or only in part, and ``why``.

        Args:
            optimizers: Those of this framework that stepped.
            backwards: The number of backward passes.
        """


@runtime_checkable
class MeasuresMemory(Protocol):
    """The capability to report the memory of an accelerator."""

    def watch_memory(self, on_out_of_memory: Callable[[str], None]) -> MemoryWatch:
        """Return a watch that calls a function when an accelerator runs out of memory."""

    def is_out_of_memory(self, error: object) -> bool:
        """Return whether an error is an out-of-memory error."""

    def memory_by_owner(self, optimizers: Iterable[object]) -> MemoryByOwner:
        """Return the bytes of the training's persistent tensors, by module and category."""


class MemoryWatch(Protocol):
    """Waits for an accelerator to run out of memory."""

    def start(self) -> None:
        """Begin to wait."""

    def stop(self) -> None:
        """Stop waiting."""
