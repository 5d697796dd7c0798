"""How long a bad value lives: from the end of the first step whose loss is NaN to the end of the job.

A script trains a small model with steps of 5 or 100 ms, writes down when its first bad step ended, and goes on.
Two times are taken: until the training process is gone, and until `leadline run` has given its verdict and ended.
Two step times are subtracted, since a stop is taken up at a step boundary.
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
STOPPED = 10
PATIENCE_SECONDS = 60.0

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
    """One stopped run; seconds after the end of the first bad step, less two step times."""

    process_gone_seconds: float
    command_gone_seconds: float
    status: int
    steps_after: int
    """Steps that still ended after the first bad one."""


class NotStoppedError(Exception):
    """The run was not stopped by its rule."""


def stop(step_ms: int, bad_step: int, folder: Path) -> Stop:
    """Run the script once."""
    script, log = folder / "nan.py", folder / "ends"
    script.write_text(SCRIPT)
    command = [harness.LEADLINE, "run", "--out", str(folder), "--name", "run"]
    command += ["--on", "exploding_tensor=stop_training", "--"]
    command += [sys.executable, str(script), str(step_ms / 1e3), str(bad_step), str(log)]
    terminal = folder / "terminal"
    with terminal.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        gone_ns = _await_end(process, Path(f"{log}.pid"))
        status = process.wait(timeout=PATIENCE_SECONDS)
        ended_ns = time.monotonic_ns()
    except (subprocess.TimeoutExpired, TimeoutError):
        raise NotStoppedError(f"did not stop within {PATIENCE_SECONDS:.0f} s") from None
    finally:
        process.terminate()
        process.wait()
    if status != STOPPED or gone_ns is None or not log.exists():
        raise NotStoppedError(f"ended with status {status}: {terminal.read_text(errors='replace').strip()[-300:]}")
    ends = [line.split() for line in log.read_text().splitlines()]
    first_ns, two_steps = int(ends[0][1]), 2 * step_ms / 1e3
    return Stop((gone_ns - first_ns) / 1e9 - two_steps, (ended_ns - first_ns) / 1e9 - two_steps, status, len(ends) - 1)


def _await_end(process: subprocess.Popen[bytes], pid_file: Path) -> int | None:
    """When the training process was gone; None where it never came up."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (pid_file.exists() and pid_file.read_text()):
        if process.poll() is not None:
            return None
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.01)
    descriptor = os.pidfd_open(int(pid_file.read_text()))
    try:
        ready, _, _ = select.select([descriptor], [], [], PATIENCE_SECONDS)
    finally:
        os.close(descriptor)
    if not ready:
        raise TimeoutError
    return time.monotonic_ns()


def rows_at(step_ms: int, rounds: int) -> list[Row]:
    """The two rows of one step length."""
    names = (f"{step_ms} ms steps: training process gone", f"{step_ms} ms steps: leadline run ended")
    stops = []
    # late enough that start-up is over, and not always at the same phase of anybody's polling
    for index in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            try:
                seen = stop(step_ms, int(2000 / step_ms) + 7 * index % 23, Path(folder))
            except NotStoppedError as error:
                return [Row(name, "s", None, LIMIT, note=str(error)) for name in names]
        harness.progress(
            f"  {step_ms} ms, {index + 1}/{rounds}: process {seen.process_gone_seconds:.3f} s, "
            f"command {seen.command_gone_seconds:.3f} s, {seen.steps_after} steps after"
        )
        stops.append(seen)
    columns = ([each.process_gone_seconds for each in stops], [each.command_gone_seconds for each in stops])
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
