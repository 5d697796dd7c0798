"""CPU and memory usage of the agent while it monitors a `sleep`.

`leadline run` execs the agent, so the started process is the agent. After a warm-up, its CPU time is read from /proc
for each window, and its unshared memory (USS) at the end of each window.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import Limit, Row

SHARE_LIMIT = Limit(0.5)
MEMORY_LIMIT = Limit(60.0, figure="most")
WARMUP_SECONDS = 8.0
WINDOW_SECONDS = 5.0
TIMEOUT_SECONDS = 20.0


@dataclass
class Usage:
    """CPU and memory usage of one process per window."""

    pid: int
    percent: list[float] = field(default_factory=list)
    """Share of one core."""
    memory_mb: list[float] = field(default_factory=list)


def rows_at(interval_ms: int, windows: int, *, is_limited: bool) -> list[Row]:
    """Return the rows of the agent and the judge at one sampling interval."""
    harness.progress(f"agent at {interval_ms} ms: {WARMUP_SECONDS + windows * WINDOW_SECONDS:.0f} s")
    seconds = WARMUP_SECONDS + (windows + 2) * WINDOW_SECONDS + TIMEOUT_SECONDS
    with tempfile.TemporaryDirectory() as root:
        command = [harness.LEADLINE, "run", "--out", root, "--name", "watched"]
        command += ["--interval-ms", str(interval_ms), "--", "sleep", f"{seconds:.0f}"]
        log = Path(root, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            usages = _observe(process, windows)
        except _NotRunningError as error:
            note = f"{error}: {log.read_text(errors='replace').strip()[-200:]}"
            return [Row(f"agent at {interval_ms} ms", "%", None, SHARE_LIMIT if is_limited else None, note=note)]
        finally:
            process.terminate()
            process.wait()
    rows = []
    for name, usage in usages.items():
        limits = (SHARE_LIMIT, MEMORY_LIMIT) if is_limited and name == "agent" else (None, None)
        label = f"{name} at {interval_ms} ms"
        rows.append(_row(f"{label}: share of one core", "%", usage.percent, limits[0]))
        rows.append(_row(f"{label}: memory (USS)", "MB", usage.memory_mb, limits[1]))
    return rows


def _row(name: str, unit: str, values: list[float], limit: Limit | None) -> Row:
    return Row(name, unit, harness.spread(values), limit, values=tuple(values))


class _NotRunningError(Exception):
    """The agent did not start."""


def _observe(process: subprocess.Popen[bytes], windows: int) -> dict[str, Usage]:
    _wait_for_agent(process)
    time.sleep(WARMUP_SECONDS)
    usages = {"agent": Usage(process.pid)}
    judge = _judge_of(process.pid)
    if judge is not None:
        usages["judge"] = Usage(judge)
    for _ in range(windows):
        before = {name: harness.processor_ns(usage.pid) for name, usage in usages.items()}
        began = time.monotonic_ns()
        time.sleep(WINDOW_SECONDS)
        for name, usage in usages.items():
            elapsed = time.monotonic_ns() - began
            usage.percent.append(100 * (harness.processor_ns(usage.pid) - before[name]) / elapsed)
            usage.memory_mb.append(_unshared_bytes(usage.pid) / 1e6)
    return usages


def _wait_for_agent(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while "leadline.agent" not in _command_line(process.pid):
        if process.poll() is not None:
            raise _NotRunningError(f"leadline run ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise _NotRunningError("leadline run did not become the agent")
        time.sleep(0.05)


def _judge_of(agent: int) -> int | None:
    return next((child for child in harness.children(agent) if "leadline.judge" in _command_line(child)), None)


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def _unshared_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def main() -> int:
    parser = harness.arguments(__doc__, rounds=12, quick_rounds=2)
    parser.add_argument("--interval-ms", type=int, action="append", help="may be repeated; default 500 and 100")
    options: argparse.Namespace = parser.parse_args()
    started, windows = harness.machine(), harness.rounds_of(options)
    rows: list[Row] = []
    for interval in options.interval_ms or (500, 100):
        rows += rows_at(interval, windows, is_limited=interval == 500)
    return harness.report("agent", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
