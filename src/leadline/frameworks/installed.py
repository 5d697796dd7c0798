"""The adapters of one process as one: of each framework that it imports, and of our own hook."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from leadline.frameworks.adapter import Adapter, Depths, Forward, MemoryWatch, StepCallbacks, Subject
from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.registry import FRAMEWORKS, make_adapter
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, is_of_family
from leadline.records.profile_window import ProfileWindow
from leadline.training.guard import Guard
from leadline.training.pending import PendingNumbers
from leadline.training.recording import Opener, ProfileUnavailableError, Recording


class Frameworks:
    """Asks the adapter whom a question is for, and all where it is for each.

    **Imports no framework** - an adapter comes when its framework has been imported, before or after ``install``.

    **One at a time** - a framework that differs from what its adapter knows is told of; the others go on.

    Args:
        tell: Takes a line about something that cannot be captured.
        on_new_family: Called when the first adapter of a further kind has come.
    """

    def __init__(self, tell: Callable[[str], None], on_new_family: Callable[[], None]) -> None:
        self._tell, self._on_new_family = tell, on_new_family
        self._adapters: list[Adapter] = []
        self._trained: list[Adapter] = []
        """Those that something was trained with."""
        self._watching: Sequence[CaptureItem] | None = None
        """What is captured of the step under way; None: nothing."""
        self._probes: StepCallbacks | None = None
        self._guard: Guard | None = None
        self._imports: ImportWatch | None = None
        self._profiles: tuple[str, Guard] | None = None
        self._fetching: Opener | None = None

    @property
    def families(self) -> frozenset[Family]:
        """The kinds of frameworks that are here."""
        return frozenset(each.family for each in self._adapters)

    # --- coming and going ---------------------------------------------------------------------------------

    def install(self, probes: StepCallbacks, guard: Guard, imported: str | None = None) -> None:
        """Begin to call ``probes`` for every framework that is imported, and wait for the others.

        Args:
            imported: A framework whose import has just been executed, and is not quite over.
        """
        self._probes, self._guard = probes, guard
        if imported in FRAMEWORKS:
            self._come(imported)
        self._imports = ImportWatch(FRAMEWORKS.keys() - {imported}, guard.wrap(self._hear))
        self._imports.install()

    def uninstall(self) -> None:
        """Stop, in all of them."""
        if self._imports is not None:
            self._imports.uninstall()
        for each in self._adapters:
            each.uninstall()
        self._probes = None

    def add(self, adapter: Adapter) -> None:
        """Let an adapter join that is no framework's."""
        if self._probes is None or self._guard is None:
            return
        adapter.install(self._probes, self._guard)
        self._take_in(adapter)

    def find(self, name: str) -> Adapter | None:
        """The adapter of that name, if it is here."""
        return next((each for each in self._adapters if each.name == name), None)

    def _hear(self, framework: str, module: ModuleType) -> None:
        self._come(framework)

    def _come(self, framework: str) -> None:
        adapter: Adapter | None = None
        try:
            adapter = make_adapter(framework, self._tell)
            self.add(adapter)
        except (AttributeError, ImportError) as error:
            if adapter is not None:
                adapter.uninstall()
            version = getattr(sys.modules.get(framework), "__version__", "")
            self._tell(f"{framework} {version} is not captured: this version of it differs ({error})")

    def _take_in(self, adapter: Adapter) -> None:
        known = self.families
        self._adapters.append(adapter)
        if self._profiles is not None and adapter.depths is not None:
            self._fetching = adapter.depths.watch_fetching(*self._profiles)
        if adapter.family not in known:
            self._on_new_family()
        elif self._watching is not None:
            self._watch(adapter, self._watching)

    # --- whom it is for -----------------------------------------------------------------------------------

    def _of(self, thing: object) -> Adapter:
        """Whose it is; what nobody knows stands where an optimizer does, in a form of its own."""
        known = (each for each in self._adapters if each.knows(thing))
        return next(known, None) or next(each for each in self._adapters if each.depths is not None)

    def _deep(self) -> Depths | None:
        return next((each.depths for each in self._adapters if each.depths is not None), None)

    def spoken(self) -> str:
        """What trains, with versions: ``torch 2.13.0``; as long as nothing does, all that is here."""
        chosen = self._trained or self._adapters
        return ", ".join(f"{each.name} {each.version()}".rstrip() for each in chosen)

    @property
    def training_families(self) -> frozenset[Family]:
        """The kinds of frameworks that train; as long as none does, of all that are here."""
        return frozenset(each.family for each in self._trained) or self.families

    def subject(self, optimizer: object) -> Subject:
        """What an optimizer updates, with names."""
        adapter = self._of(optimizer)
        if adapter not in self._trained:
            self._trained.append(adapter)
        return adapter.subject(optimizer)

    def register(self, model: object) -> None:
        """Name a model, so that it need not be looked for.

        Raises:
            TypeError: It is none of any framework here.
        """
        for each in self._adapters:
            if each.knows(model):
                return each.register(model)
        known = " or ".join(sorted({each.name for each in self._adapters})) or "an imported framework"
        raise TypeError(f"a model is one of {known}, not a {type(model).__name__}")

    def number(self, value: Any) -> object:
        """A scalar of a framework (or anything float() takes) as a number, or as one that is still on a device."""
        if type(value) is float:
            return value
        adapter = next((each for each in self._adapters if each.depths is not None and each.knows(value)), None)
        return adapter.number(value) if adapter is not None else float(value)

    def row(self, values: Sequence[Any]) -> bytes | PendingNumbers:
        """Numbers, some of which may be still on a device, as a row."""
        for each in self._adapters:
            if each.depths is not None:
                return each.row(values)
        return struct.pack(f"<{len(values)}d", *values)

    # --- for each -----------------------------------------------------------------------------------------

    def hears(self, item: CaptureItem) -> bool:
        """Whether a wish may mean what some adapter captures between the beginning and the end of a step."""
        return any(is_of_family(item, (each.family,)) and each.hears(item) for each in self._adapters)

    def watch_forward(self, items: Sequence[CaptureItem]) -> None:
        """Capture those wishes in the step that begins; without any an adapter learns what losses are called."""
        self._watching = items
        for each in self._adapters:
            self._watch(each, items)

    @staticmethod
    def _watch(adapter: Adapter, items: Sequence[CaptureItem]) -> None:
        own = tuple(item for item in items if is_of_family(item, (adapter.family,)) and adapter.hears(item))
        if own or not items:
            adapter.watch_forward(own)

    def end_forwards(self) -> list[Forward]:
        """Stop; what each captured."""
        self._watching = None
        found = [each.end_forward() for each in self._adapters]
        return [each for each in found if each is not None]

    def end_evaluation(self) -> None:
        """The eval step under way, if there is one, is over."""
        for each in self._adapters:
            each.end_evaluation()

    def name_mode(self, *, is_evaluation: bool) -> None:
        """The script says that what follows is evaluation, or that it is no longer."""
        for each in self._adapters:
            each.name_mode(is_evaluation=is_evaluation)

    def is_distributed(self) -> bool:
        """Whether this process is one rank of several."""
        return any(each.is_distributed() for each in self._adapters)

    def rank(self) -> int | None:
        """This process's rank in a distributed job, where a framework knows it."""
        return next((rank for each in self._adapters if (rank := each.rank()) is not None), None)

    def describe(self) -> dict[str, Any]:
        """What the worker's document says of the training, by key."""
        return {key: said for each in self._adapters for key, said in each.describe().items()}

    def survey(self, optimizers: Sequence[object]) -> dict[str, Any]:
        """What a doctor reports of optimizers that stepped."""
        found: dict[str, Any] = {"models": [], "optimizers": [], "module_kinds": []}
        for each in self._adapters:
            own = [one for one in optimizers if self._of(one) is each]
            for key, said in each.survey(own).items():
                found[key] = [*found[key], *said]
        return found

    def uncovered(self, optimizers: Sequence[object], backwards: int) -> list[dict[str, str]]:
        """What is alive and not watched, or in part only."""
        found: list[dict[str, str]] = []
        for each in self._adapters:
            own = [one for one in optimizers if self._of(one) is each]
            if own or not optimizers:
                found += each.uncovered(own, backwards)
        return found

    # --- of those with devices of their own ---------------------------------------------------------------

    def open_operators(self, window: ProfileWindow, guard: Guard) -> Recording:
        """What records every operator call of a window.

        Raises:
            ProfileUnavailableError: No framework here has operators.
        """
        deep = self._deep()
        if deep is None:
            raise ProfileUnavailableError(f"only PyTorch's operators are recorded; here is {self.spoken() or 'none'}")
        return deep.open_operators(window, guard)

    def watch_fetching(self, profiles: str, guard: Guard) -> Opener:
        """Have the workers of data loaders look for windows; what records one.

        Args:
            profiles: The folder of the run's profiles.
        """
        self._profiles, deep = (profiles, guard), self._deep()
        if deep is not None:
            self._fetching = deep.watch_fetching(profiles, guard)
        return self._open_fetching

    def _open_fetching(self, window: ProfileWindow) -> Recording:
        if self._fetching is None:
            raise ProfileUnavailableError("only PyTorch's data loaders are recorded, and PyTorch is not imported")
        return self._fetching(window)

    def out_of_memory(self, tell: Callable[[str], None]) -> MemoryWatch:
        """What tells that an accelerator has no memory left."""
        return _MemoryWatch(self._deep, tell)

    def is_out_of_memory(self, error: object) -> bool:
        """Whether an error says that there is no memory left."""
        deep = self._deep()
        return deep is not None and deep.is_out_of_memory(error)

    def memory(self, optimizers: Iterable[object]) -> dict[str, Any]:
        """What the training's lasting tensors take, by module and category; in bytes."""
        deep = self._deep()
        return deep.memory([each for each in optimizers if deep is self._of(each).depths]) if deep is not None else {}


class _MemoryWatch:
    """Of the framework with devices that is here when the training begins."""

    def __init__(self, find: Callable[[], Depths | None], tell: Callable[[str], None]) -> None:
        self._find, self._tell = find, tell
        self._watch: MemoryWatch | None = None

    def start(self) -> None:
        deep = self._find()
        if deep is not None:
            self._watch = deep.out_of_memory(self._tell)
            self._watch.start()

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()
