"""Time to list ten thousand runs: `leadline ls`, the Runs page, and `leadline show` of the latest run.

One real run is made by `leadline run`; the others are copies of its documents with other names and start times,
without its samples and statistics, which listing does not read. The files are in the page cache. Every command is timed
as a process, from start to exit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import dashboard
import harness
from harness import Limit, Row

from leadline.reader.find_runs import list_runs
from leadline.store import layout

RUNS = 10_000
_SCRIPT = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(20):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.randn(16, 32)), torch.randint(0, 4, (16,))).backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class ProcessCost:
    """Time and memory of a process."""

    wall_seconds: float
    processor_seconds: float
    memory_mb: float


def real_run(folder: Path) -> Path:
    """Make a run with `leadline run`."""
    script = folder / "train.py"
    script.write_text(_SCRIPT)
    command = [harness.LEADLINE, "run", "--out", str(folder / "one"), "--name", "original", sys.executable, str(script)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "one" / "original"


def copy_run(original: Path, root: Path, count: int) -> None:
    """Write copies of a run's documents, each with a start time one second after the previous one."""
    folders = [Path(folder).relative_to(original) for folder, _, _ in os.walk(original)]
    names = [layout.STATUS, layout.RULE_SUMMARY]
    names += [f"{part}/{file.name}" for part in ("workers", "nodes") for file in (original / part).glob("*.json")]
    documents = {name: (original / name).read_bytes() for name in names}
    manifest = json.loads((original / layout.MANIFEST).read_bytes())
    for number in range(count):
        run = root / f"run-{number:05d}"
        for folder in folders:
            (run / folder).mkdir(parents=True)
        copy = {**manifest, "name": run.name, "uri": str(run), "started_ns": manifest["started_ns"] + number * 10**9}
        copy["plan"] = {**manifest["plan"], "disk_bytes": manifest["plan"]["disk_bytes"] + number}
        (run / layout.MANIFEST).write_text(json.dumps(copy, separators=(",", ":")))
        for name, data in documents.items():
            (run / name).write_bytes(data)


def run_leadline(*command: str) -> ProcessCost:
    """Run a ``leadline`` command."""
    began = time.perf_counter()
    with subprocess.Popen([harness.LEADLINE, *command], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"leadline {' '.join(command)} ended with {process.returncode}")
    return ProcessCost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000)


def command_row(name: str, costs: list[ProcessCost], limit: Limit | None) -> Row:
    walls = tuple(cost.wall_seconds for cost in costs)
    processor, memory = min(cost.processor_seconds for cost in costs), max(cost.memory_mb for cost in costs)
    note = f"CPU time at least {processor:.2f} s, {memory:.0f} MB"
    return Row(name, "s", harness.spread(walls), limit, values=walls, note=note)


def page_seconds(root: Path) -> tuple[float, float]:
    """Return the response times of the Runs page just after the dashboard has started, and one second later."""
    with dashboard.server(str(root)) as server:
        first = harness.elapsed_seconds(lambda: server.get("/"))
        time.sleep(1.0)
        return first, harness.elapsed_seconds(lambda: server.get("/"))


def main() -> int:
    parser = harness.arguments(__doc__, rounds=7, quick_rounds=1)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--scratch", help="folder for the temporary runs; default: the system's")
    options: argparse.Namespace = parser.parse_args()
    started, rounds = harness.machine(), harness.rounds_of(options)
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        root = Path(scratch, "runs")
        harness.progress(f"writing {options.runs:,} runs")
        original = real_run(Path(scratch))
        copy_run(original, root, options.runs)
        size = (original / layout.MANIFEST).stat().st_size
        assert len(list_runs(root)) == options.runs
        listed, shown, bare, lists, pages = [], [], [], [], []
        for index in range(rounds):
            harness.progress(f"round {index + 1}/{rounds}")
            listed.append(run_leadline("ls", str(root)))
            bare.append(run_leadline("ls", str(original.parent)))
            lists.append(harness.elapsed_seconds(lambda: list_runs(root)))
            pages.append(page_seconds(root))
            os.environ["LEADLINE_ROOT"] = str(root)
            shown.append(run_leadline("show", "--json"))
    firsts, seconds = zip(*pages, strict=True)
    many = f"{options.runs:,} runs"
    rows = [
        command_row(f"leadline ls, {many}", listed, Limit(2.0)),
        command_row("leadline ls, one run", bare, None),
        Row(
            f"list_runs(), {many}", "s", harness.spread(lists), values=tuple(lists), note=f"manifests of {size:,} bytes"
        ),
        Row(f"Runs page, {many}: first request", "s", harness.spread(firsts), Limit(2.0), values=firsts),
        Row(f"Runs page, {many}: second request", "s", harness.spread(seconds), Limit(2.0), values=seconds),
        command_row(f"leadline show of the latest of {many}", shown, Limit(2.0)),
    ]
    return harness.report("many_runs", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
