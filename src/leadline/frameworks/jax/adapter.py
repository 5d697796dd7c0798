"""The JAX adapter: compiled functions, eager loops, and the libraries on top of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.capture_requests import CapturedTensor, ColumnSets
from leadline.frameworks.jax import compatibility
from leadline.frameworks.jax.capture import JaxSubject
from leadline.frameworks.jax.check.check_hooks import JaxChecks
from leadline.frameworks.jax.diagnose import coverage_gaps, inventory
from leadline.frameworks.jax.jit_wrapper import make_cached_shard_map, make_jit
from leadline.frameworks.jax.layers import Layers
from leadline.frameworks.jax.libraries import Libraries
from leadline.frameworks.jax.loss_taps import LossTaps
from leadline.frameworks.jax.profiles import JaxRecording
from leadline.frameworks.jax.replayer import Replayer
from leadline.frameworks.jax.scalars import Element, JaxScalar
from leadline.frameworks.jax.step_calls import JittedCall, StepOwner
from leadline.frameworks.jax.steps import TrainingSteps
from leadline.frameworks.jax.training_taps import TrainingTaps
from leadline.frameworks.jax.watch import WATCH
from leadline.frameworks.kit.late_scalar import LateRow
from leadline.frameworks.kit.uncaptured import Uncaptured
from leadline.frameworks.patches import Patches
from leadline.frameworks.pending import PendingNumbers
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.check import StepChecks
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Recording
from leadline.records.doctor_report import Inventory, UncapturedEntry
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, may_select_module_tensors
from leadline.records.profile_window import ProfileWindow


class JaxAdapter:
    """See ``leadline.frameworks.adapter.Adapter``.

    The values of a training are found at taps: identities in the script's program, which are lowered to nothing. What
    is captured at a step is computed by a program of ours, before the script's own call with the same arguments.

    Args:
        note: Takes a line about something that cannot be captured.
    """

    name = "jax"
    family: Family = "network"

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._patches, self._watch = Patches(), WATCH
        self._uncaptured = Uncaptured({}, note)
        self._libraries: Libraries | None = None
        self._captured, self._blocks = CapturedArrays(note), ColumnSets()

    def version(self) -> str:
        return str(jax.__version__)

    def knows(self, thing: object) -> bool:
        return isinstance(thing, (StepOwner, JaxScalar, jax.Array))

    def captures_between_steps(self, item: CaptureItem) -> bool:
        return may_select_module_tensors(item)

    def end_training(self) -> bool:
        models = self._libraries.keras.fitted if self._libraries is not None else []
        for model in models:
            model.stop_training = True
        return bool(models)

    def open_operators(self, window: ProfileWindow, guard: Guard) -> Recording:
        return JaxRecording(window, guard, lambda: {"layers": [], "optimizers": []})

    def steps_before(self, optimizer: Any) -> int | None:
        """Return the count of steps among the arguments of the call that begins."""
        return self._watch.steps.steps_before() if self._watch.steps is not None else None

    def takes_over(self, optimizer: Any) -> bool:
        return self._watch.steps is not None and self._watch.steps.handover.is_over

    def inventory(self, optimizers: Sequence[Any]) -> Inventory:
        return inventory(optimizers)

    def coverage_gaps(self, optimizers: Sequence[Any], backwards: int) -> list[UncapturedEntry]:
        return coverage_gaps(self._uncaptured.gaps, has_stepped=bool(optimizers))

    def describe(self) -> TrainingDescription:
        return {}

    def is_distributed(self) -> bool:
        return compatibility.processes() > 1

    def captures_together(self) -> bool:
        return self.is_distributed()

    def rank(self) -> int | None:
        return compatibility.process_index()

    def register(self, model: object) -> None:
        """Do nothing: parameters are found where gradients are computed."""

    def install(self, callbacks: StepCallbacks, guard: Guard) -> None:
        watch, taps = self._watch, TrainingTaps(self._watch)
        libraries = self._libraries = Libraries(taps, Layers(watch), LossTaps(watch), guard, callbacks)
        watch.guard = guard
        watch.steps = TrainingSteps(
            callbacks,
            guard,
            Replayer(jax.jit, callbacks, self._uncaptured),
            self._uncaptured,
            captured_layers=self._layers_of,
            keras=libraries.keras,
        )
        value_and_grad = jax.value_and_grad
        self._patches.replace(jax, "jit", lambda original: make_jit(original, watch))
        mapping = compatibility.mapping_module()
        if mapping is not None:
            self._patches.replace(mapping, "_cached_shard_map", lambda original: make_cached_shard_map(original, watch))
        self._patches.replace(jax, "value_and_grad", taps.make_value_and_grad)
        self._patches.replace(jax, "grad", lambda original: taps.make_grad(original, value_and_grad))
        libraries.install()

    def watch_checks(self, checks: StepChecks, guard: Guard) -> None:
        steps = self._watch.steps
        if steps is not None:
            steps.checks = JaxChecks(checks, steps.replayer.jit)

    def uninstall(self) -> None:
        self._watch.steps = None
        self._patches.restore()
        if self._libraries is not None:
            self._libraries.uninstall()

    def subject(self, optimizer: Any) -> JaxSubject:
        assert self._watch.steps is not None
        return JaxSubject(optimizer, self._watch.steps, self._note)

    # --- layers -------------------------------------------------------------------------------------------

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        steps = self._watch.steps
        if steps is not None and items:
            steps.forward_items = tuple(dict.fromkeys((*steps.forward_items, *items)))

    def end_forward(self) -> CapturedArrays | None:
        steps = self._watch.steps
        if steps is None or not steps.forward_items:
            return None
        items, steps.forward_items = steps.forward_items, ()
        values, labels = steps.take_layers()
        if not values and not labels:
            return None
        captured = self._keep(items, values, "train")
        for named in labels:
            captured.keep(named.name, named.collections, named.source)
        return captured

    def _keep(self, items: Sequence[CaptureItem], values: Sequence[CapturedTensor], mode: str) -> CapturedArrays:
        self._captured.begin(items, mode)
        self._blocks.keep(self._captured, items, values)
        if self._watch.steps is not None:
            self._captured.own_ns = self._watch.steps.replayer.take_blocked_ns()
        return self._captured

    def _layers_of(self, call: JittedCall, items: Sequence[CaptureItem]) -> CapturedArrays:
        values = call.replayed(0) if call.replayed is not None else []
        layers = [value for value in values if "layers" in value.info.collections]
        return self._keep(items, layers, "eval")

    # --- modes, and numbers that are still computed -------------------------------------------------------

    def set_mode(self, *, is_evaluation: bool) -> None:
        if self._watch.steps is not None:
            self._watch.steps.is_evaluation = is_evaluation

    def end_evaluation(self) -> None:
        """Do nothing: an eval step ends with the call that is it."""

    def end_step(self) -> None:
        if self._watch.steps is not None:
            self._watch.steps.finish()

    def number(self, value: Any) -> object:
        if isinstance(value, JaxScalar) or not value.is_fully_addressable:
            return value
        return JaxScalar([Element(value)])

    def row(self, values: Sequence[Any]) -> bytes | PendingNumbers:
        return LateRow(values)
