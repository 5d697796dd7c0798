"""What ``leadline doctor`` does inside a training: notes what is seen, finds what it would cost, and has it end."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import CodeType
from typing import Any, Final

from leadline.frameworks.scores import Scores
from leadline.records.plan import CapturePlan, is_of_family, item_from_dict
from leadline.records.request import Request
from leadline.store import layout
from leadline.store.control import new_request_id, read_requests, write_request
from leadline.store.documents import make_leaf, read_document, write_document
from leadline.training.doctor.cost_estimate import CostEstimator
from leadline.training.recorder.control_requests import ControlRequests
from leadline.training.recorder.step_recorder import Recorder

_MOST_BACKWARDS: Final = 200
"""So many backward passes without an optimizer's step, and none will come."""
_GRACE_SECONDS: Final = 10.0


class DoctorProbe:
    """Stands between an adapter and the recorder: passes every probe on, and notes it.

    At the end of the last step that was asked for it looks at what is alive, prices the plans of the order, writes
    its report, and asks the run to stop.

    Args:
        order: The document ``doctor.json`` of the run: ``steps`` and ``plans``, by label.
    """

    def __init__(
        self,
        order: Mapping[str, Any],
        run: str,
        plan: CapturePlan,
        recorder: Recorder,
        adapter: Any,
        control: ControlRequests,
    ) -> None:
        self._run, self._plan, self._control = run, plan, control
        self._recorder, self._adapter = recorder, adapter
        self._steps = int(order["steps"])
        self._orders = {label: [item_from_dict(each) for each in items] for label, items in order["plans"].items()}
        self._backwards = 0
        self._losses: dict[object, str | None] = {}
        self._optimizers: list[Any] = []
        self._ends: list[tuple[int, int]] = []
        """When each train step ended, and the own time until then."""
        self._prices: list[dict[str, Any]] = []
        self._base_ns: int | None = None
        self._problem: str | None = None
        self._is_done = False
        self._seen: dict[str, Any] = {}
        """What was alive when it was last looked."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorder, name)

    # --- probes -------------------------------------------------------------------------------------------

    def wants_loss(self) -> bool:
        self._backwards += 1
        if self._backwards == _MOST_BACKWARDS and not self._optimizers:
            self._finish()
        return self._recorder.wants_loss()

    def loss(self, site: object, value: float, name: str | None = None, marks: tuple[str, ...] = ()) -> None:
        self._losses.setdefault(site, name)
        self._recorder.loss(site, value, name, marks)

    def scores(self, scores: Scores, values: Sequence[float]) -> None:
        for each in scores:
            if each.is_loss:
                self._losses.setdefault(each.name, each.name)
        self._recorder.scores(scores, values)

    def plain_step(self, owner: object, scores: Scores, values: Sequence[float]) -> bool:
        """Every step is looked at."""
        return False

    def before_update(self, optimizer: Any) -> None:
        if not any(each is optimizer for each in self._optimizers):
            self._optimizers.append(optimizer)
        self._recorder.before_update(optimizer)

    def after_update(self, optimizer: Any, *, is_skipped: bool, is_part: bool = False) -> None:
        before = self._recorder.clock.mode_step("train")
        self._recorder.after_update(optimizer, is_skipped=is_skipped, is_part=is_part)
        ended = self._recorder.clock.mode_step("train")
        if ended > before and not self._is_done:
            if not self._seen:
                self._look()  # a script of one step has let go of everything when it ends
                self._report()  # and one that is too slow is ended by signals
            self._ends.append((time.perf_counter_ns(), self._recorder.cost.own_ns))
            if ended >= self._steps:
                self._appraise()
                self._finish()
                self._control.obey(ended - 1)

    # --- the end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The training ended by itself: say what was seen, if anything was."""
        if not self._is_done and (self._backwards or self._optimizers or self._recorder.clock.finished):
            self._is_done = True
            if not self._seen:
                self._look()
            self._report()

    def _look(self) -> None:
        uncovered = self._adapter.uncovered(self._optimizers, self._backwards)
        self._seen = {**self._adapter.survey(self._optimizers), "uncovered": uncovered}

    def _appraise(self) -> None:
        self._look()
        self._report()
        try:
            owner_last = [*self._optimizers[1:], *self._optimizers[:1]]
            appraiser = CostEstimator(self._adapter, owner_last, host_bytes=self._plan.host_bytes)
            self._base_ns = appraiser.base_ns()
            families = self._adapter.training_families
            self._prices = [
                asdict(appraiser.price(label, [each for each in items if is_of_family(each, families)]))
                for label, items in self._orders.items()
            ]
        except Exception as error:  # noqa: BLE001 - within the guard: what is known is told all the same
            self._problem = f"what it would cost could not be found: {type(error).__name__}: {error}"

    def _finish(self) -> None:
        self._is_done = True
        if not self._prices:
            self._look()
        self._report()
        if any(each.kind == "stop" for each in read_requests(self._run)):
            return
        step = self._recorder.clock.mode_step("train") + 1 if self._adapter.is_distributed() else None
        write_request(
            self._run,
            Request(
                new_request_id(),
                "stop",
                step=step,
                reason="the doctor has seen enough",
                by="doctor",
                time_ns=time.time_ns(),
                grace_seconds=_GRACE_SECONDS,
            ),
        )

    def _report(self) -> None:
        make_leaf(os.path.join(self._run, layout.DOCTOR_REPORTS))
        write_document(os.path.join(self._run, layout.doctor_report(str(os.getpid()))), self._document())

    def _document(self) -> dict[str, Any]:
        step_ns, forward_ns, accuracy_ns = self._times()
        return {
            "pid": os.getpid(),
            "rank": self._adapter.rank(),
            "framework": self._adapter.spoken(),
            "steps": dict(self._recorder.clock.finished),
            "backwards": self._backwards,
            **self._seen,
            "losses": self._places(),
            "step_ns": step_ns,
            "base_ns": self._base_ns,
            "forward_ns": forward_ns,
            "accuracy_ns": accuracy_ns,
            "prices": self._prices,
            "notes": [*self._recorder.notes, *([self._problem] if self._problem else [])],
        }

    def _places(self) -> list[dict[str, str]]:
        """Each loss with the place of its backward pass."""
        unnamed = iter([name for name in self._recorder.losses if name not in self._losses.values()])
        return [{"name": name or next(unnamed, "loss"), "place": _place(site)} for site, name in self._losses.items()]

    def _times(self) -> tuple[int | None, int | None, int | None]:
        """Of a step: its own length without ours; what capturing a forward pass takes of it, and what accuracy does.

        At the first step everything is captured, at the last losses and accuracy, at those between also what modules
        and functions take and give; the first is not counted, since much is made then.
        """
        spans = [
            (later[0] - earlier[0], later[1] - earlier[1])
            for earlier, later in zip(self._ends, self._ends[1:], strict=False)
        ]
        if not spans:
            return None, None, None
        own, base_ns = [ours for _, ours in spans], self._base_ns or 0
        forward_ns = min(own[:-1], default=None)
        return (
            min(span - ours if ours < span else span for span, ours in spans),
            None if forward_ns is None else max(forward_ns - base_ns, 0),
            max(own[-1] - base_ns, 0),
        )


def _place(site: object) -> str:
    match site:
        case (CodeType() as code, int(line)):
            short = os.path.relpath(code.co_filename)
            return f"{code.co_filename if short.startswith(os.pardir) else short}:{line}"
        case str():
            return "of an evaluation set"  # or of the script's own hook
    return "somewhere"


def order_of(run: str) -> dict[str, Any] | None:
    """What a doctor's run is asked to find out; None: it is no doctor's."""
    found = read_document(os.path.join(run, layout.DOCTOR))
    return found if isinstance(found, dict) else None
