"""The callback for ``Trainer`` of Lightning, of either of its two packages."""

from __future__ import annotations

import math
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from leadline.integrations.watched_loop import WatchedLoop, note_checkpoint
from leadline.training.session import api

if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    _NAME = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
    Callback = import_module(_NAME).Callback


class LeadlineCallback(Callback):  # type: ignore[misc] # lightning is not imported for types
    """Watch what a trainer fits: ``Trainer(…, callbacks=[LeadlineCallback()])``.

    A stop sets ``trainer.should_stop``: the trainer ends after its step as it would by itself, but not before its
    ``min_steps``, and the script goes on. What the module logs is captured there, with this callback or without.

    Args:
        options: As for ``leadline.watch``; under ``leadline run`` those of its command line count.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._loop = WatchedLoop(Callback.__module__.partition(".")[0], options)
        self._saved = set[str]()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        planned = trainer.estimated_stepping_batches
        steps = int(planned) - trainer.global_step if math.isfinite(planned) and planned >= 0 else None
        self._loop.begin(steps, lambda: _stop(trainer))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        api.log(epoch=trainer.current_epoch + 1)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._note_checkpoints(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._loop.end()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._note_checkpoints(trainer)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._loop.end()

    def _note_checkpoints(self, trainer: Any) -> None:
        """Tell of new ones; Lightning has no hook after it has saved one."""
        for path in (path for callback in trainer.checkpoint_callbacks for path in _paths(callback)):
            if path not in self._saved:
                self._saved.add(path)
                note_checkpoint(path)


def _paths(callback: Any) -> list[str]:
    latest = (getattr(callback, name, "") for name in ("best_model_path", "last_model_path"))
    return [str(path) for path in (*latest, *getattr(callback, "best_k_models", {})) if path]


def _stop(trainer: Any) -> None:
    trainer.should_stop = True
