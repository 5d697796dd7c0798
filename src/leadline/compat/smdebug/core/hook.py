"""What all hooks of smdebug's interface have in common."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from leadline.compat.smdebug.core.capture_items import SCALAR_PREFIX, HookDefaults, Naming, capture_items, number_item
from leadline.compat.smdebug.core.collection import Collection, CollectionKeys
from leadline.compat.smdebug.core.collection_manager import CollectionManager
from leadline.compat.smdebug.core.hook_run import HookRun, check_out_dir, logger, rank
from leadline.compat.smdebug.core.json_config import HookSettings, read_settings
from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.core.passed_numbers import as_number, number_of
from leadline.compat.smdebug.core.reduction_config import ReductionConfig
from leadline.compat.smdebug.core.save_config import DEFAULT_INTERVAL, SaveConfig, SaveConfigMode
from leadline.compat.smdebug.core.stored_out_dir import local_folder
from leadline.compat.smdebug.core.tensorboard_files import write_tensorboard_files
from leadline.compat.smdebug.core.trace_events import TraceEvents
from leadline.compat.smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from leadline.config.store_uri import is_uri
from leadline.formats.smdebug_json import CollectionEntry
from leadline.hook import Hook as ArrayHook
from leadline.records.event import Event
from leadline.records.names import SCALAR_COLLECTIONS
from leadline.records.plan import CaptureItem
from leadline.training.session.session import Session

WORKERS = ("one", "all")


class BaseHook:
    """Saves tensors of a training over Leadline's capture; see the hook of each framework.

    A failure of the capture never reaches the training; wrong arguments raise.

    Args:
        out_dir: The folder to write, or a URI of an object store; ``create_trial`` and every command of Leadline read
            it.
        export_tensorboard, tensorboard_dir: Whether and where another process writes everything that is a number as
            TensorBoard files; default: ``tensorboard`` in ``out_dir``.
        dry_run: Save nothing.
        reduction_config: What is saved of the tensors of collections without one; None: the tensors.
        save_config: When the collections without one are saved: a ``SaveConfig``, ``SaveConfigMode``, or one by mode.
        include_regex: Regular expressions of further tensors: those of collection ``default``.
        include_collections: Names of the collections to save, beside those of the framework's default.
        save_all: Whether every tensor is saved.
        include_workers: ``one``: only the process of rank 0 saves; ``all``: each of them.
    Raises:
        RuntimeError: ``out_dir`` is missing.
        SMDebugTypeError, SMDebugValueError: An argument is not allowed.
        SMDebugRuntimeError: ``out_dir`` holds an earlier training.
    """

    naming: ClassVar[Naming]
    names: ClassVar[str | None] = None
    """How a trial names the tensors, where it differs from the run."""
    collection_class: ClassVar[type[Collection]] = Collection
    default_collections: ClassVar[tuple[str, ...]] = (CollectionKeys.LOSSES,)
    default_interval: ClassVar[int] = DEFAULT_INTERVAL

    def __init__(
        self,
        out_dir: str | os.PathLike[str] | None = None,
        export_tensorboard: bool = False,
        tensorboard_dir: str | None = None,
        dry_run: bool = False,
        reduction_config: ReductionConfig | Mapping[str, Any] | None = None,
        save_config: SaveConfig | SaveConfigMode | Mapping[Any, Any] | None = None,
        include_regex: str | list[str] | None = None,
        include_collections: Iterable[Any] | None = None,
        save_all: bool = False,
        include_workers: str = "one",
    ) -> None:
        if include_workers not in WORKERS:
            raise SMDebugValueError(f"include_workers must be one or all, not {include_workers!r}")
        self.out_dir = check_out_dir(out_dir)
        self.tensorboard_dir = _tensorboard_dir(self.out_dir, export_tensorboard, tensorboard_dir)
        self.dry_run, self.include_workers = dry_run, include_workers
        self.save_all, self.include_regex = save_all, include_regex
        given = ReductionConfig(save_raw_tensor=True) if reduction_config is None else reduction_config
        self.reduction_config = ReductionConfig.parse(given)
        interval = SaveConfig(save_interval=self.default_interval)
        self.save_config = interval if save_config is None else SaveConfig.parse(save_config)
        self.collection_manager = CollectionManager(self.naming.defaults, self.collection_class)
        self.mode = ModeKeys.GLOBAL
        self._included = dict.fromkeys([*self.default_collections, *_flat(include_collections or ())])
        self._run: HookRun | None = None
        self._arrays: ArrayHook | None = None
        self._is_closed = False
        self._warned: set[str] = set()
        self._timestamps: dict[str, dict[int, float]] = {}
        """The times that the script gave to numbers, by name and global step."""
        self._passed: set[str] = set()
        self._passed_numbers: dict[str, set[str]] = {}
        """The names of the numbers that the script passes, by collections of numbers."""
        """Collections that the script has saved tensors in: they need not select anything."""
        self._trace_events = TraceEvents()
        self._described: dict[str, CollectionEntry] = {}
        """The collections as they were captured last."""
        if include_regex:
            self.get_collection(CollectionKeys.DEFAULT).include(include_regex)
            self._included[CollectionKeys.DEFAULT] = None
        if save_all:
            self._included[CollectionKeys.ALL] = None

    @classmethod
    def create_from_json_file(cls, json_file_path: str | None = None) -> Self:
        """Create a hook from a configuration file.

        Args:
            json_file_path: Its path; None: ``$SMDEBUG_CONFIG_FILE_PATH``, or that of SageMaker's container.
        Raises:
            FileNotFoundError: There is no such file.
            SMDebugValueError: It is no JSON, or a value in it is not allowed.
        """
        settings = read_settings(json_file_path, cls.default_interval)
        hook = cls(**settings.hook, include_collections=[entry.name for entry in settings.collections])
        hook._configure(settings)
        return hook

    def _configure(self, settings: HookSettings) -> None:
        """Give the collections what a configuration file says of them."""
        for entry in settings.collections:
            entry.apply(self.get_collection(entry.name))

    @property
    def include_collections(self) -> set[str]:
        """The names of the collections that are saved."""
        return set(self._included)

    @property
    def step(self) -> int:
        """The current global step; -1 before the capture has begun."""
        session = self._session
        return session.recorder.clock.step if session is not None else -1

    @property
    def mode_steps(self) -> dict[ModeKeys, int]:
        """The current step of each mode; -1 before the capture has begun."""
        session = self._session
        if session is None:
            return dict.fromkeys(ModeKeys, -1)
        clock = session.recorder.clock
        return {mode: self.step if mode is ModeKeys.GLOBAL else clock.mode_step(mode.name.lower()) for mode in ModeKeys}

    # --- collections --------------------------------------------------------------------------------------

    def get_collection(self, name: str, create: bool = True) -> Any:
        """Return a collection.

        Args:
            create: Create it if there is none.
        Raises:
            SMDebugError: There is none, and none is created.
        """
        return self.collection_manager.get(name, create)

    def get_collections(self) -> dict[str, Collection]:
        """Return the collections by name."""
        return self.collection_manager.get_collections()

    def add_collection(self, collection: str | Collection) -> None:
        """Add a collection, in place of another of its name.

        Raises:
            SMDebugTypeError: It is neither a collection nor a name.
        """
        self.collection_manager.add(collection)

    def _collections(self) -> list[Collection]:
        """Return the collections as they are captured."""
        return list(self.get_collections().values())

    def _warn_of_unknown(self) -> None:
        """Name the collections that are to be saved although the script says nowhere what they select."""
        known = {*self.get_collections(), *SCALAR_COLLECTIONS, "scalars"}
        for name in self._included:
            if name not in known and name not in self._warned:
                self._warned.add(name)
                logger.warning("collection %s selects nothing: give it an include_regex", name)

    # --- steps and values -----------------------------------------------------------------------------------

    def set_mode(self, mode: ModeKeys) -> None:
        """Set the mode of the following steps.

        Raises:
            SMDebugValueError: It is no mode.
        """
        if not isinstance(mode, ModeKeys):
            raise SMDebugValueError(f"a mode is one of {', '.join(f'modes.{known.name}' for known in ModeKeys)}")
        self.mode = mode
        self._update()
        self._follow_mode()

    def save_scalar(self, name: str, value: Any, sm_metric: bool = False, timestamp: float | None = None) -> None:
        """Save a number of the current step, as tensor ``scalar/<name>``.

        Args:
            sm_metric: Also add it to collection ``sm_metrics``.
            timestamp: Its time in seconds since the epoch; None: that of its step.
        Raises:
            SMDebugTypeError: It is not one number.
        """
        number = number_of(name, value)
        session = self._begin()
        if session is not None:
            marks = (CollectionKeys.SM_METRICS,) if sm_metric else ()
            step = session.guard.run(session.recorder.log, {SCALAR_PREFIX + name: number}, "scalars", marks)
            if timestamp is not None and step is not None:
                self._timestamps.setdefault(SCALAR_PREFIX + name, {})[step] = float(timestamp)

    def save_tensor(
        self, tensor_name: str, tensor_value: Any, collections_to_write: str | Iterable[str] = CollectionKeys.DEFAULT
    ) -> None:
        """Save an array of the current step where a collection of it is scheduled.

        Args:
            tensor_value: A tensor of the framework, or anything that ``numpy.asarray`` accepts.
            collections_to_write: The collections that it belongs to; unknown ones are created. Of ``losses``,
                ``metrics`` and others whose members are numbers, it is saved as a number; if it is not one, as a
                member of ``default``.
        """
        names = [collections_to_write] if isinstance(collections_to_write, str) else list(collections_to_write)
        for name in names:
            self.collection_manager.create_collection(name)
        arrays = [name for name in names if name not in SCALAR_COLLECTIONS]
        number = as_number(tensor_value) if len(arrays) < len(names) else None
        if number is None:
            self._passed.update(arrays)
        else:
            collection = next(name for name in names if name in SCALAR_COLLECTIONS)
            if collection != CollectionKeys.LOSSES:
                self._passed_numbers.setdefault(collection, set()).add(tensor_name)
        session = self._begin()
        if session is None or self._arrays is None:
            return
        if number is not None:
            session.guard.run(self._save_number, session, tensor_name, number, collection, tuple(arrays))
        else:
            self._arrays.save_tensor(tensor_name, tensor_value, arrays or [CollectionKeys.DEFAULT])

    def _save_number(self, session: Session, name: str, value: float, collection: str, marks: tuple[str, ...]) -> None:
        if collection == CollectionKeys.LOSSES:
            self._save_loss(session, name, value)
        else:
            session.recorder.log({name: value}, collection, marks)

    def _save_loss(self, session: Session, name: str, value: Any) -> None:
        """Record a loss that the script passes."""
        recorder = session.recorder
        if self.mode in (ModeKeys.EVAL, ModeKeys.PREDICT):
            recorder.evaluation.record_loss(name, value)
        elif recorder.wants_loss():
            recorder.record_loss(("smdebug", name), value, name)

    def record_trace_events(
        self,
        timestamp: float,
        training_phase: str = "",
        op_name: str = "",
        phase: str = "X",
        duration: float = 1,
        **kwargs: Any,
    ) -> None:
        """Add an event of the script to the timeline of the run.

        Args:
            timestamp: Its start in seconds since the epoch.
            training_phase, op_name: What it is listed under, and its name.
            phase: ``X`` for an event with a duration, ``B`` and ``E`` for the two ends of one, ``i`` for an instant.
            duration: Seconds.
            kwargs: Further facts about it: texts and numbers.
        Raises:
            SMDebugValueError: There is no such phase.
            SMDebugTypeError: A time is not a number.
        """
        session = self._begin()
        step = session.recorder.clock.step if session is not None else 0
        event = self._trace_events.add(timestamp, training_phase, op_name, phase, duration, facts=kwargs, step=step)
        if session is not None and event is not None:
            session.guard.run(_put_event, session, event)

    def close(self) -> None:
        """Write the remaining data and end the run."""
        self._is_closed = True
        if self._run is not None:
            if self._timestamps:
                self._describe()
            self._run.close()

    _cleanup = close
    """As older scripts close a hook."""

    def _get_worker_name(self) -> str:
        """Return the name of this process in the trial, as older scripts ask for it."""
        return f"worker_{rank()}"

    def __getstate__(self) -> dict[str, object]:
        """Return nothing: another process that receives the hook saves nothing with it."""
        return {}

    # --- capture ----------------------------------------------------------------------------------------------

    @property
    def _session(self) -> Session | None:
        return self._run.session if self._run is not None else None

    def _begin(self, *, are_collections_complete: bool = True) -> Session | None:
        """Begin to capture, or capture what the collections select by now; return the session, if there is one.

        Args:
            are_collections_complete: False: the script may still say what its collections select.
        """
        is_left_out = self.include_workers == "one" and rank() != 0
        if self._is_closed or self.dry_run or is_left_out:
            return None
        items = self._items(is_strict=are_collections_complete)
        before = self._described
        self._described = {known.name: known.to_json_dict() for known in self._collections()}
        if self._run is None:
            self._run = HookRun(self.out_dir, items)
            self._arrays = ArrayHook() if self._run.session is not None else None
            self._follow_mode()
            session = self._run.session
            if self.tensorboard_dir is not None and session is not None:
                write_tensorboard_files(session, self.tensorboard_dir)
        else:
            self._run.change(items)
        if are_collections_complete:
            self._warn_of_unknown()
        if self._described != before:
            self._describe()
        return self._session

    def _describe(self) -> None:
        """Record what a reader of the trial needs beside the run."""
        if self._run is not None:
            times = {"timestamps": self._timestamps} if self._timestamps else {}
            self._run.describe({"names": self.names, "collections": self._described} | times | self._facts())

    def _facts(self) -> dict[str, object]:
        """Return further facts for readers of the trial."""
        return {}

    def _update(self) -> None:
        """Capture what the collections select by now, if the capture has begun."""
        if self._run is not None:
            self._begin()

    def _items(self, *, is_strict: bool) -> tuple[CaptureItem, ...]:
        known = self._collections()
        every = [one for one in known if one.name not in (CollectionKeys.ALL, *SCALAR_COLLECTIONS)]
        included = [one for one in known if one.name in self._included]
        optional = self._passed if is_strict else set(self._included)
        included = [
            one for one in included if one.name in self.naming.defaults or one.patterns() or one.name not in optional
        ]
        items = capture_items(included, every, self.naming, HookDefaults(self.save_config, self.reduction_config))
        return (*items, *(number_item(collection, names) for collection, names in self._passed_numbers.items()))

    def _follow_mode(self) -> None:
        """Give the capture the mode of the hook."""
        if self._session is not None and self._arrays is not None:
            self._arrays.mode("train" if self.mode is ModeKeys.GLOBAL else self.mode.name.lower())


def _tensorboard_dir(out_dir: str, is_exported: bool, given: str | None) -> str | None:
    if given is not None:
        return os.path.expanduser(given)
    folder = local_folder(out_dir) if is_uri(out_dir) else out_dir
    return os.path.join(folder, "tensorboard") if is_exported else None


def _put_event(session: Session, event: Event) -> None:
    session.recorder.open()
    session.context.put_event(event)


def _flat(names: Iterable[Any]) -> list[str]:
    """Return the names of collections in nested lists.

    Raises:
        SMDebugTypeError: An entry is neither a name nor a list.
    """
    found: list[str] = []
    for name in [names] if isinstance(names, str) else names:
        if isinstance(name, str):
            found.append(name)
        elif isinstance(name, (list, tuple, set)):
            found += _flat(name)
        else:
            raise SMDebugTypeError(f"include_collections: a name is expected, not {type(name).__name__}")
    return found
