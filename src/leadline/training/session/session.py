"""The session of a training process: what the bootstrap, ``watch`` and ``Hook`` start, and all else belongs to."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from leadline.errors import LeadlineError, RunNotFoundError
from leadline.records.manifest import Manifest
from leadline.records.names import MODES, Family
from leadline.records.plan import CapturePlan, is_of_family
from leadline.records.request import RULE
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.presence import node_name

if TYPE_CHECKING:
    from leadline.frameworks.adapter import Adapter
    from leadline.records.event import Event
    from leadline.training.profiler.requests import ProfileRequests
    from leadline.training.recorder.control_requests import ControlRequests
    from leadline.training.session.oom_report import OutOfMemoryReport

_SCALARS: Final = "scalars"
_TRACKER: Final = "tracker"
_SPOKEN: Final[dict[Family, dict[str, str]]] = {
    "network": {"losses": "losses", "gradients": "statistics", "weights": "statistics"},
    "trees": {
        "losses": "losses",
        "feature_importance": "feature importance",
        "predictions": "predictions",
        "average_shap": "SHAP",
        "full_shap": "SHAP",
        "trees": "trees",
    },
    "arrays": {"losses": "losses", "default": "statistics"},
}
"""What a worker says of itself, by what is captured."""
_ORDER: Final = (
    "losses",
    "statistics",
    "feature importance",
    "predictions",
    "SHAP",
    "trees",
    "raw tensors",
)


class Session:
    """Capture in this process, into one run.

    Args:
        run: The run folder.
        manifest: What the run is.
        node: The node's name.
        imported_ns: When the framework had been imported, if that is why we came; of ``time.perf_counter_ns``.
        imported: Which framework that is.
    """

    def __init__(
        self, run: str, manifest: Manifest, node: str, imported_ns: int | None = None, imported: str | None = None
    ) -> None:
        from leadline.frameworks.installed import Frameworks
        from leadline.frameworks.loggers.registry import Loggers
        from leadline.training.guard import Guard
        from leadline.training.profiler.requests import KIND as PROFILE
        from leadline.training.recorder.control_requests import ControlRequests
        from leadline.training.recorder.step_recorder import Recorder
        from leadline.training.session.added_rules import AddedRuleCaptures
        from leadline.training.session.tracker_logging import KIND, TrackerLogging

        self.run, self.node = run, node
        self.worker = ""
        self._manifest = manifest
        self._pid = os.getpid()
        self._started_ns = time.time_ns()
        self._off: dict[str, Any] | None = None
        self._at_exit_of_child: Any = None
        self.guard = Guard(self._go_off)
        self._adapter = Frameworks(lambda line: self.recorder.note(line), self._follow_plan)
        control = ControlRequests(run, lambda: self.worker)
        self._widening = AddedRuleCaptures(
            run, worker=lambda: self.worker, step=lambda: self.recorder.clock.step, follow=self._follow_plan
        )
        control.serve(RULE, self._widening.take)
        self.recorder = Recorder(self._plan(), self._adapter, control, self._open_writer, imported_ns)
        self._checkup = self._begin_checkup(control)
        self._loggers = Loggers(self.recorder, self._adapter.number, self.recorder.note)
        self._loggers.install()
        self._tracking = TrackerLogging(
            run,
            trackers=self._loggers.trackers.find,
            worker=lambda: self.worker,
            step=lambda: self.recorder.clock.step - 1,
            guarded=Guard(lambda why: self.recorder.note(f"rules are no longer logged to trackers: {why}")).wrap,
        )
        control.serve(KIND, self._tracking.wake)
        self._profiling = self._begin_profiling(manifest)
        self._exhaustion = self._begin_exhaustion()
        control.serve(PROFILE, self._profiling.take)
        self.guard.run(self._adapter.install, self._checkup or self.recorder, self.guard, imported)
        atexit.register(self.close)

    def _plan(self) -> CapturePlan:
        """The plan as far as it is for frameworks that are here."""
        plan, families = self._manifest.plan, self._adapter.families
        wishes = (*plan.items, *self._widening.items)
        return replace(plan, items=tuple(item for item in wishes if is_of_family(item, families)))

    def _follow_plan(self) -> None:
        self.recorder.follow(self._plan())

    def add(self, adapter: Adapter) -> None:
        """Let an adapter join that is no framework's."""
        self.guard.run(self._adapter.add, adapter)

    def find(self, name: str) -> Adapter | None:
        """The adapter of that name, if it is here."""
        return self._adapter.find(name)

    def _begin_profiling(self, manifest: Manifest) -> ProfileRequests:
        """What opens profiling windows; they begin with the process."""
        from leadline.training.profiler.requests import ProfileRequests, openers_of

        profiling = ProfileRequests(
            self.run,
            worker=lambda: self.worker or _worker_name(self._adapter.rank()),
            step=lambda: self.recorder.clock.step,
            started_ns=manifest.started_ns,
            openers=openers_of(self._adapter, self.run, self.guard),
            note=lambda line: self.recorder.note(line),
            has_trained=lambda: self.recorder.writer is not None,
        )
        self.recorder.listener = profiling
        profiling.begin(manifest.profile, self.recorder.timeline)
        return profiling

    def _begin_exhaustion(self) -> OutOfMemoryReport:
        """What tells whose the memory was when it runs out."""
        from leadline.training.session.oom_report import OutOfMemoryReport

        return OutOfMemoryReport(
            self.run,
            self._adapter,
            worker=lambda: self.worker,
            step=lambda: self.recorder.clock.step,
            optimizers=lambda: self.recorder.optimizers,
            note=lambda line: self.recorder.note(line),
            put_event=self._put_event,
        )

    def _put_event(self, event: Event) -> None:
        if self.recorder.writer is not None:
            self.recorder.writer.put_event(event)

    def _begin_checkup(self, control: ControlRequests) -> Any | None:
        """What notes everything in a doctor's run."""
        if not os.path.exists(os.path.join(self.run, layout.DOCTOR)):
            return None
        from leadline.training.doctor.probe import DoctorProbe, order_of

        order, plan = order_of(self.run), self._manifest.plan
        return DoctorProbe(order, self.run, plan, self.recorder, self._adapter, control) if order is not None else None

    def register(self, model: object) -> None:
        """Name a model, so that it need not be looked for.

        Raises:
            TypeError: It is none of any framework that is imported.
        """
        self._adapter.register(model)

    def close(self) -> bool:
        """Take the hooks away and write what is left; whether everything captured is on disk."""
        atexit.unregister(self.close)
        if self._at_exit_of_child is not None:
            self._at_exit_of_child.cancel()
        if os.getpid() == self._pid:
            self.guard.run(self.recorder.finish)
            if self._checkup is not None:
                self.guard.run(self._checkup.close)
            self._profiling.close()
            if self.recorder.writer is not None:
                self._exhaustion.close(getattr(sys, "last_value", None))
            self._tracking.close()
        self._loggers.uninstall()
        self._adapter.uninstall()
        if os.getpid() != self._pid:
            return True
        writer = self.recorder.writer
        return writer.close() if writer is not None else True

    def abandon(self) -> None:
        """In a forked child: forget everything of the parent's without touching its files or locks."""
        atexit.unregister(self.close)
        self._profiling.abandon()
        self._loggers.uninstall()
        self._adapter.uninstall()

    def _open_writer(self) -> Any:
        from leadline.store.writer import Writer

        self._at_exit_of_child = _at_exit_of_child(self.close)
        self._exhaustion.listen()
        self._loggers.look_again()
        self.worker = _worker_name(self._adapter.rank())
        if any(each.action == _TRACKER for each in self._manifest.actions):
            self._tracking.begin()
        plan = self._manifest.plan
        return Writer(
            self.run,
            self.worker,
            host_bytes=plan.host_bytes,
            disk_bytes=plan.disk_bytes,
            document=self._describe,
            guarded=self.guard.wrap,
        )

    def _go_off(self, failure: str) -> None:
        self._off = {"step": self.recorder.clock.step, "error": failure}
        self._profiling.abandon()
        self._loggers.uninstall()
        self._adapter.uninstall()
        try:
            self.recorder.open()
        except OSError:
            return  # standard error has told it
        if self.recorder.writer is not None:
            self.recorder.writer.describe_soon()

    def _describe(self) -> dict[str, Any]:
        recorder = self.recorder
        watching = recorder.watching
        return {
            "worker": self.worker,
            "node": self.node,
            "pid": self._pid,
            "started_ns": self._started_ns,
            "framework": self._adapter.spoken(),
            "models": [{"name": model, "parameters": count} for model, _, count in watching],
            "optimizers": [optimizer for _, optimizer, _ in watching if optimizer],
            "watching": describe_plan(self._manifest, self._adapter.training_families),
            "steps": dict(recorder.clock.finished),
            "step": recorder.clock.step - 1,
            "losses": dict(recorder.losses),
            "time_ns": time.time_ns(),
            "own_ns": recorder.cost.own_ns,
            "loop_ns": recorder.cost.loop_ns,
            "thinned": list(recorder.budget.thinned.values()),
            "off": self._off,
            "notes": list(recorder.notes),
            "facts": dict(recorder.timeline.facts),
            "profiles": dict(self._profiling.outcomes),
            **self._adapter.describe(),
        }


