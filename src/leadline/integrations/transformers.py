"""The callback for ``Trainer`` of Transformers, and for what is built on it: TRL, PEFT, Sentence Transformers."""

from __future__ import annotations

import os
from typing import Any

from transformers import TrainerCallback

from leadline.integrations.watched_loop import WatchedLoop, note_checkpoint


class LeadlineCallback(TrainerCallback):  # type: ignore[misc] # transformers is not imported for types
    """Watch what a trainer trains: ``Trainer(…, callbacks=[LeadlineCallback()])``.

    A stop sets ``control.should_training_stop``: the trainer ends after its step as it would by itself, and the script
    goes on. The trainer's metrics are captured where it logs them, with this callback or without.

    Args:
        options: As for ``leadline.watch``; under ``leadline run`` those of its command line count.
    """

    def __init__(self, **options: Any) -> None:
        self._loop = WatchedLoop("transformers", options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._loop.begin(state.max_steps - state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        if self._loop.should_stop:
            control.should_training_stop = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if os.path.isdir(path):
            note_checkpoint(path)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._loop.end()
