"""When a training saves something: ``torch.save``, distributed checkpoints, safetensors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import torch

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.torch.hooks.dynamo import hide
from leadline.frameworks.torch.hooks.patches import Patches
from leadline.training.guard import Guard
from leadline.training.timeline.step_timeline import StepTimeline

_LATER: Final = {
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save"),
    "safetensors.torch": ("save_file", "save_model"),
}
"""What a script may import later, and what saves there."""


class _Depth(threading.local):
    calls = 0


class Checkpoints:
    """Tells a timeline how long saving took, the outermost call only."""

    def __init__(self, timeline: StepTimeline, guard: Guard) -> None:
        self._timeline, self._guard = timeline, guard
        self._patches, self._depth = Patches(), _Depth()
        self._imports: ImportWatch | None = None

    def install(self) -> None:
        """Begin to tell."""
        for owner in (torch.serialization, torch):
            self._patches.replace(owner, "save", self._make_save)
        self._imports = ImportWatch(_LATER, self._on_import)
        self._imports.install()

    def uninstall(self) -> None:
        """Stop."""
        if self._imports is not None:
            self._imports.uninstall()
        self._imports = None
        self._patches.restore()

    def _on_import(self, name: str, module: ModuleType) -> None:
        for function in _LATER[name]:
            self._patches.replace(module, function, self._make_save)
            package = sys.modules.get(name.rpartition(".")[0])
            if package is not None and getattr(package, function, None) is not None and name.startswith("torch."):
                self._patches.replace(package, function, self._make_save)

    def _make_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        timeline, run, depth = self._timeline, self._guard.run, self._depth

        def save(*args: Any, **kwargs: Any) -> Any:
            if depth.calls:
                return original(*args, **kwargs)
            depth.calls += 1
            begun_ns = timeline.clock()
            try:
                return original(*args, **kwargs)
            finally:
                depth.calls -= 1
                run(timeline.checkpoint, begun_ns)

        return hide(save)
