"""The probe of ``leadline doctor`` inside a training: records what happens, estimates costs, and stops the run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from statistics import median
from types import CodeType
from typing import Any, Final, cast

from leadline.frameworks.adapter import Score
from leadline.frameworks.call_site import CallSite
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.instrumentation.step_context import StepContext
from leadline.records.doctor_report import DoctorOrder, DoctorReport, Inventory, LossOrigin, PlanPrice, UncapturedEntry
from leadline.records.plan import CaptureItem, CapturePlan, may_select_family
from leadline.records.request import Stop
from leadline.store import layout
from leadline.store.control import new_request_id, read_requests, write_request
from leadline.store.documents import make_subfolder, read_document, write_document
from leadline.training.doctor.cost_estimate import CostEstimator
from leadline.training.recorder.budget import CAPTURES_SHARE
from leadline.training.recorder.control_requests import ControlRequests
from leadline.training.recorder.step_recorder import StepRecorder

_MAX_BACKWARDS: Final = 200
"""After this many backward passes without a step of an optimizer none is expected any more."""
_GRACE_SECONDS: Final = 10.0
_OVERLOAD: Final = 1.5
"""Processes that are ready to run for each processor, above which steps take much longer than they need to."""
_TYPICAL_SHARE: Final = 0.5
"""A step of which Leadline took less than this share tells how long a step takes."""


class DoctorProbe:
    """See ``leadline.frameworks.adapter.StepCallbacks``: passes every call on to the recorder, and takes notes.

    At the end of the last requested step it takes an inventory, estimates the cost of the requested plans, writes its
    report, and requests the run to stop.

    Args:
        order: The document ``doctor.json`` of the run: the least number of ``steps``, further ones (``most_steps``)
            until these have taken so many ``seconds``, and ``plans`` by label.
    """

    def __init__(
        self,
        order: DoctorOrder,
        plan: CapturePlan,
        context: StepContext,
        recorder: StepRecorder,
        frameworks: LoadedAdapters,
        control: ControlRequests,
    ) -> None:
        self._plan, self._context, self._control = plan, context, control
        self._recorder, self._frameworks = recorder, frameworks
        self._steps, self._most_steps = int(order["steps"]), int(order["most_steps"])
        self._patience_ns = int(1e9 * order["seconds"])
        self._plans = {label: list(map(CaptureItem.from_dict, items)) for label, items in order["plans"].items()}
        self._backwards = 0
        self._losses: dict[object, str | None] = {}
        self._optimizers: list[Any] = []
        self._step_ends: list[tuple[int, int]] = []
        """When each train step ended, and the overhead until then."""
        self._prices: list[PlanPrice] = []
        self._base_ns: int | None = None
        self._problem: str | None = None
        self._is_done = False
        self._inventory: Inventory | None = None
        """The latest inventory, as is the next one."""
        self._uncovered: list[UncapturedEntry] = []
        self.timeline, self.listener, self.evaluation = recorder.timeline, recorder.listener, recorder.evaluation
        self.cost, self.deferred, self.facts = recorder.cost, recorder.deferred, recorder.facts
        self.has_request, self.ends_steps = recorder.has_request, recorder.ends_steps
        self.after_loss_only_update = recorder.after_loss_only_update
        self.wants_gradient_norms, self.wants_checks = recorder.wants_gradient_norms, recorder.wants_checks
        self.captures_checks, self.record_checks = recorder.captures_checks, recorder.record_checks
        self.has_loss_facts, self.loss_facts_step = recorder.has_loss_facts, recorder.loss_facts_step
        self.items_within = recorder.items_within
        self.log, self.record_event, self.note = recorder.log, recorder.record_event, recorder.note
        self.capture_last_step, self.given = recorder.capture_last_step, recorder.given
        self.begin_another_training = recorder.begin_another_training
        self.begin_training, self.end_training = recorder.begin_training, recorder.end_training

    # --- callbacks ----------------------------------------------------------------------------------------

    def wants_loss(self) -> bool:
        self._backwards += 1
        if self._backwards == _MAX_BACKWARDS and not self._optimizers:
            self._finish()
        return self._recorder.wants_loss()

    def record_loss(self, site: object, value: object, name: str | None = None, marks: tuple[str, ...] = ()) -> None:
        self._losses.setdefault(site, name)
        self._recorder.record_loss(site, value, name, marks)

    def record_scores(self, scores: Sequence[Score]) -> None:
        for score in scores:
            if score.is_loss:
                self._losses.setdefault(score.name, score.name)
        self._recorder.record_scores(scores)

    def before_update(self, optimizer: Any) -> None:
        if not any(known is optimizer for known in self._optimizers):
            self._optimizers.append(optimizer)
        self._recorder.before_update(optimizer)

    def defer_loss_only_steps(self) -> None:
        """Defer nothing: each call is seen when it is made."""

    def after_update(self, optimizer: Any, *, is_skipped: Any, is_part: bool = False) -> None:
        clock = self._recorder.clock
        before = clock.mode_step("train")
        self._recorder.after_update(optimizer, is_skipped=is_skipped, is_part=is_part)
        steps = clock.mode_step("train")
        if steps > before and not self._is_done:
            if not self._inventory:
                self._take_inventory()  # a script of one step has released everything when it ends
                self._write_report()  # and a script that is too slow is ended by signals
            self._step_ends.append((time.perf_counter_ns(), self._recorder.cost.own_ns))
            if self._has_seen_enough(steps):
                self._estimate_costs()
                self._finish()
                self._control.handle_pending(steps - 1)

    def _has_seen_enough(self, steps: int) -> bool:
        if steps < self._steps or steps >= self._most_steps or self._frameworks.is_distributed():
            return steps >= self._steps  # ranks measure at the same step
        return self._step_ends[-1][0] - self._step_ends[0][0] >= self._patience_ns

    # --- the report ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write the report of a training that ended by itself, if it did anything, or something is not captured."""
        did_anything = self._backwards or self._optimizers or self._recorder.clock.finished or self._context.notes
        if not self._is_done and did_anything:
            self._is_done = True
            if not self._inventory:
                self._take_inventory()
            self._write_report()

    def _take_inventory(self) -> None:
        inventory, uncovered = _nothing(), list[UncapturedEntry]()
        for adapter, optimizers in self._frameworks.diagnosing(self._optimizers):
            found = adapter.inventory(optimizers)
            inventory["models"] += found["models"]
            inventory["optimizers"] += found["optimizers"]
            inventory["module_kinds"] += found["module_kinds"]
            if optimizers or not self._optimizers:
                uncovered += adapter.coverage_gaps(optimizers, self._backwards)
        self._inventory, self._uncovered = inventory, uncovered

    def _estimate_costs(self) -> None:
        self._take_inventory()
        self._write_report()
        try:
            owner_last = [*self._optimizers[1:], *self._optimizers[:1]]
            estimator = CostEstimator(self._frameworks, owner_last, host_bytes=self._plan.host_bytes)
            self._base_ns = estimator.base_ns()
            families = self._frameworks.training_families
            self._prices = [
                estimator.price(label, [item for item in items if may_select_family(item, families)])
                for label, items in self._plans.items()
            ]
        except Exception as error:  # noqa: BLE001 - within the guard: the rest of the report is written all the same
            from leadline.config.secrets import scrub

            self._problem = f"the cost estimate failed: {type(error).__name__}: {scrub(str(error))}"

    def _finish(self) -> None:
        self._is_done = True
        if not self._prices:
            self._take_inventory()
        self._write_report()
        run = self._context.run
        if any(isinstance(request, Stop) for request in read_requests(run)):
            return
        step = self._recorder.clock.mode_step("train") + 1 if self._frameworks.is_distributed() else None
        write_request(
            run,
            Stop(
                new_request_id(),
                step=step,
                reason="leadline doctor is done",
                by="doctor",
                time_ns=time.time_ns(),
                grace_seconds=_GRACE_SECONDS,
            ),
        )

    def _write_report(self) -> None:
        run = self._context.run
        make_subfolder(os.path.join(run, layout.DOCTOR_REPORTS))
        write_document(os.path.join(run, layout.doctor_report(str(os.getpid()))), self._report())

    def _report(self) -> DoctorReport:
        step_ns, forward_ns, accuracy_ns = self._times()
        return {
            "pid": os.getpid(),
            "rank": self._frameworks.rank(),
            "framework": self._frameworks.label(),
            "steps": dict(self._recorder.clock.finished),
            "backwards": self._backwards,
            **(self._inventory or _nothing()),
            "uncovered": self._uncovered,
            "losses": self._loss_places(),
            "step_ns": step_ns,
            "is_overloaded": os.getloadavg()[0] > _OVERLOAD * len(os.sched_getaffinity(0)),
            "captures_share": CAPTURES_SHARE,
            "steps_measured": max(len(self._step_ends) - 1, 0),
            "once_ns": self._step_ends[0][1] + self._recorder.cost.compile_ns if self._step_ends else None,
            "base_ns": self._base_ns,
            "forward_ns": forward_ns,
            "accuracy_ns": accuracy_ns,
            "prices": self._prices,
            "notes": [*self._context.notes, *([self._problem] if self._problem else [])],
        }

    def _loss_places(self) -> list[LossOrigin]:
        """Return each loss with the place of its backward pass."""
        unnamed = iter([name for name in self._recorder.losses if name not in self._losses.values()])
        return [{"name": name or next(unnamed, "loss"), "place": _place(site)} for site, name in self._losses.items()]

    def _times(self) -> tuple[int | None, int | None, int | None]:
        """Return the step time without overhead, and the cost per step of capturing forward passes and accuracy.

        The first step captures everything and is not counted: much is built then. Of the others every second one
        captures the inputs and outputs of modules and functions, the others losses and accuracy alone. The least cost
        of each kind counts, as the first ones of a kind also build something; of the step times, the median.
        """
        spans = [
            (later[0] - earlier[0], later[1] - earlier[1])
            for earlier, later in zip(self._step_ends, self._step_ends[1:], strict=False)
        ]
        if not spans:
            return None, None, None
        base_ns = self._base_ns or 0
        accuracy_ns = min(own_ns for _, own_ns in spans[::2])
        forward_ns = min((own_ns for _, own_ns in spans[1::2]), default=None)
        typical = [span - own_ns for span, own_ns in spans if own_ns < _TYPICAL_SHARE * span]
        return (
            int(median(typical or [span for span, _ in spans])),
            None if forward_ns is None else max(forward_ns - base_ns, 0),
            max(accuracy_ns - base_ns, 0),
        )


def _nothing() -> Inventory:
    return {"models": [], "optimizers": [], "module_kinds": []}


def _place(site: object) -> str:
    match site:
        case CallSite():
            return _line(site.code, site.line)
        case (CodeType() as code, int() as line):
            return _line(code, line)
        case (function, int()) if isinstance(code_of := getattr(function, "code", None), CodeType):
            return _line(code_of, code_of.co_firstlineno)
        case str():
            return "of an evaluation set"  # or logged through the script's own hook
    return "unknown place"


def _line(code: CodeType, line: int) -> str:
    relative = os.path.relpath(code.co_filename)
    return f"{code.co_filename if relative.startswith(os.pardir) else relative}:{line}"


def read_order(run: str) -> DoctorOrder | None:
    """Return the order of ``leadline doctor``; None if the run is not one of it."""
    order = read_document(os.path.join(run, layout.DOCTOR))
    return cast(DoctorOrder, order) if isinstance(order, dict) else None
