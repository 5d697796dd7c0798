"""The rule workers of a judge: started, asked, and replaced when a rule brings one down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from leadline.judge import pipe
from leadline.judge.slate import Slate
from leadline.judge.worker import OUT_OF_MEMORY
from leadline.records.manifest import Manifest, RuleSpec
from leadline.rules.registry import BUILT_IN

HANG_SECONDS: Final = 30.0
START_SECONDS: Final = 120.0
MEMORY_BYTES: Final = 2 << 30
_MOST_FALLS: Final = 3
"""How often a worker may fall without a rule being to blame."""
_STARVED: Final = "it wanted more memory than rules may take"
_QUIET: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                 "MALLOC_ARENA_MAX": "2"}  # fmt: skip
"""What keeps a worker's address space near what it uses, so that its bound means something."""


@dataclass(frozen=True, slots=True)
class Limits:
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
        self, run: str, manifest: Manifest, specs: Iterable[RuleSpec], limits: Limits, blame: Callable[[str, str], None]
    ) -> None:  # fmt: skip
        self.specs = list(specs)
        self.is_finished = not self.specs
        self.described: dict[str, dict[str, Any]] = {}
        self._run, self._name, self._started_ns = run, manifest.name, manifest.started_ns
        self._limits, self._blame = limits, blame
        self._falls = 0
        self._is_busy = False
        self._is_ready = False
        self._was_over = False
        self._is_wanted = True
        self._process: subprocess.Popen[bytes] | None = None
        self._progress_at = (0, 0.0)

    @property
    def descriptor(self) -> int:
        """What becomes readable when it answers."""
        return self._inbox.descriptor

    def start(self) -> None:
        """Start the process and give it its rules."""
        command_read, command_write = os.pipe()
        answer_read, answer_write = os.pipe()
        self._slate = Slate()
        passed = (command_read, answer_write, self._slate.descriptor)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "leadline.judge.worker", *map(str, passed)],
            stdin=subprocess.DEVNULL, stdout=2, pass_fds=passed, env=os.environ | _QUIET,
        )  # fmt: skip
        os.close(command_read)
        os.close(answer_write)
        self._command, self._inbox = command_write, pipe.Inbox(answer_read)
        self._is_busy = self._is_ready = False
        rules = [asdict(spec) for spec in self.specs]
        is_custom = any(spec.rule not in BUILT_IN for spec in self.specs)
        order = {"run": self._run, "name": self._name, "started_ns": self._started_ns, "rules": rules}
        self._send({**order, "is_custom": is_custom, "memory_bytes": self._limits.memory_bytes})

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
        answers = self._inbox.receive()
        if self._inbox.is_closed:
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
        (asked, place), now = self._slate.read(), time.monotonic()
        is_judging = place >= 0 and self._is_ready
        limit = self._limits.hang_seconds if is_judging else max(self._limits.start_seconds, self._limits.hang_seconds)
        if asked != self._progress_at[0]:
            self._progress_at = (asked, now)
        elif now - self._progress_at[1] > limit:
            self._kill()
            self._fallen(f"gave no answer for {limit:g} s")

    def close(self) -> None:
        """End it."""
        if self._process is None:
            return
        self._kill()
        os.close(self._command)
        os.close(self._inbox.descriptor)
        self._slate.close()
        self._process = None

    def _fallen(self, how: str) -> None:
        place = self._slate.read()[1]
        if how == _STARVED and len(self.specs) == 1:
            place = 0
        self.close()
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
            self.start()

    def _how_it_ended(self) -> str:
        assert self._process is not None
        status = self._process.wait()
        if status == OUT_OF_MEMORY:
            return _STARVED
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}"
        return f"its process ended with status {status}"

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _send(self, message: Any) -> None:
        try:
            pipe.send(self._command, message)
        except BrokenPipeError:
            self._is_busy = True


def gather(specs: Iterable[RuleSpec]) -> list[list[RuleSpec]]:
    """Which rules share a process: the built-in ones one, each other one its own."""
    built_in = [spec for spec in specs if spec.rule in BUILT_IN]
    others = [[spec] for spec in specs if spec.rule not in BUILT_IN]
    return [*([built_in] if built_in else []), *others]
