"""The libraries that are listened to, and the listening itself, from a session's start to its end."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.loggers.interceptor import Interceptor, ScalarSink
from leadline.frameworks.loggers.lightning import LIGHTNING, PYTORCH_LIGHTNING
from leadline.frameworks.loggers.mlflow import MLFLOW
from leadline.frameworks.loggers.patches import Logger, Replaced
from leadline.frameworks.loggers.tensorboard import TENSORBOARD, TENSORBOARDX
from leadline.frameworks.loggers.torchmetrics import TORCHMETRICS
from leadline.frameworks.loggers.transformers import TRANSFORMERS
from leadline.frameworks.loggers.wandb import WANDB
from leadline.training.guard import Guard

LOGGERS: Final = (
    TENSORBOARD,
    TENSORBOARDX,
    WANDB,
    MLFLOW,
    TORCHMETRICS,
    LIGHTNING,
    PYTORCH_LIGHTNING,
    TRANSFORMERS,
)


class Loggers:
    """Listens to all of them, whether they are imported before or after.

    **On its own** - a failure of ours in here ends the listening and nothing else.
    """

    def __init__(
        self,
        sink: ScalarSink,
        number: Callable[[Any], Any],
        tell: Callable[[str], None],
        loggers: tuple[Logger, ...] = LOGGERS,
    ) -> None:
        """
        Args:
            number: Reads a tensor of one element on the host.
            tell: Takes a line about something that cannot be heard.
        """
        self._tell = tell
        self._guard = Guard(self._go_off)
        self._tap = Interceptor(sink, self._guard, number)
        self.trackers = self._tap.trackers
        """The script's own, where numbers of ours can be logged."""
        self._by_module = {module: logger for logger in loggers for module in logger.waits_for}
        self._replaced: list[Replaced] = []
        self._imports = ImportWatch(self._by_module, self._guard.wrap(self._listen))

    def install(self) -> None:
        """Begin to listen."""
        self._imports.install()

    def look_again(self) -> None:
        """Listen also to libraries that were being imported when we began."""
        self._guard.run(self._imports.look_again)

    def uninstall(self) -> None:
        """Stop, and put everything back."""
        self._imports.uninstall()
        for each in reversed(self._replaced):
            each.undo()
        self._replaced = []

    def _listen(self, name: str, module: ModuleType) -> None:
        logger = self._by_module[name]
        try:
            for replacement in logger.waits_for[name](module, self._tap):
                self._replaced.append(Replaced(replacement))
        except AttributeError as error:
            self._tell(f"what is logged through {logger.library} is not captured: this version of it differs ({error})")

    def _go_off(self, failure: str) -> None:
        self.uninstall()
        self._tell(f"what the script logs is no longer captured: {failure}")
