"""Stop latency: from the end of the first step with a NaN loss to the end of the job.

A script trains a small model with steps of 5 or 100 ms, records when its first bad step ended, and continues.
Two times are measured: until the training process has exited, and until `leadline run` has printed its verdict and
exited. Two step times are subtracted, since a stop takes effect at a step boundary.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import harness
from harness import Limit, Row

LIMIT = Limit(1.0, figure="most")
STEP_MS = (5, 100)
STOPPED_STATUS = 10
TIMEOUT_SECONDS = 60.0

SCRIPT = """
import os, sys, time
import torch
step_seconds, bad_step, log = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
with open(log + ".pid", "w") as file:
    file.write(str(os.getpid()))
for step in range(100_000):
    began = time.monotonic()
    inputs = torch.randn(16, 32)
    if step == bad_step:
        inputs = inputs * float("nan")
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    time.sleep(max(0.0, step_seconds - (time.monotonic() - began)))
    optimizer.step()
    if step >= bad_step:
        with open(log, "a") as file:
            file.write(f"{step} {time.monotonic_ns()}\\n")
"""


@dataclass(frozen=True, slots=True)
class Stop:
    """A stopped run; times are since the end of the first bad step, minus two step times."""

    process_exit_seconds: float
    command_exit_seconds: float
    status: int
    steps_after: int
    """Number of steps completed after the first bad one."""


class NotStoppedError(Exception):
    """The run was not stopped by its rule."""


def run_until_stopped(step_ms: int, bad_step: int, folder: Path) -> Stop:
    """Run the script once.

    Raises:
        NotStoppedError: The run was not stopped by its rule.
    """
    script, log = folder / "nan.py", folder / "ends"
    script.write_text(SCRIPT)
    command = [harness.LEADLINE, "run", "--out", str(folder), "--name", "run"]
    command += ["--on", "exploding_tensor=stop_training", "--"]
    command += [sys.executable, str(script), str(step_ms / 1e3), str(bad_step), str(log)]
    terminal = folder / "terminal"
    with terminal.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        exit_ns = _wait_for_exit(process, Path(f"{log}.pid"))
        status = process.wait(timeout=TIMEOUT_SECONDS)
        ended_ns = time.monotonic_ns()
    except (subprocess.TimeoutExpired, TimeoutError):
        raise NotStoppedError(f"did not stop within {TIMEOUT_SECONDS:.0f} s") from None
    finally:
        process.terminate()
        process.wait()
    if status != STOPPED_STATUS or exit_ns is None or not log.exists():
        raise NotStoppedError(f"ended with status {status}: {terminal.read_text(errors='replace').strip()[-300:]}")
    ends = [line.split() for line in log.read_text().splitlines()]
    first_ns, two_steps = int(ends[0][1]), 2 * step_ms / 1e3
    return Stop((exit_ns - first_ns) / 1e9 - two_steps, (ended_ns - first_ns) / 1e9 - two_steps, status, len(ends) - 1)


def _wait_for_exit(process: subprocess.Popen[bytes], pid_file: Path) -> int | None:
    """Return when the training process exited; None if it never started."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (pid_file.exists() and pid_file.read_text()):
        if process.poll() is not None:
            return None
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
    descriptor = os.pidfd_open(int(pid_file.read_text()))
    try:
        ready, _, _ = select.select([descriptor], [], [], TIMEOUT_SECONDS)
    finally:
        os.close(descriptor)
    if not ready:
        raise TimeoutError
    return time.monotonic_ns()


def rows_at(step_ms: int, rounds: int) -> list[Row]:
    """Measure the two rows of one step time."""
    names = (f"{step_ms} ms steps: until the training process exits", f"{step_ms} ms steps: until leadline run exits")
    stops = []
    # late enough that start-up is over, and at different phases of all polling intervals
    for index in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            try:
                stop = run_until_stopped(step_ms, int(2000 / step_ms) + 7 * index % 23, Path(folder))
            except NotStoppedError as error:
                return [Row(name, "s", None, LIMIT, note=str(error)) for name in names]
        harness.progress(
            f"  {step_ms} ms, {index + 1}/{rounds}: process {stop.process_exit_seconds:.3f} s, "
            f"command {stop.command_exit_seconds:.3f} s, {stop.steps_after} steps after"
        )
        stops.append(stop)
    columns = ([stop.process_exit_seconds for stop in stops], [stop.command_exit_seconds for stop in stops])
    return [
        Row(name, "s", harness.spread(values), LIMIT, note=f"max {max(values):.3f} s", values=tuple(values))
        for name, values in zip(names, columns, strict=True)
    ]


def main() -> int:
    options = harness.arguments(__doc__, rounds=20, quick_rounds=2).parse_args()
    started, rounds = harness.machine(), harness.rounds_of(options)
    rows = [row for step_ms in STEP_MS for row in rows_at(step_ms, rounds)]
    return harness.report("latency", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
