"""The framework adapters of one process, as one."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, cast

from leadline.frameworks.adapter import Adapter, Forward, StepCallbacks, Subject
from leadline.frameworks.capabilities import (
    ChecksSteps,
    ContinuesTrainings,
    CountsSteps,
    DeviceScalars,
    Diagnoses,
    Distributes,
    EndsStepsLater,
    EndsTraining,
    Evaluates,
    KeepsBatch,
    MeasuresMemory,
    RecordsDataLoading,
    RecordsProfiles,
    SeesTrainingsEnd,
)
from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.kit.named_tensor import NamedTensor
from leadline.frameworks.pending import PendingNumbers
from leadline.frameworks.training_description import TrainingDescription
from leadline.instrumentation.check import StepChecks
from leadline.instrumentation.guard import Guard
from leadline.records.names import COMPUTES_LATER, Family
from leadline.records.plan import CaptureItem, may_select_family

FRAMEWORKS: Final = {
    "torch": "leadline.frameworks.torch.adapter:TorchAdapter",
    "xgboost": "leadline.frameworks.xgboost.adapter:XGBoostAdapter",
    "lightgbm": "leadline.frameworks.lightgbm.adapter:LightGBMAdapter",
    "tensorflow": "leadline.frameworks.tensorflow.adapter:TensorFlowAdapter",
    "keras": "leadline.frameworks.keras.adapter:adapter_of_backend",
    "jax": "leadline.frameworks.jax.adapter:JaxAdapter",
    "mxnet": "leadline.frameworks.mxnet.adapter:MXNetAdapter",
}
"""Makers of adapters by module name; ``training/bootstrap/site/sitecustomize.py`` waits for the same names.

