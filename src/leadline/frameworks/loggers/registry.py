"""The supported logging libraries, and their interception for the duration of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary, ScalarSink
from leadline.frameworks.loggers.mlflow import MLFLOW
from leadline.frameworks.loggers.printed import PRINTERS
from leadline.frameworks.loggers.printed_values import PrintedValues
from leadline.frameworks.loggers.tensorboard import TENSORBOARD, TENSORBOARDX
from leadline.frameworks.loggers.training_libraries import (
    LIGHTNING,
    PYTORCH_LIGHTNING,
    RAY_TRAIN,
    STABLE_BASELINES3,
    TORCHMETRICS,
    TRANSFORMERS,
)
from leadline.frameworks.loggers.wandb import WANDB
from leadline.instrumentation.guard import Guard

LOGGING_LIBRARIES: Final = (
    TENSORBOARD,
    TENSORBOARDX,
    WANDB,
    MLFLOW,
    TORCHMETRICS,
    LIGHTNING,
    PYTORCH_LIGHTNING,
    TRANSFORMERS,
    STABLE_BASELINES3,
    RAY_TRAIN,
    *PRINTERS,
)


class Loggers:
    """Intercepts all supported logging libraries, whether they are imported before or after the session starts.

    **Isolated** - an error of Leadline in here ends the interception and nothing else.
    """

    def __init__(
        self,
        sink: ScalarSink,
        number: Callable[[Any], Any],
        warn: Callable[[str], None],
        libraries: tuple[LoggingLibrary, ...] = LOGGING_LIBRARIES,
        *,
        printed: PrintedValues | None = None,
    ) -> None:
        """
        Args:
            number: Reads a tensor of one element on the host.
            warn: Reports something that cannot be captured, in one line.
            printed: Takes what the script prints; None: nothing does.
        """
        self._warn = warn
        self._guard = Guard(self._disable)
        self._interceptor = Interceptor(sink, self._guard, number, printed)
        self.trackers = self._interceptor.trackers
        """The script's experiment trackers, into which Leadline can log."""
        self._by_module = {module: library for library in libraries for module in library.patches}
        self._imports = ImportWatch(self._by_module, self._guard.wrap(self._patch))

    def install(self) -> None:
        """Start to intercept."""
        self._imports.install()

    def look_again(self) -> None:
        """Patch also libraries whose import was in progress at the start."""
        self._guard.run(self._imports.look_again)

    def log(self, values: Mapping[str, Any]) -> None:
        """Record metrics that a trainer hands to a callback of ours, unless a library that is read forwards them."""
        self._guard.run(self._interceptor.record, dict, (values,), {})

    def uninstall(self) -> None:
        """Stop, and restore all functions."""
        self._imports.uninstall()
        self._interceptor.patches.restore()

    def _patch(self, name: str, module: ModuleType) -> None:
        library = self._by_module[name]
        try:
            library.patches[name](module, self._interceptor)
        except AttributeError as error:
            self._warn(f"values logged through {library.name} are not captured: unsupported version ({error})")

    def _disable(self, failure: str) -> None:
        self.uninstall()
        self._warn(f"values logged by the script are no longer captured: {failure}")
