"""Replaced attributes of the libraries on top of JAX, as soon as they are imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.jax.keras_hooks import KerasOnJax
from leadline.frameworks.jax.layers import Layers
from leadline.frameworks.jax.loss_taps import LossTaps
from leadline.frameworks.jax.training_taps import TrainingTaps
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Guard


class Libraries:
    """Optax, Flax and Equinox, each followed as soon as the script imports it.

    Args:
        taps: Taps updates.
        layers: Taps layers.
        losses: Taps losses.
        callbacks: Take what callbacks of Keras show.
    """

    def __init__(
        self, taps: TrainingTaps, layers: Layers, losses: LossTaps, guard: Guard, callbacks: StepCallbacks
    ) -> None:
        self._taps = taps
        self._layers = layers
        self._losses = losses
        self._guard = guard
        self._patches = Patches()
        self._imports: ImportWatch | None = None
        self._update: tuple[Any, Any, Any] | None = None
        """The class of optax, its attribute, and ours in its place."""
        self._modules: dict[str, Callable[[ModuleType], None]] = {
            "optax": losses.follow_optax,
            "optax._src.base": self._follow_optax,
            "flax.linen.module": self._layers.follow_linen,
            "flax.nnx.module": self._layers.follow_classes,
            "equinox._module._module": self._layers.follow_classes,
        }
        self.keras = KerasOnJax(taps, layers, callbacks, guard)

    def install(self) -> None:
        """Wait for the libraries."""
        self._layers.install()
        self._imports = ImportWatch(self._modules | self.keras.modules, self._guard.wrap(self._on_import))
        self._imports.install()

    def uninstall(self) -> None:
        """Restore the attributes."""
        if self._imports is not None:
            self._imports.uninstall()
        self._layers.uninstall()
        self._losses.uninstall()
        self.keras.uninstall()
        if self._update is not None:
            owner, before, ours = self._update
            if vars(owner).get("update") is ours:
                owner.update = before
            self._update = None

    def _on_import(self, name: str, module: ModuleType) -> None:
        if name in self._modules:
            self._modules[name](module)
        elif sys.modules["keras.src.backend.config"].backend() == "jax":
            self.keras.modules[name](module)

    def _follow_optax(self, module: ModuleType) -> None:
        owner = module.GradientTransformation
        before = vars(owner)["update"]
        owner.update = self._taps.make_update(before)
        self._update = owner, before, owner.update