A maker returns None where the adapter of another framework serves this one."""
_LATE: Final = frozenset({"jax", "mxnet", "tensorflow"})
"""Frameworks that compute while the script goes on, also on processors."""
TITLES: Final = {
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "jax": "JAX",
    "mxnet": "MXNet",
}
"""How the frameworks write their names."""


class LoadedAdapters:
    """The adapters of all frameworks that the process has imported, and of our own hook.

    **Imports no framework** - an adapter is added when its framework has been imported, before or after ``install``.

    **One at a time** - if a framework's version does not fit its adapter, a note says so; the other adapters work on.

    Args:
        note: Takes a line about something that cannot be captured.
        on_new_family: Called when the first adapter of a further family has been added.

    Attributes:
        memory: The adapter that reports accelerator memory, if there is one.
    """

    def __init__(self, note: Callable[[str], None], on_new_family: Callable[[], None]) -> None:
        self._data_loading: RecordsDataLoading | None = None
        self.memory: MeasuresMemory | None = None
        self._note, self._on_new_family = note, on_new_family
        self._adapters: list[Adapter] = []
        self._training: list[Adapter] = []
        """Adapters of which an optimizer has stepped."""
        self._evaluating: list[Evaluates] = []
        self._scalars: list[DeviceScalars] = []
        self._distributed: list[Distributes] = []
        self._watched_items: Sequence[CaptureItem] | None = None
        """The items captured in the current step; None if nothing is watched."""
        self._callbacks: StepCallbacks | None = None
        self._guard: Guard | None = None
        self._imports: ImportWatch | None = None
        self._connect_data_loading: Callable[[RecordsDataLoading], None] | None = None
        self._on_profiles: Callable[[], None] | None = None
        self._checks: StepChecks | None = None

    @property
    def families(self) -> frozenset[Family]:
        """The families of all adapters."""
        return frozenset(adapter.family for adapter in self._adapters)

    @property
    def training_families(self) -> frozenset[Family]:
        """The families of the frameworks that train; until one does, of all adapters."""
        return frozenset(adapter.family for adapter in self._training) or self.families

    # --- adding adapters ----------------------------------------------------------------------------------

    def install(self, callbacks: StepCallbacks, guard: Guard, imported: str | None = None) -> None:
        """Begin to call ``callbacks`` for every framework that is imported, and wait for the others.

        Args:
            imported: A framework whose module has been executed although its import has not returned yet.
        """
        self._callbacks, self._guard = callbacks, guard
        if imported in FRAMEWORKS:
            self._load(imported)
        self._imports = ImportWatch(FRAMEWORKS.keys() - {imported}, guard.wrap(self._on_import))
        self._imports.install()

    def uninstall(self) -> None:
        """Uninstall all adapters."""
        if self._imports is not None:
            self._imports.uninstall()
        for adapter in self._adapters:
            adapter.uninstall()
        self._callbacks = None

    def add(self, adapter: Adapter) -> None:
        """Install a further adapter."""
        if self._callbacks is None or self._guard is None:
            return
        adapter.install(self._callbacks, self._guard)
        known = self.families
        self._adapters.append(adapter)
        self._add_capabilities(adapter)
        if adapter.family not in known:
            self._on_new_family()
        elif self._watched_items is not None:
            self._watch(adapter, self._watched_items)

    def find(self, name: str) -> Adapter | None:
        """Return the adapter of that name, if there is one."""
        return next((adapter for adapter in self._adapters if adapter.name == name), None)

    @property
    def profiles(self) -> RecordsProfiles | None:
        """The adapter that records operators, if there is one; of several, one that trains."""
        adapters = (*self._training, *self._adapters)
        return next((adapter for adapter in adapters if isinstance(adapter, RecordsProfiles)), None)

    def end_training(self) -> bool:
        """Ask the loops of the training to end after this step; return whether there are any."""
        return any(adapter.end_training() for adapter in self._adapters if isinstance(adapter, EndsTraining))

    def connect_data_loading(self, connect: Callable[[RecordsDataLoading], None]) -> None:
        """Call ``connect`` with the adapter that records data loaders: now, or as soon as it has been added."""
        self._connect_data_loading = connect
        if self._data_loading is not None:
            connect(self._data_loading)

    def check_steps(self, checks: StepChecks) -> None:
        """Let every adapter that can do so check the steps that ``checks`` asks for."""
        self._checks = checks

    def when_profiles(self, begin: Callable[[], None]) -> None:
        """Call ``begin`` as soon as an adapter that records operators has been added."""
        self._on_profiles = begin

    def _on_import(self, framework: str, module: ModuleType) -> None:
        self._load(framework)

    def _load(self, framework: str) -> None:
        adapter: Adapter | None = None
        try:
            module, _, name = FRAMEWORKS[framework].partition(":")
            adapter = cast(Adapter | None, getattr(import_module(module), name)(self._note))
            if adapter is not None:
                self.add(adapter)
        except (AttributeError, ImportError) as error:
            if adapter is not None:
                adapter.uninstall()
            version = getattr(sys.modules.get(framework), "__version__", "")
            self._note(f"{framework} {version} is not captured: this version is not supported ({error})")

    def _add_capabilities(self, adapter: Adapter) -> None:
        if isinstance(adapter, Evaluates):
            self._evaluating.append(adapter)
        if isinstance(adapter, Distributes):
            self._distributed.append(adapter)
        if isinstance(adapter, DeviceScalars):
            self._scalars.append(adapter)
        if isinstance(adapter, MeasuresMemory):
            self.memory = self.memory or adapter
        if isinstance(adapter, RecordsProfiles) and self._on_profiles is not None:
            self._on_profiles()
        if isinstance(adapter, ChecksSteps) and self._checks is not None and self._guard is not None:
            adapter.watch_checks(self._checks, self._guard)
        if isinstance(adapter, RecordsDataLoading) and self._data_loading is None:
            self._data_loading = adapter
            if self._connect_data_loading is not None:
                self._connect_data_loading(adapter)

    # --- finding the adapter of an object -----------------------------------------------------------------

    def adapter_of(self, optimizer: object) -> Adapter:
        """Return the adapter of an optimizer; unknown ones are assigned to PyTorch, which alone receives them."""
        known = (adapter for adapter in self._adapters if adapter.knows(optimizer))
        return next(known, None) or next(adapter for adapter in self._adapters if isinstance(adapter, MeasuresMemory))

    def subject(self, optimizer: object) -> Subject:
        """Return the parameters of an optimizer, with names."""
        adapter = self.adapter_of(optimizer)
        if adapter not in self._training:
            self._training.append(adapter)
            if adapter.name in _LATE and self._callbacks is not None:
                self._callbacks.timeline.facts[COMPUTES_LATER] = True
            if self._checks is not None and not isinstance(adapter, ChecksSteps):
                why = f"a training with {TITLES.get(adapter.name, adapter.name)} cannot be repeated for tests"
                why += "; one with PyTorch, JAX or TensorFlow can"
                self._checks.fact.call(self._checks.refuse, why, step=0)
        return adapter.subject(optimizer)

    def steps_before(self, optimizer: object) -> int | None:
        """Return how many steps an optimizer has made, those before a checkpoint included; None: it is not known."""
        adapter = self.adapter_of(optimizer)
        return adapter.steps_before(optimizer) if isinstance(adapter, CountsSteps) else None

    def continues(self, optimizer: object) -> bool:
        """Return whether an optimizer goes on with the training of the one before; called in its first step."""
        adapter = self.adapter_of(optimizer)
        return isinstance(adapter, ContinuesTrainings) and adapter.continues(optimizer)

    def takes_over(self, optimizer: object) -> bool:
        """Return whether the latest step of an optimizer shows that the owner of the steps has ended its own."""
        adapter = self.adapter_of(optimizer)
        return isinstance(adapter, SeesTrainingsEnd) and adapter.takes_over(optimizer)

    def batch(self) -> list[NamedTensor]:
        """Return what the current step was given, as numpy arrays, as far as it still exists."""
        return [tensor for adapter in self._adapters if isinstance(adapter, KeepsBatch) for tensor in adapter.batch()]

    def register(self, model: object) -> None:
        """Register a model, so that it need not be searched for.

        Raises:
            TypeError: It is not a model of any imported framework.
        """
        for adapter in self._adapters:
            if adapter.knows(model):
                return adapter.register(model)
        known = " or ".join(sorted({adapter.name for adapter in self._adapters})) or "an imported framework"
        raise TypeError(f"not a model of {known}: {type(model).__name__}")

    def number(self, value: Any) -> object:
        """Return a scalar of a framework (or anything that float() accepts) as a number or as a device scalar."""
        if type(value) is float:
            return value
        scalars = next((scalars for scalars in self._scalars if scalars.knows(value)), None)
        return scalars.number(value) if scalars is not None else float(value)

    def row(self, values: Sequence[Any]) -> bytes | PendingNumbers:
        """Return numbers, of which some may be device scalars, as a row."""
        late = [value for value in values if type(value) is not float]
        owner = next((scalars for scalars in self._scalars if any(map(scalars.knows, late))), None)
        if owner is None:
            return struct.pack(f"<{len(values)}d", *values)
        return owner.row([value if type(value) is float or owner.knows(value) else float(value) for value in values])

    def diagnosing(self, optimizers: Sequence[object]) -> Iterator[tuple[Diagnoses, list[object]]]:
        """Iterate over the adapters that report to ``leadline doctor``, each with its own optimizers."""
        for adapter in self._adapters:
            if isinstance(adapter, Diagnoses):
                yield adapter, [optimizer for optimizer in optimizers if self.adapter_of(optimizer) is adapter]

    # --- all adapters -------------------------------------------------------------------------------------

    def label(self) -> str:
        """Return the frameworks that train with their versions, ``torch 2.13.0``; until one does, all adapters."""
        adapters = self._training or self._adapters
        return ", ".join(f"{adapter.name} {adapter.version()}".rstrip() for adapter in adapters)

    def captures_between_steps(self, item: CaptureItem) -> bool:
        """Return whether an item may select data that an adapter captures between the beginning and end of a step."""
        return any(_may_capture(adapter, item) for adapter in self._adapters)

    def watch_forward(self, items: Sequence[CaptureItem], *, by_all: bool = False) -> None:
        """Capture the items in the step that begins; without items an adapter only learns the names of losses.

        Args:
            by_all: Whether adapters that capture none of them learn the names of losses.
        """
        self._watched_items = items
        for adapter in self._adapters:
            self._watch(adapter, items, by_all=by_all)

    def given_items(self, items: Sequence[CaptureItem]) -> tuple[CaptureItem, ...]:
        """Return those items that may select arrays which the script itself passes."""
        if not items:
            return ()
        hooks = [adapter for adapter in self._adapters if adapter.family == "arrays"]
        return tuple(item for item in items if any(_may_capture(hook, item) for hook in hooks))

    @staticmethod
    def _watch(adapter: Adapter, items: Sequence[CaptureItem], *, by_all: bool = False) -> None:
        selected = tuple(item for item in items if _may_capture(adapter, item))
        if selected or not items or by_all:
            adapter.watch_forward(selected)

    def end_forwards(self) -> list[Forward]:
        """Stop the capture in all adapters; return what was captured."""
        self._watched_items = None
        forwards = [adapter.end_forward() for adapter in self._adapters]
        return [forward for forward in forwards if forward is not None]

    def end_step(self) -> None:
        """End the step under way, where its update may have been made."""
        for adapter in self._adapters:
            if isinstance(adapter, EndsStepsLater):
                adapter.end_step()

    def end_evaluation(self) -> None:
        """End the current eval step, if there is one."""
        for adapter in self._evaluating:
            adapter.end_evaluation()

    def set_mode(self, *, is_evaluation: bool) -> None:
        """Follow the mode that the script has set: evaluation, or no longer."""
        for adapter in self._evaluating:
            adapter.set_mode(is_evaluation=is_evaluation)

    def is_distributed(self) -> bool:
        """Return whether this process is one rank of several."""
        return any(adapter.is_distributed() for adapter in self._distributed)

    def captures_together(self) -> bool:
        """Return whether a capture communicates with other ranks, so that all must capture at the same steps."""
        return any(adapter.captures_together() for adapter in self._distributed)

    def rank(self) -> int | None:
        """Return the rank of this process in a distributed job, if a framework knows it."""
        return next((rank for adapter in self._distributed if (rank := adapter.rank()) is not None), None)

    def describe(self) -> TrainingDescription:
        """Return the entries of the worker document about the training."""
        described = TrainingDescription()
        for adapter in self._adapters:
            described |= adapter.describe()
        return described


def _may_capture(adapter: Adapter, item: CaptureItem) -> bool:
    return may_select_family(item, (adapter.family,)) and adapter.captures_between_steps(item)
