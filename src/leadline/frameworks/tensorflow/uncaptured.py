"""Notes about ways to train that are not captured."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from tensorflow.python.client.session import BaseSession
from tensorflow.python.distribute.parameter_server_strategy_v2 import ParameterServerStrategyV2

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.patches import Patches
from leadline.training.guard import Guard

_KERAS_2: Final = "tf_keras"
REASONS: Final = {
    "sessions of TensorFlow 1": "they are not captured; remove disable_v2_behavior(), and compute in a tf.function",
    "ParameterServerStrategy": "its steps run in other processes and are not captured; MirroredStrategy is",
    _KERAS_2: "Keras 2 is not captured, at most its functions are; use Keras 3",
}


class Uncaptured:
    """Notices what is not captured when the script begins to use it; the script is not disturbed.

    Args:
        note: Takes a line about something that cannot be captured.

    Attributes:
        seen: The keys of ``REASONS`` that the script uses.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.seen: list[str] = []
        self._note = note
        self._patches = Patches()
        self._imports: ImportWatch | None = None

    def install(self, guard: Guard) -> None:
        """Begin to watch."""

        def notice_before(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
            def make(original: Callable[..., Any]) -> Callable[..., Any]:
                def __init__(thing: Any, *args: Any, **kwargs: Any) -> None:
                    guard.run(self._notice, what)
                    original(thing, *args, **kwargs)

                return __init__

            return make

        self._patches.replace(BaseSession, "__init__", notice_before("sessions of TensorFlow 1"))
        self._patches.replace(ParameterServerStrategyV2, "__init__", notice_before("ParameterServerStrategy"))
        self._imports = ImportWatch([_KERAS_2], guard.wrap(self._on_import))
        self._imports.install()

    def uninstall(self) -> None:
        """Stop watching."""
        self._patches.restore()
        if self._imports is not None:
            self._imports.uninstall()

    def _on_import(self, name: str, module: ModuleType) -> None:
        self._notice(name)

    def _notice(self, what: str) -> None:
        if what not in self.seen:
            self.seen.append(what)
            self._note(f"{what}: {REASONS[what]}")
