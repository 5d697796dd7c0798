"""The copy of a training that is checked: a forked process with one thread, which ends by itself."""

from __future__ import annotations

import gc
import json
import math
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch

from leadline.frameworks.check.memory import COPIES, lack_of_memory
from leadline.frameworks.check.outcome import without_results
from leadline.frameworks.torch.check.host_copy import HostCopy, needed_bytes
from leadline.frameworks.torch.check.step_tape import StepTape
from leadline.instrumentation.check import TimeLimit
from leadline.instrumentation.forking import making_copy
from leadline.instrumentation.guard import describe_error
from leadline.records.check_result import CheckResult

_NICE: Final = 19
_CHUNK: Final = 1 << 16
_GRACE_SECONDS: Final = 2.0
"""How long the copy may still take to end after its time limit before it is killed."""


@dataclass(slots=True)
class Copied:
    """What the copy is to test."""

    tape: StepTape
    optimizer: Any
    others: tuple[Any, ...]
    """The other optimizers that have stepped."""
    step: int
    is_moved: bool = False
    """Whether its tensors were on an accelerator."""


class ForkedCheck:
    """See ``leadline.instrumentation.check.CopyUnderTest``.

    **A grandchild** - the process that waits for its children, as scripts may, never sees it.

    **Without Leadline** - a forked child removes all hooks, and gets no session.

    **Ends by itself** - the kernel ends it by SIGPROF or SIGALRM at its limits of processor time and time on the clock,
    whatever it does then; it is the first that the kernel ends if memory runs out.
    """

    is_in_place = False

    def __init__(self, copied: Copied) -> None:
        self._copied: Copied | None = copied
        self._step = copied.step
        self._probes: tuple[str, ...] = ()
        self._problem = ""
        self._reading = -1
        self._received = b""
        self._began = 0.0
        self._limit = TimeLimit(0.0, 0.0, 0.0)
        self._pid = 0

    def start(self, probes: Sequence[str], limit: TimeLimit) -> None:
        copied, self._copied = self._copied, None
        assert copied is not None
        self._probes, self._limit, self._began = tuple(probes), limit, time.monotonic()
        self._problem = copied.tape.problem or _obstacle(copied)
        if self._problem:
            return
        host = HostCopy(copied.tape, copied.optimizer)
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        with making_copy(), _without_child_signals():
            child = os.fork()
            if child == 0:
                _become_copy(copied, host, self._probes, limit, writing)
            with suppress(ChildProcessError):  # the script ignores SIGCHLD: the kernel has waited
                os.waitpid(child, 0)
        os.close(writing)

    def results(self, *, waits: bool) -> list[CheckResult] | None:
        if self._problem:
            return self._without(self._problem, ())
        end = self._began + self._limit.wall + _GRACE_SECONDS
        while True:
            patience = max(end - time.monotonic(), 0.0) if waits else 0.0
            if not select.select([self._reading], [], [], patience)[0]:
                if time.monotonic() < end:
                    return None
                break
            data = os.read(self._reading, _CHUNK)
            if not data:
                break
            self._received += data
        os.close(self._reading)
        return self._complete()

    def _complete(self) -> list[CheckResult]:
        lines = self._received.split(b"\n")[:-1]
        pid, *documents = [json.loads(line) for line in lines] or [None]
        found = [CheckResult.from_dict(document) for document in documents]
        elapsed = time.monotonic() - self._began
        if elapsed >= self._limit.wall:
            why = f"the time limit of {self._limit.wall:.0f} s was reached before"
            if pid is not None and elapsed >= self._limit.wall + _GRACE_SECONDS:
                _kill(int(pid))
        elif elapsed >= self._limit.processor:
            why = f"the time limit of {self._limit.processor:.0f} s of the processor was reached before"
        else:
            why = "the copy of the training was ended, perhaps because memory ran out"
        return found + self._without(why, [result.probe for result in found])

    def _without(self, why: str, known: Sequence[str]) -> list[CheckResult]:
        return without_results([probe for probe in self._probes if probe not in known], why, self._step)


@contextmanager
def _without_child_signals() -> Iterator[None]:
    """Hold SIGCHLD back, so that a handler of the script does not wait for a child that is not its own."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _obstacle(copied: Copied) -> str:
    """Return why a training cannot be copied; "": it can."""
    parameters = [parameter for group in copied.optimizer.param_groups for parameter in group["params"]]
    if any(type(tensor) is not torch.nn.Parameter and type(tensor) is not torch.Tensor for tensor in parameters):
        return "the parameters are no plain tensors, as those of a sharded model"
    needed = COPIES * sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    needed += needed_bytes(copied.tape, copied.optimizer)
    if lacking := lack_of_memory(needed):
        return lacking
    return "" if copied.tape.losses else "no backward pass of this step was seen"


def _become_copy(copied: Copied, host: HostCopy, probes: Sequence[str], limit: TimeLimit, writing: int) -> None:
    """Become the process that makes the probes, as a grandchild; never returns."""
    try:
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM, signal.SIGPROF, signal.SIGCHLD})
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, limit.wall)
        signal.setitimer(signal.ITIMER_PROF, limit.processor)
        if limit.is_beside:
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        _silence(writing)
        torch.set_num_threads(1)
        gc.freeze()
        host.take_place()
        copied.is_moved = bool(host)
        _make_probes(copied, probes, limit, writing)
    except BaseException as error:  # noqa: BLE001 - nothing of the copy may reach the script's handlers
        _tell(writing, [CheckResult(probe, "not applicable", _described(error), copied.step) for probe in probes])
    finally:
        os._exit(0)


def _described(error: BaseException) -> str:
    return describe_error(error) if isinstance(error, Exception) else type(error).__name__


def _silence(writing: int) -> None:
    """Close everything but the pipe, so that the copy holds no file, socket or terminal of the training."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")
    os.closerange(3, writing)
    os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))


def _make_probes(copied: Copied, probes: Sequence[str], limit: TimeLimit, writing: int) -> None:
    from leadline.frameworks.check.outcome import NotRepeatableError
    from leadline.frameworks.torch.check.probes import Probes, in_order
    from leadline.frameworks.torch.check.step_copy import StepCopy

    os.write(writing, f"{os.getpid()}\n".encode())
    try:
        copy = StepCopy(
            copied.tape,
            copied.optimizer,
            copied.others,
            step_number=copied.step,
            limit=limit,
            is_moved=copied.is_moved,
        )
        made = Probes(copy, copied.step)
    except NotRepeatableError as error:
        _tell(writing, [CheckResult(probe, "not applicable", str(error), copied.step) for probe in probes])
        return
    for probe in in_order(probes):
        _tell(writing, [made.make(probe)])


def _finite(value: Any) -> Any:
    """Return plain values with None in place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _tell(writing: int, results: Sequence[CheckResult]) -> None:
    for result in results:
        document = _finite(asdict(result)) | {"time_ns": result.time_ns or time.time_ns()}
        remaining = memoryview(json.dumps(document).encode() + b"\n")
        while remaining:
            remaining = remaining[os.write(writing, remaining) :]