def _at_exit_of_child(close: Callable[[], object]) -> Any:
    """Have multiprocessing call it in the end, in a child of its own: such a process leaves without atexit."""
    util, process = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None:
        return None
    return util.Finalize(None, close, exitpriority=-100)


def describe_plan(manifest: Manifest, families: Iterable[Family] = ("network",)) -> str:
    """In a few words what is captured how often: ``losses every step, statistics every 50``.

    Args:
        families: The kinds of frameworks that train.
    """
    families = frozenset(families)
    spoken_as = {collection: kind for family in families for collection, kind in _SPOKEN[family].items()}
    kinds: dict[str, list[int]] = {}
    for item in manifest.plan.items:
        is_for_long = item.schedule.every is not None and item.schedule.end is None
        if not is_for_long or item.collection not in spoken_as or not is_of_family(item, families):
            continue
        kind = "raw tensors" if item.raw else spoken_as[item.collection]
        kinds.setdefault(kind, []).append(item.schedule.every or 1)
    step = "round" if families == {"trees"} else "step"
    ordered = sorted(kinds.items(), key=lambda each: _ORDER.index(each[0]))
    spoken = [f"{kind} every {_steps(min(every), step)}" for kind, every in ordered]
    return ", ".join(spoken) or "what the rules ask"


