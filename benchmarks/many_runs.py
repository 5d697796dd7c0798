"""How soon ten thousand runs are listed: `leadline ls`, the page Runs, and the latest for `leadline show`.

One real run is made by `leadline run`; the others are copies of its documents under other names and with other starts,
without its samples and statistics, which no list reads. The files are in the page cache. Each command is a process of
its own, from its start to its end.
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
class Took:
    """What a process took."""

    wall_seconds: float
    processor_seconds: float
    memory_mb: float


def real_run(folder: Path) -> Path:
    """A run as `leadline run` leaves it."""
    script = folder / "train.py"
    script.write_text(_SCRIPT)
    command = [harness.LEADLINE, "run", "--out", str(folder / "one"), "--name", "original", sys.executable, str(script)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "one" / "original"


def copied(original: Path, root: Path, count: int) -> None:
    """Lay down copies of a run's documents, each started a second after the one before."""
    folders = [Path(each).relative_to(original) for each, _, _ in os.walk(original)]
    names = [layout.STATUS, layout.RULE_SUMMARY]
    names += [f"{part}/{each.name}" for part in ("workers", "nodes") for each in (original / part).glob("*.json")]
    documents = {name: (original / name).read_bytes() for name in names}
    manifest = json.loads((original / layout.MANIFEST).read_bytes())
    for number in range(count):
        run = root / f"run-{number:05d}"
        for each in folders:
            (run / each).mkdir(parents=True)
        told = {**manifest, "name": run.name, "uri": str(run), "started_ns": manifest["started_ns"] + number * 10**9}
        told["plan"] = {**manifest["plan"], "disk_bytes": manifest["plan"]["disk_bytes"] + number}
        (run / layout.MANIFEST).write_text(json.dumps(told, separators=(",", ":")))
        for name, data in documents.items():
            (run / name).write_bytes(data)


def took(*command: str) -> Took:
    """Run a command of ours to its end."""
    began = time.perf_counter()
    with subprocess.Popen([harness.LEADLINE, *command], stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"leadline {' '.join(command)} ended with {process.returncode}")
    return Took(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)


def commanded(name: str, found: list[Took], limit: Limit | None) -> Row:
    walls = tuple(each.wall_seconds for each in found)
    processor, memory = min(each.processor_seconds for each in found), max(each.memory_mb for each in found)
    note = f"processor time {processor:.2f} s at least, {memory:.0f} MB"
    return Row(name, "s", harness.spread(walls), limit, values=walls, note=note)


def paged(root: Path) -> tuple[float, float]:
    """Seconds of the page Runs of a dashboard that has just started, and of the same a moment later."""
    with dashboard.server(str(root)) as asked:
        first = harness.elapsed_seconds(lambda: asked.get("/"))
        time.sleep(1.0)
        return first, harness.elapsed_seconds(lambda: asked.get("/"))


def main() -> int:
    parser = harness.arguments(__doc__, rounds=7, quick_rounds=1)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--scratch", help="where the runs are laid down for the time; default: the system's")
    options: argparse.Namespace = parser.parse_args()
    started, rounds = harness.machine(), harness.rounds_of(options)
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        root = Path(scratch, "runs")
        harness.progress(f"laying down {options.runs:,} runs")
        original = real_run(Path(scratch))
        copied(original, root, options.runs)
        size = (original / layout.MANIFEST).stat().st_size
        assert len(list_runs(root)) == options.runs
        listed, shown, bare, lists, pages = [], [], [], [], []
        for index in range(rounds):
            harness.progress(f"round {index + 1}/{rounds}")
            listed.append(took("ls", str(root)))
            bare.append(took("ls", str(original.parent)))
            lists.append(harness.elapsed_seconds(lambda: list_runs(root)))
            pages.append(paged(root))
            os.environ["LEADLINE_ROOT"] = str(root)
            shown.append(took("show", "--json"))
    firsts, seconds = zip(*pages, strict=True)
    many = f"{options.runs:,} runs"
    rows = [
        commanded(f"leadline ls, {many}", listed, Limit(2.0)),
        commanded("leadline ls, one run", bare, None),
        Row(
            f"list_runs(), {many}", "s", harness.spread(lists), values=tuple(lists), note=f"manifests of {size:,} bytes"
        ),
        Row(f"page Runs, {many}: the first time", "s", harness.spread(firsts), Limit(2.0), values=firsts),
        Row(f"page Runs, {many}: again", "s", harness.spread(seconds), Limit(2.0), values=seconds),
        commanded(f"leadline show of the latest of {many}", shown, Limit(2.0)),
    ]
    return harness.report("many_runs", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
