"""Doing what a run asks to be done about findings, once each."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leadline.actions.action import Action, Occasion, Outcome, Progress
from leadline.actions.registry import canonical, make_action
from leadline.errors import LeadlineError
from leadline.records.finding import Finding
from leadline.records.manifest import ActionSpec
from leadline.store import layout
from leadline.store.documents import append_line, read_lines

_PACE_POINTS = 16
_LOG = logging.getLogger(__name__)


class Pace:
    """How far each worker is, and how fast it goes."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[int, int]]] = {}

    def see(self, seen: Mapping[str, Sequence[int]]) -> None:
        """Take in the last step known of each worker, and its time."""
        for worker, (step, time_ns) in seen.items():
            points = self._points.setdefault(worker, deque(maxlen=_PACE_POINTS))
            if not points or points[-1][0] < step:
                points.append((step, time_ns))

    def progress(self, workers: Mapping[str, Mapping[str, Any]], gone: Iterable[str]) -> tuple[Progress, ...]:
        """How far those are that still run; their own documents may know of a later step than their streams."""
        running = (set(workers) | set(self._points)) - set(gone)
        return tuple(self._of(worker, workers.get(worker, {})) for worker in sorted(running))

    def _of(self, worker: str, document: Mapping[str, Any]) -> Progress:
        points = self._points.get(worker) or deque([(-1, 0)])
        (first, first_ns), (last, last_ns) = points[0], points[-1]
        seconds = (last_ns - first_ns) / 1e9 / (last - first) if last > first else 0.0
        said = (int(document.get("step", -1)), int(document.get("time_ns", 0)))
        step, time_ns = max((last, last_ns), said)
        return Progress(worker, step, time_ns, max(0.0, seconds))


class Acting:
    """The actions of a run."""

    def __init__(self, run: str, actions: Iterable[ActionSpec]) -> None:
        self._run = run
        self._actions = tuple(actions)
        self._path = os.path.join(run, layout.ACTIONS)
        self._unwritten: list[dict[str, Any]] = []
        self._done = {(each["rule"], each["action"], each.get("finding")) for each in read_lines(self._path)}

    def follow(
        self, finding: Finding, *, implied: Iterable[str], workers: tuple[Progress, ...], is_over: bool
    ) -> str | None:  # fmt: skip
        """Do what follows a finding that opened; what the terminal shall say of it.

        An action that a judge before this one did is not done again: a finding is known by the step at which it
        opened, which is the same whoever judges.
        """
        told = None
        specs = [each for each in self._actions if each.rule in ("*", finding.rule) and each.status == "IssuesFound"]
        named = {canonical(each.action) for each in specs}
        specs += [ActionSpec(finding.rule, each) for each in implied if each not in named]
        for spec in specs:
            action = canonical(spec.action)
            if (finding.rule, action, finding.step) in self._done:
                continue
            self._done.add((finding.rule, action, finding.step))
            occasion = Occasion(self._run, finding, workers, time.time_ns())
            outcome = Outcome("too late: the run had ended") if is_over else self._run_action(spec, occasion)
            self._write(spec, finding, outcome, occasion.now_ns)
            told = outcome.announcement or told
        return told

    def _run_action(self, spec: ActionSpec, occasion: Occasion) -> Outcome:
        """The boundary "action runner": an action that fails is written down, and judging goes on."""
        try:
            action: Action = make_action(spec.action, spec.parameters)
            return action.run(occasion)
        except LeadlineError as error:
            return Outcome(f"failed: {error}")
        except Exception as error:  # noqa: BLE001
            return Outcome(f"failed: {type(error).__name__}: {error}")

    def _write(self, spec: ActionSpec, finding: Finding, outcome: Outcome, now_ns: int) -> None:
        line = {
            "rule": finding.rule, "action": canonical(spec.action), "outcome": outcome.outcome, "time_ns": now_ns,
            "step": outcome.step, "request": outcome.request, "finding": finding.step,
        }  # fmt: skip
        self._unwritten.append(line)
        self.write()

    def write(self) -> None:
        """Write down what was done; what the disk refuses is kept for the next call."""
        try:
            while self._unwritten:
                append_line(self._path, self._unwritten[0])
                del self._unwritten[0]
        except OSError as error:
            _LOG.info("actions.jsonl could not be written; it is tried again: %s", error)
