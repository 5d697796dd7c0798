"""TensorBoard: ``SummaryWriter.add_scalar`` and ``add_scalars``, PyTorch's own and tensorboardX's."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final

from leadline.frameworks.loggers.interceptor import Interceptor
from leadline.frameworks.loggers.patches import Logger, Replacement


def _replacements(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    yield Replacement(library.SummaryWriter, "add_scalar", tap.after(_scalar))
    yield Replacement(library.SummaryWriter, "add_scalars", tap.after(_scalars))
    boards = _Boards(library.scalar)
    tap.trackers.offer(boards.find)
    yield Replacement(library.SummaryWriter, "_get_file_writer", tap.before(boards.see))


def _scalar(writer: object, tag: str, scalar_value: Any, *rest: object, **others: object) -> dict[str, Any]:
    return {tag: scalar_value}


def _scalars(
    writer: object, main_tag: str, tag_scalar_dict: Mapping[str, Any], *rest: object, **others: object
) -> dict[str, Any]:
    """``add_scalars`` makes one plot of several runs; here their names are joined."""
    return {f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}


@dataclass(frozen=True, slots=True, eq=False)
class SummaryWriterTracker:
    """A writer's event file; a writer that was closed meanwhile is not opened again."""

    library: ClassVar[str] = "tensorboard"

    events: Any
    """The library's ``FileWriter``."""
    scalar: Callable[[str, float], Any]
    """The library's own way to make a summary of a number."""

    @property
    def title(self) -> str:
        return f"TensorBoard {self.events.get_logdir()}"

    def log(self, name: str, value: float, step: int) -> None:
        summary = self.scalar(name, 0.0)
        summary.value[0].simple_value = value  # tensorboardX warns of a NaN that it is given
        self.events.add_summary(summary, step)


class _Boards:
    """The script's writers, the oldest first."""

    def __init__(self, scalar: Callable[[str, float], Any]) -> None:
        self._scalar = scalar
        self._writers: list[weakref.ref[Any]] = []

    def see(self, writer: Any) -> None:
        """Every writer asks for its file when it is made, and at each thing that it writes."""
        if not any(each() is writer for each in self._writers):
            self._writers = [*(each for each in self._writers if each() is not None), weakref.ref(writer)]

    def find(self) -> Iterable[SummaryWriterTracker]:
        """The oldest that is open: a script has one for training before it has one for anything else.

        None where wandb makes its rows of what writers write: a number at another step would tear such a row apart.
        """
        if getattr(sys.modules.get("wandb"), "patched", {}).get("tensorboard"):
            return []
        for each in self._writers:
            writer = each()
            events = getattr(writer, "file_writer", None)
            if events is not None and getattr(writer, "_write_to_disk", True):
                return [SummaryWriterTracker(events, self._scalar)]
        return []


TENSORBOARD: Final = Logger("torch.utils.tensorboard", {"torch.utils.tensorboard.writer": _replacements})
TENSORBOARDX: Final = Logger("tensorboardX", {"tensorboardX.writer": _replacements})
