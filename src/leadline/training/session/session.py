"""The capture session of one training process, and the document of its worker."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from leadline.instrumentation.check import StepChecks, make_checks
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.own_frames import hide_own_frames, show_own_frames
from leadline.records.documents import DisabledCapture, WorkerDocument
from leadline.records.manifest import Manifest
from leadline.records.plan import CaptureItem, CapturePlan, may_select_family
from leadline.records.request import Profile, Track
from leadline.store import layout
from leadline.training.session.plan_summary import described_plan
from leadline.training.session.trainer import TrainerFacts
from leadline.training.session.worker_names import is_launched, rank_number, worker_name

if TYPE_CHECKING:
    from leadline.frameworks.adapter import Adapter
    from leadline.frameworks.loggers.registry import Loggers
    from leadline.instrumentation.step_context import StepContext
    from leadline.store.writer import Writer
    from leadline.training.doctor.probe import DoctorProbe
    from leadline.training.recorder.control_requests import ControlRequests
    from leadline.training.session.exit_record import ExitRecord

T = TypeVar("T")

_TRACKER: Final = "tracker"


class Session:
    """Capture in this process, into one run.

    Args:
        run: The run directory.
        manifest: The manifest of the run.
        node: The name of the node.
        imported_ns: When the framework had been imported, in ``perf_counter_ns``, if its import started the session.
        imported: The framework whose import started the session.

    Attributes:
        context: Run, worker, current step and notes.
        recorder: Records the steps.
        guard: Runs our code; its first failure disables capture.
        trainer: What a trainer tells of itself.
    """

    _continued: WorkerDocument | None = None
    """The last document of the worker that this process continues."""

    def __init__(
        self, run: str, manifest: Manifest, node: str, imported_ns: int | None = None, imported: str | None = None
    ) -> None:
        from leadline.frameworks.loaded_adapters import LoadedAdapters
        from leadline.frameworks.trainer_loops import end_running_loops
        from leadline.store import codec
        from leadline.training.profiler.requests import ProfileRequests, framework_openers
        from leadline.training.recorder.control_requests import ControlRequests, PlanChanges
        from leadline.training.recorder.step_recorder import StepRecorder
        from leadline.training.session.oom_report import OutOfMemoryReport
        from leadline.training.session.tracker_logging import TrackerLogging

        self.run, self.manifest, self.node = run, manifest, node
        self._pid, self._parent_pid, self._started_ns = os.getpid(), os.getppid(), time.time_ns()
        self._disabled: DisabledCapture | None = None
        """Step and error at which capture was disabled; None while it is enabled."""
        self._child_finalizer: Any = None
        self._exit_record: ExitRecord | None = None
        self.after_close: list[Callable[[], object]] = []
        """Called when everything is written."""
        self.guard = Guard(self._disable)
        self.context = context = self._make_context()
        self._frameworks = frameworks = LoadedAdapters(context.note, self._update_plan)
        self.trainer = trainer = TrainerFacts(context.clock, lambda: self.recorder)
        control = ControlRequests(
            context,
            lambda: trainer.ask_loop_to_end() | frameworks.end_training() | end_running_loops(),
            trainer.is_in_loop,
        )
        self._plan_changes = PlanChanges(context, manifest.plan.items, self._update_plan, frameworks.captures_together)
        openers = framework_openers(frameworks, run, self.guard)
        self._profiling = ProfileRequests(context, started_ns=manifest.started_ns, openers=openers)
        self.recorder = StepRecorder(
            context,
            self._plan(),
            frameworks,
            control,
            self._open_writer,
            listener=self._profiling,
            imported_ns=imported_ns,
            roles=manifest.roles,
        )
        self.guard.defer(self.recorder.deferred)
        self._doctor_probe = self._make_doctor_probe(control)
        self._loggers = self._intercept()
        self._checks = self._make_checks()
        tracker_guard = Guard(lambda error: context.note(f"rules are no longer logged to trackers: {error}"))
        self._trackers = TrackerLogging(context, self._loggers.trackers.find, tracker_guard.wrap)
        self._profiling.begin(manifest.profile)
        frameworks.when_profiles(self._profiling.begin_operators)
        self._oom_report = OutOfMemoryReport(context, frameworks, self.recorder.optimizers)
        self._serve(control)
        self.guard.run(frameworks.install, self._doctor_probe or self.recorder, self.guard, imported)
        self.guard.run(codec.load)  # some 20 ms, which the first step need not take
        hide_own_frames()
        atexit.register(self._close_at_exit)

    def _make_context(self) -> StepContext:
        from leadline.instrumentation.step_context import StepContext

        return StepContext(
            self.run,
            self._worker_name,
            continues=lambda optimizer: self._frameworks.continues(optimizer),
            takes_over=lambda optimizer: self._frameworks.takes_over(optimizer),
        )

    def _intercept(self) -> Loggers:
        """Begin to read what the script logs and prints."""
        from leadline.frameworks.loggers.printed_values import PrintedValues
        from leadline.frameworks.loggers.registry import Loggers

        recorder, context = self.recorder, self.context
        deferred = recorder.deferred
        printed = PrintedValues(recorder.given, context.facts, lambda: deferred.stop(), self.manifest.metrics)
        loggers = Loggers(recorder, self._frameworks.number, context.note, printed=printed)
        loggers.install()
        return loggers

    def add(self, adapter: Adapter) -> None:
        """Add an adapter that belongs to no framework."""
        self.guard.run(self._frameworks.add, adapter)

    def find(self, name: str) -> Adapter | None:
        """Return the adapter of that name, if there is one."""
        return self._frameworks.find(name)

    def register(self, model: object) -> None:
        """Register a model, so that it need not be searched for.

        Raises:
            TypeError: It is not a model of any imported framework.
        """
        self._frameworks.register(model)

    def log_metrics(self, values: Mapping[str, Any]) -> None:
        """Record metrics of a trainer, as those that are intercepted: of one name, a step has one value."""
        self._loggers.log(values)

    def replace_items(self, before: tuple[CaptureItem, ...], after: tuple[CaptureItem, ...]) -> None:
        """Capture items in place of others from now on, in this process; the other items of the plan stay."""
        self.guard.run(self._plan_changes.replace, before, after)

    def flush(self) -> None:
        """Write everything that was captured in the steps so far."""
        self.guard.run(self.recorder.drain)
        writer = self.context.writer
        if writer is not None and self.guard.is_open:
            writer.flush()

    def close(self) -> bool:
        """Remove the hooks and write the remaining data; return whether everything captured is on disk."""
        if self._exit_record is not None:
            self._exit_record.withdraw()
        return self._close()

    def _close_at_exit(self) -> None:
        self._run_at_end(self._note_exit)
        self._close()

    def _note_exit(self) -> None:
        from leadline.training.session.launch_agent import must_wait_for_agent

        error = getattr(sys, "last_value", None)
        if self._exit_record is not None and error is not None:
            self._exit_record.note_exception(error)
        elif self._exit_record is not None and must_wait_for_agent():
            self._exit_record.withdraw()  # the agent must not wait for the process that waits for it

    def _close_in_child(self) -> None:
        """Close at the end of a child process of multiprocessing, while the exception that ends it is handled."""
        if self._exit_record is not None:
            self._run_at_end(self._exit_record.note_exception, sys.exc_info()[1])
        self._close()

    def _run_at_end(self, function: Callable[..., T], *args: Any) -> T | None:
        """Call a part of the end, which may fail without failing the training or the parts that follow."""
        guard = Guard(lambda failure: self.context.note(f"the end of the capture failed in part: {failure}"))
        return guard.run(function, *args)

    def _close(self) -> bool:
        atexit.unregister(self._close_at_exit)
        if self._child_finalizer is not None:
            self._child_finalizer.cancel()
        if os.getpid() == self._pid:
            self.guard.run(self.recorder.finish)
            if self._checks is not None:
                self._run_at_end(self._checks.close)  # after the steps, so that none of them lasts until a copy ends
            if self._doctor_probe is not None:
                self.guard.run(self._doctor_probe.close)
            self._run_at_end(self._profiling.close)
            if self.context.writer is not None:
                self._run_at_end(self._oom_report.close, getattr(sys, "last_value", None))
            self._run_at_end(self._trackers.close)
        self._run_at_end(self._loggers.uninstall)
        self._run_at_end(self._frameworks.uninstall)
        writer = self.context.writer
        if os.getpid() != self._pid or writer is None:
            return True
        is_written = bool(self._run_at_end(writer.close))
        for function in self.after_close:
            self._run_at_end(function)
        return is_written

    def abandon(self) -> None:
        """In a forked child: drop the parent's state without touching its files or locks."""
        atexit.unregister(self._close_at_exit)
        if self._exit_record is not None:
            self._exit_record.discard()
        self._profiling.abandon()
        self._uninstall()

    def _uninstall(self) -> None:
        show_own_frames()
        self._loggers.uninstall()
        self._frameworks.uninstall()

    def _plan(self) -> CapturePlan:
        """Return the plan, reduced to the frameworks that are imported."""
        plan, families = self.manifest.plan, self._frameworks.families
        items = self._plan_changes.items
        return replace(plan, items=tuple(item for item in items if may_select_family(item, families)))

    def _worker_name(self) -> str:
        return worker_name(rank_number(self._frameworks.rank()), self.context.resumption.number)

    def _update_plan(self, *, is_prompt: bool = True) -> None:
        self.recorder.change_plan(self._plan(), is_prompt=is_prompt)

    def _serve(self, control: ControlRequests) -> None:
        """Handle the requests that change what is captured, tracked and profiled."""
        self._plan_changes.serve(control)
        control.serve(Track, self._trackers.wake)
        control.serve(Profile, self._profiling.handle)

    def _make_checks(self) -> StepChecks | None:
        """Return the checks on copies of the training, which adapters make; None if none was asked for."""
        checks = make_checks(self.run, self.manifest, self.context, self.recorder.timeline.facts.__setitem__)
        if checks is not None:
            self._frameworks.check_steps(checks)
        return checks

    def _make_doctor_probe(self, control: ControlRequests) -> DoctorProbe | None:
        """Return the probe that records everything in a run of ``leadline doctor``."""
        if not os.path.exists(os.path.join(self.run, layout.DOCTOR)):
            return None
        from leadline.training.doctor.probe import DoctorProbe, read_order

        order = read_order(self.run)
        if order is None:
            return None
        return DoctorProbe(order, self.manifest.plan, self.context, self.recorder, self._frameworks, control)

    def _open_writer(self) -> Writer:
        from leadline.store.writer import Writer

        self._child_finalizer = _finalize_with_multiprocessing(self._close_in_child)
        self._oom_report.start()
        self._loggers.look_again()
        worker, before = self._fix_worker()
        self._continued = before
        self._exit_record = _open_exit_record(os.path.join(self.run, layout.worker_exit(worker)))
        if any(action.action == _TRACKER for action in self.manifest.actions):
            self._trackers.begin()
        plan = self.manifest.plan
        return Writer(
            self.run,
            worker,
            host_bytes=plan.host_bytes,
            disk_bytes=plan.disk_bytes,
            document=self._describe,
            guarded=self.guard.wrap,
            before_flush=self._before_flush,
            before=before,
            start=next(reversed(self.context.resumption.starts), None),
        )

    def _before_flush(self) -> None:
        """Make the deferred calls, in the writer's thread."""
        self.recorder.cost.writer_ns = time.thread_time_ns()
        self.guard.make_deferred()
        self.guard.run_if_free(self.recorder.complete_overdue_step)
        self.guard.run_if_free(self.recorder.rows.follow)

    def _fix_worker(self) -> tuple[str, WorkerDocument | None]:
        """Name the worker for good; return the name, and the last document of the one that it continues."""
        self.context.place()
        resumption = self.context.resumption
        rank = self._frameworks.rank()
        is_known = rank is not None or is_launched()
        continued = (
            resumption.claim_worker(rank_number(rank), self.node, is_known=is_known) if resumption.number else None
        )
        if continued is None:
            return self.context.fix_worker(), None
        return self.context.fix_worker(continued[0]), continued[1]

    def _describe(self) -> WorkerDocument:
        """Return the worker's document, without what the writer adds."""
        recorder, models, trainer = self.recorder, self.recorder.watched_models, self.trainer
        described = self._frameworks.describe()
        described["hyperparameters"] = trainer.hyperparameters | described.get("hyperparameters", {})
        return WorkerDocument(
            worker=self.context.worker,
            node=self.node,
            pid=self._pid,
            parent_pid=self._parent_pid,
            started_ns=self._started_ns,
            framework=self._frameworks.label(),
            models=tuple(model for model, _ in models),
            optimizers=tuple(optimizer for _, optimizer in models if optimizer),
            watching=described_plan(self.manifest.plan, self._frameworks.training_families),
            steps=dict(recorder.clock.finished),
            step=recorder.clock.step - 1,
            trainings=(*self._earlier_trainings(), *self.context.trainings[1:]),
            losses=dict(recorder.losses),
            time_ns=time.time_ns(),
            own_ns=recorder.cost.own_ns,
            compile_ns=recorder.cost.compile_ns,
            loop_ns=recorder.cost.loop_ns,
            start=None if recorder.budget is None else recorder.budget.start,
            sampled=recorder.budget.sampled(recorder.clock.finished) if recorder.budget is not None else (),
            costs=recorder.budget.costs() if recorder.budget is not None else (),
            off=self._disabled,
            error=_error(),
            notes=tuple(self.context.notes),
            facts=dict(recorder.timeline.facts),
            profiles=dict(self._profiling.outcomes),
            starts=self.context.resumption.starts,
            counted_before=self.context.resumption.counted_before,
            planned_steps=trainer.planned_steps,
            ends_own_loop=trainer.has_loop(),
            checkpoints=trainer.checkpoints,
            **described,
        )

    def _earlier_trainings(self) -> tuple[int, ...]:
        """Return where trainings begin that earlier incarnations of the worker have made before this one begins."""
        before = self._continued
        return () if before is None else tuple(s for s in before.trainings if s < self.recorder.clock.first_train_step)

    def _disable(self, failure: str) -> None:
        """Disable capture after a failure of ours."""
        self._disabled = DisabledCapture(self.context.train_step, failure)
        self._profiling.abandon()
        self._uninstall()
        try:
            self.recorder.open()
        except OSError:
            return  # already reported on standard error
        if self.context.writer is not None:
            self.context.writer.update_document()


def _open_exit_record(path: str) -> ExitRecord | None:
    from leadline.training.session.exit_record import ExitRecord

    try:
        return ExitRecord(path)
    except OSError:  # a full disk: the exit status remains unknown
        return None


def _error() -> str:
    if getattr(sys, "last_value", None) is None:
        return ""
    from leadline.instrumentation.uncaught import uncaught_exception  # compiles expressions, only where they are needed

    return uncaught_exception()


def _finalize_with_multiprocessing(close: Callable[[], object]) -> Any:
    """Call ``close`` at the end of a child process of multiprocessing, which exits without running atexit."""
    util, process = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None:
        return None
    return util.Finalize(None, close, exitpriority=-100)
