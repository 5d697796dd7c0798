"""TensorBoard: ``SummaryWriter.add_scalar`` and ``add_scalars`` of PyTorch and tensorboardX."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final

from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary


def _patches(library: ModuleType, interceptor: Interceptor) -> None:
    interceptor.replace(library.SummaryWriter, "add_scalar", interceptor.after(_scalar))
    interceptor.replace(library.SummaryWriter, "add_scalars", interceptor.after(_scalars))
    writers = _Writers(library.scalar)
    interceptor.trackers.register(writers.find)
    interceptor.replace(library.SummaryWriter, "_get_file_writer", interceptor.before(writers.note))


def _scalar(writer: object, tag: str, scalar_value: Any, *rest: object, **others: object) -> dict[str, object]:
    return {tag: scalar_value}


def _scalars(
    writer: object, main_tag: str, tag_scalar_dict: Mapping[str, Any], *rest: object, **others: object
) -> dict[str, object]:
    """Return the values of ``add_scalars``, which draws several runs in one plot; their names are joined."""
    return {f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}


@dataclass(frozen=True, slots=True, eq=False)
class SummaryWriterTracker:
    """The event file of a writer; a writer that was closed meanwhile is not reopened."""

    library: ClassVar[str] = "tensorboard"

    events: Any
    """The library's ``FileWriter``."""
    scalar: Callable[[str, float], Any]
    """The library's own function that creates a summary of a number."""

    @property
    def title(self) -> str:
        return f"TensorBoard {self.events.get_logdir()}"

    def log(self, name: str, value: float, step: int) -> None:
        summary = self.scalar(name, 0.0)
        summary.value[0].simple_value = value  # tensorboardX warns about NaN arguments
        self.events.add_summary(summary, step)


class _Writers:
    """The script's summary writers, oldest first."""

    def __init__(self, scalar: Callable[[str, float], Any]) -> None:
        self._scalar = scalar
        self._writers: list[weakref.ref[Any]] = []

    def note(self, writer: Any) -> None:
        """Note a writer; every writer requests its file when it is created and at each write."""
        if not any(reference() is writer for reference in self._writers):
            self._writers = [
                *(reference for reference in self._writers if reference() is not None),
                weakref.ref(writer),
            ]

    def find(self) -> Iterable[SummaryWriterTracker]:
        """Return the oldest writer that is open: scripts create their training writer first.

        Return none where wandb creates its rows from the writers: a value at another step would split such a row.
        """
        if getattr(sys.modules.get("wandb"), "patched", {}).get("tensorboard"):
            return []
        for reference in self._writers:
            writer = reference()
            events = getattr(writer, "file_writer", None)
            if events is not None and getattr(writer, "_write_to_disk", True):
                return [SummaryWriterTracker(events, self._scalar)]
        return []


TENSORBOARD: Final = LoggingLibrary("torch.utils.tensorboard", {"torch.utils.tensorboard.writer": _patches})
TENSORBOARDX: Final = LoggingLibrary("tensorboardX", {"tensorboardX.writer": _patches})