def _steps(every: int, step: str) -> str:
    return step if every == 1 else str(every)


def _worker_name(rank: int | None) -> str:
    """Two processes never share one: rank, restarts of the launcher, pid."""
    spoken = str(rank) if rank is not None else os.environ.get("RANK", "0")
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    again = f"-r{restarts}" if restarts.isdecimal() and int(restarts) else ""
    return f"rank{spoken if spoken.isdecimal() else 0}{again}-{os.getpid()}"


# --- the one session of this process ------------------------------------------------------------------------

_current: Session | None = None
_lock = threading.Lock()


def is_disabled() -> bool:
    """Whether ``LEADLINE_DISABLED`` switches everything off."""
    return os.environ.get("LEADLINE_DISABLED", "") not in ("", "0")


def start(run: str, imported_ns: int | None = None, imported: str | None = None) -> Session | None:
    """Begin to capture into an existing run; what ran before in this process is closed first.

    Args:
        imported_ns, imported: See ``Session``.
    Raises:
        RunNotFoundError: There is no run at that place.
    """
    global _current
    if is_disabled():
        return None
    data = read_document(os.path.join(run, layout.MANIFEST))
    if data is None:
        raise RunNotFoundError(f"there is no run at {run}: it has no {layout.MANIFEST}")
    stop_current()
    with _lock:
        _current = Session(os.path.abspath(run), Manifest.from_dict(data), node_name(), imported_ns, imported)
    return _current


def stop_current() -> None:
    """Close the session of this process, if there is one."""
    global _current
    with _lock:
        session, _current = _current, None
    if session is not None:
        session.close()


def forget(closed: Session) -> None:
    """Let go of a session that somebody closed."""
    global _current
    with _lock:
        if _current is closed:
            _current = None


def current() -> Session | None:
    """The session of this process, if there is one."""
    return _current


def join(wishes: Mapping[str, Any], imported_ns: int | None = None, imported: str | None = None) -> Session | None:
    """Begin to capture into the run that ``LEADLINE_RUN`` names, which is made if it is not there yet.

    Args:
        wishes: What ``leadline run`` would be told.
        imported_ns, imported: See ``Session``.
    Raises:
        LeadlineError: It cannot be made or joined.
    """
    from leadline.training.session.launch_agent import join as join_run

    return start(join_run(os.environ["LEADLINE_RUN"], wishes), imported_ns, imported)


def attach_from_environment(framework: str) -> None:
    """What the bootstrap calls once a framework is imported: ``LEADLINE_RUN`` names the run. Never raises."""
    try:
        join({}, time.perf_counter_ns(), framework)
    except LeadlineError as error:
        sys.stderr.write(f"leadline  this process is not watched: {error}\n")
    except Exception as error:  # noqa: BLE001 - the guard of the attachment itself
        sys.stderr.write(f"leadline  this process is not watched: {type(error).__name__}: {error}\n")


def _in_forked_child() -> None:
    """A fork is somebody else until it trains: it gets a session of its own, which is silent until its first step."""
    global _current, _lock
    _lock = threading.Lock()
    parent, _current = _current, None
    if parent is None:
        return
    parent.abandon()
    _current = Session(parent.run, parent._manifest, parent.node)


os.register_at_fork(after_in_child=_in_forked_child)


def log(values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
    """Keep scalars for the step under way: ``leadline.log(accuracy=0.93)``; the last value of a name holds.

    Nothing happens where nobody watches. A value of a framework on an accelerator is waited for.

    Args:
        values: Names that are no identifiers, as a mapping.
        named: Names and numbers (or tensors of one element).
    """
    session = _current
    if session is not None:
        session.guard.run(session.recorder.log, {**(values or {}), **named}, _SCALARS)


class mode:
    """Name the mode of the steps that follow; in a ``with`` block, of those within.

    Args:
        name: ``train``, ``eval`` or ``predict``.
    Raises:
        LeadlineError: No mode has that name.
    """

    def __init__(self, name: str) -> None:
        if name not in MODES[:3]:
            raise LeadlineError(f"no mode named {name!r}; there are {', '.join(MODES[:3])}")
        self._before = self._set(name)

    def __enter__(self) -> mode:
        return self

    def __exit__(self, *exc: object) -> None:
        self._set(self._before)

    @staticmethod
    def _set(name: str) -> str:
        found = _current.guard.run(_current.recorder.name_mode, name) if _current is not None else None
        return found or "train"
