"""Timing of checkpoints: ``torch.save``, distributed checkpoints and safetensors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import torch

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.training.guard import Guard
from leadline.training.timeline.step_timeline import StepTimeline

_LAZY_MODULES: Final = {
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save"),
    "safetensors.torch": ("save_file", "save_model"),
}
"""Modules that a script may import later, and the functions in them that save."""


class _Depth(threading.local):
    calls = 0


class CheckpointHooks:
    """Reports the duration of each save to a timeline, for the outermost call only."""

    def __init__(self, timeline: StepTimeline, guard: Guard) -> None:
        self._timeline, self._guard = timeline, guard
        self._patches, self._depth = Patches(), _Depth()
        self._imports: ImportWatch | None = None

    def install(self) -> None:
        """Install the patches."""
        for owner in (torch.serialization, torch):
            self._patches.replace(owner, "save", self._make_save)
        self._imports = ImportWatch(_LAZY_MODULES, self._on_import)
        self._imports.install()

    def uninstall(self) -> None:
        """Remove the patches."""
        if self._imports is not None:
            self._imports.uninstall()
        self._imports = None
        self._patches.restore()

    def _on_import(self, name: str, module: ModuleType) -> None:
        for function in _LAZY_MODULES[name]:
            self._patches.replace(module, function, self._make_save, is_optional=True)
            package = sys.modules.get(name.rpartition(".")[0])
            if package is not None and name.startswith("torch."):
                self._patches.replace(package, function, self._make_save, is_optional=True)

    def _make_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        timeline, run, depth = self._timeline, self._guard.run, self._depth

        def save(*args: Any, **kwargs: Any) -> Any:
            if depth.calls:
                return original(*args, **kwargs)
            depth.calls += 1
            start_ns = timeline.clock()
            try:
                return original(*args, **kwargs)
            finally:
                depth.calls -= 1
                run(timeline.checkpoint, start_ns)

        return hide_from_dynamo(save)
