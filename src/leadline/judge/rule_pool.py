"""The rule workers of a judge: started, asked, and replaced when a rule brings one down."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from leadline.judge.rule_worker import OUT_OF_MEMORY
from leadline.judge.worker_processes import WorkerProcess, WorkerProcesses
from leadline.records.manifest import Manifest, RuleSpec
from leadline.rules.registry import BUILT_IN

HANG_SECONDS: Final = 30.0
START_SECONDS: Final = 120.0
MEMORY_BYTES: Final = 2 << 30
_MOST_FALLS: Final = 3
"""How often a worker may fall without a rule being to blame."""
_STARVED: Final = "it wanted more memory than rules may take"


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What a rule may take."""

    hang_seconds: float = HANG_SECONDS
    """For thinking about one step."""
    memory_bytes: int = MEMORY_BYTES
    """Beyond what its worker takes before the rule is made."""
    start_seconds: float = START_SECONDS
    """For being imported and made, and for reading what is to be judged."""


class RuleProcess:
    """One rule worker and the rules in it.

    Attributes:
        is_finished: It judged the last of a run that is over, or has no rule that can be judged.
        described: What it said of its rules when it was ready, by alias.
    """

    def __init__(
        self,
        run: str,
        manifest: Manifest,
        specs: Iterable[RuleSpec],
        limits: WorkerLimits,
        blame: Callable[[str, str], None],
        seats: WorkerProcesses | None = None,
    ) -> None:
        self.specs = list(specs)
        self._kind = tuple((spec.rule, spec.folder) for spec in self.specs if spec.rule not in BUILT_IN)
        self._seats = seats or WorkerProcesses()
        self.is_finished = not self.specs
        self.described: dict[str, dict[str, Any]] = {}
        self._run, self._name, self._started_ns = run, manifest.name, manifest.started_ns
        self._limits, self._blame = limits, blame
        self._falls = 0
        self._is_busy = False
        self._is_ready = False
        self._was_over = self._is_whole = False
        self._is_wanted = True
        self._seat: WorkerProcess | None = None
        self._progress_at = (0, 0.0)

    @property
    def descriptor(self) -> int:
        """What becomes readable when it answers."""
        return self._seated.descriptor

    @property
    def _seated(self) -> WorkerProcess:
        assert self._seat is not None
        return self._seat

    def start(self, *, is_over: bool) -> None:
        """Take a process, and give it its rules.

        Args:
            is_over: The run is judged as it stands.
        """
        self._is_whole = is_over
        self._seat = self._seats.take(self._kind)
        self._is_busy = self._is_ready = False
        rules = [asdict(spec) for spec in self.specs]
        order = {"run": self._run, "name": self._name, "started_ns": self._started_ns, "rules": rules}
        order["is_over"] = is_over
        self._send({**order, "is_custom": bool(self._kind), "memory_bytes": self._limits.memory_bytes})

    def want(self) -> None:
        """There is something new to judge."""
        self._is_wanted = True

    def ask(self, *, is_over: bool, gone: Collection[str]) -> None:
        """Let it judge, if it is idle and there is something to judge."""
        if self._is_busy or self.is_finished or not self._is_wanted:
            return
        self._is_busy, self._is_wanted, self._was_over = True, False, is_over
        self._progress_at = (-1, time.monotonic())
        self._send({"is_over": is_over, "gone": sorted(gone)})

    def receive(self) -> list[dict[str, Any]]:
        """Its answers; when it has fallen it is replaced, and none come."""
        answers = self._seated.receive()
        if self._seated.has_fallen:
            self._fallen(self._how_it_ended())
            return []
        if answers and not self._is_ready:
            self._is_ready, self._progress_at = True, (-1, time.monotonic())
            self.described, *answers = answers[0]["rules"], *answers[1:]
            self.is_finished = all("error" in each for each in self.described.values())
        for answer in answers:
            self._is_busy = False
            self._is_wanted = self._is_wanted or bool(answer["has_more"])
            self.is_finished = self._was_over and not answer["has_more"]
        return answers

    def check_hang(self) -> None:
        """Replace it when the rule that is being asked has not answered for too long."""
        if not self._is_busy:
            return
        (asked, place), now = self._seated.slate.read(), time.monotonic()
        is_judging = place >= 0 and self._is_ready
        limit = self._limits.hang_seconds if is_judging else max(self._limits.start_seconds, self._limits.hang_seconds)
        if asked != self._progress_at[0]:
            self._progress_at = (asked, now)
        elif now - self._progress_at[1] > limit:
            self._fallen(f"gave no answer for {limit:g} s")

    def close(self) -> None:
        """Leave the process, to the next run where it has done all that it was asked; else end it."""
        seat, self._seat = self._seat, None
        if seat is None:
            return
        if self._is_ready and not self._is_busy and not seat.has_fallen:
            self._seats.give_back(self._kind, seat)
        else:
            self._seats.remove(seat)

    def _fallen(self, how: str) -> None:
        place = self._seated.slate.read()[1]
        if how == _STARVED and len(self.specs) == 1:
            place = 0
        self._seats.remove(self._seated)
        self._seat = None
        if 0 <= place < len(self.specs):
            culprits = [self.specs.pop(place)]
        else:
            self._falls += 1
            culprits = self.specs if self._falls > _MOST_FALLS else []
            self.specs = [] if culprits else self.specs
        for each in culprits:
            self._blame(each.alias, how)
        self.is_finished, self._is_busy, self._is_wanted = not self.specs, False, True
        if self.specs:
            self.start(is_over=self._is_whole)

    def _how_it_ended(self) -> str:
        status = self._seated.wait()
        if status == OUT_OF_MEMORY:
            return _STARVED
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}"
        return f"its process ended with status {status}"

    def _send(self, message: Any) -> None:
        try:
            self._seated.send(message)
        except BrokenPipeError:
            self._is_busy = True


def gather(specs: Iterable[RuleSpec]) -> list[list[RuleSpec]]:
    """Which rules share a process: the built-in ones one, each other one its own."""
    built_in = [spec for spec in specs if spec.rule in BUILT_IN]
    others = [[spec] for spec in specs if spec.rule not in BUILT_IN]
    return [*([built_in] if built_in else []), *others]
