"""The checks of a training process: at which steps a copy of it is tested, and what is recorded of the results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Protocol, cast

from leadline.instrumentation.guard import Fact, failure_of
from leadline.instrumentation.step_context import StepContext
from leadline.records.check_result import PROBES, CheckOrder, CheckResult
from leadline.records.json_object import JsonObject
from leadline.records.manifest import Manifest
from leadline.records.request import Stop
from leadline.store import layout
from leadline.store.control import new_request_id, read_requests, write_request
from leadline.store.documents import make_subfolder, read_document, write_document

CHECKED_STEPS: Final = (2, 101, 501)
"""The train steps that are checked beside a training, counted from 0: none at which the presets capture tensors."""
SKIPPED_IN_PLACE: Final = 101
"""The one that is left out where the training waits for its probes."""
LEAST_SECONDS: Final = 5.0
"""The least processor time of a check beside a training."""
_SHARE: Final = 0.01
"""Of the time since the training began, which may exceed that."""
_WALL_OF_ORDER, _WALL_BESIDE = 3.0, 12.0
"""The time on the clock, as a multiple of the processor time, while the training waits for the copy and while it goes
on: then the low priority of the copy leaves it a part of a core on a busy machine."""
_WAITING_BESIDE: Final = 6.0
"""The same for a training that is tested in its own process."""
_MOST_COPIES: Final = 2
"""Copies under test at one time: a short training is over before the first one is tested."""
_GRACE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The time that all probes of a check have, in seconds."""

    processor: float
    """Of the processor, if the copy is a process of its own."""
    wall: float
    """On the clock, if it is."""
    waiting: float
    """On the clock, if the training itself is tested and waits."""
    is_beside: bool = False
    """Whether the training goes on meanwhile: the copy has the lowest priority then."""

    @classmethod
    def of_order(cls, seconds: float) -> TimeLimit:
        """Return the limit of ``leadline check``."""
        return cls(seconds, _WALL_OF_ORDER * seconds, seconds)

    @classmethod
    def beside(cls, trained_seconds: float) -> TimeLimit:
        """Return the limit beside a training that has taken so many seconds so far."""
        seconds = max(LEAST_SECONDS, _SHARE * trained_seconds)
        return cls(seconds, _WALL_BESIDE * seconds, _WAITING_BESIDE * seconds, is_beside=True)


class CopyUnderTest(Protocol):
    """A copy of the training, in which probes run.

    Attributes:
        is_in_place: Whether it is within the process of the training, which waits for it.
    """

    is_in_place: bool

    def start(self, probes: Sequence[str], limit: TimeLimit) -> None:
        """Make the copy, and begin the probes."""

    def results(self, *, waits: bool) -> list[CheckResult] | None:
        """Return the results; None: they are not complete yet.

        Args:
            waits: Whether to wait for them, until the time limit at most.
        """


class StepChecks:
    """The steps to check, and the checks that run.

    Args:
        probes: The names of the probes to make.
        order: The document ``check.json`` of ``leadline check``; None: the training is checked while it runs.
        fact: What a failure of ours ends.
        record: Takes the facts of the worker's document.
    """

    def __init__(
        self,
        probes: Sequence[str],
        order: CheckOrder | None,
        context: StepContext,
        fact: Fact,
        record: Callable[[str, object], None],
    ) -> None:
        self.fact = fact
        self._probes, self._context, self._record = tuple(probes), context, record
        self._waits = order is not None
        self._ends = bool(order and order["ends"])
        self._seconds = float(order["seconds"]) if order else 0.0
        self._steps = [int(order["step"])] if order else list(CHECKED_STEPS)
        self._running: list[CopyUnderTest] = []
        self._results: dict[str, CheckResult] = {}
        self._began = time.monotonic()
        self._has_trained = False

    def checks_step(self, step: int) -> bool:
        """Return whether the step that begins is to be checked."""
        self._has_trained = True
        return bool(self._steps) and len(self._running) < _MOST_COPIES and step >= self._steps[0]

    def begin(self, copy: CopyUnderTest, step: int) -> None:
        """Check a copy of the training: wait for the results where ``leadline check`` has asked for them."""
        skipped = SKIPPED_IN_PLACE if copy.is_in_place else None
        self._steps = [later for later in self._steps if later > step and later != skipped]
        beside = TimeLimit.beside(time.monotonic() - self._began)
        limit = TimeLimit.of_order(self._seconds) if self._waits else beside
        if failure := failure_of(copy.start, self._probes, limit):
            self.refuse(f"a copy of the training could not be made: {failure}", step)
            return
        self._running.append(copy)
        if self._waits:
            self._collect(waits=True)
            if self._ends:
                self._stop()

    def refuse(self, why: str, step: int) -> None:
        """Record that a step cannot be checked, and end the training where ``leadline check`` has asked for it."""
        self._steps = [later for later in self._steps if later > step]
        now_ns = time.time_ns()
        self._keep([CheckResult(probe, "not applicable", why, step, time_ns=now_ns) for probe in self._probes])
        if self._ends:
            self._stop()

    def poll(self) -> None:
        """Record the results of checks that have ended."""
        if self._running:
            self._collect(waits=False)

    def close(self) -> None:
        """Record the results of the checks under way; wait for each until its time limit."""
        self._collect(waits=True)
        if self._waits and not self._results:
            why = "the training ended before the step that was to be checked"
            if not self._has_trained:
                why = "no train step was seen"
            self.refuse(why, self._steps[0] if self._steps else 0)

    def _collect(self, *, waits: bool) -> None:
        for copy in list(self._running):
            results = copy.results(waits=waits)
            if results is not None:
                self._running.remove(copy)
                self._keep(results)

    def _keep(self, results: Sequence[CheckResult]) -> None:
        """Record results; a failure stays, and of the others the one of the later step that could be decided."""
        for result in results:
            before = self._results.get(result.probe)
            if before is None or _replaces(result, before):
                self._results[result.probe] = result
        self._record("checks", {name: _without_evidence(result) for name, result in self._results.items()})
        folder = os.path.join(self._context.run, layout.CHECKS)
        make_subfolder(folder)
        document = {"checks": [asdict(self._results[probe]) for probe in PROBES if probe in self._results]}
        write_document(os.path.join(self._context.run, layout.check_report(self._context.worker)), document)

    def _stop(self) -> None:
        run = self._context.run
        if any(isinstance(request, Stop) for request in read_requests(run)):
            return
        write_request(
            run,
            Stop(
                new_request_id(),
                step=None,
                reason="leadline check is done",
                by="check",
                time_ns=time.time_ns(),
                grace_seconds=_GRACE_SECONDS,
            ),
        )


def _replaces(result: CheckResult, before: CheckResult) -> bool:
    if before.outcome == "not applicable" or result.outcome == "failed":
        return True
    return result.outcome == before.outcome == "passed" and result.step > before.step


def _without_evidence(result: CheckResult) -> JsonObject:
    return {key: value for key, value in asdict(result).items() if key != "evidence"}


def make_checks(
    run: str, manifest: Manifest, context: StepContext, record: Callable[[str, object], None]
) -> StepChecks | None:
    """Return the checks of a run; None if it has no order for them, and none of its rules is about one."""
    path = os.path.join(run, layout.CHECK)
    document = read_document(path) if os.path.exists(path) else None
    order = cast(CheckOrder, document) if isinstance(document, dict) else None
    rules = {spec.rule for spec in manifest.rules}
    probes = order["probes"] if order else [probe for probe in PROBES if probe in rules]
    if not probes:
        return None
    return StepChecks(probes, order, context, context.facts.of("checks on a copy of the training are"), record)
