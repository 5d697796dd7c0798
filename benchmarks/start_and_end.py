"""What `leadline run` adds before the first line of a script, and after its last one.

A script that prints when its first and its last line ran is started bare and under `leadline run`, in turn (ABBA): one
that trains nothing, one whose training takes a few seconds, and the same with a training that is over at once. Before
the first line: the start of the command, of the agent, and of the interpreter. After the last one: the end of the
interpreter, the last captures, the rules' last verdict, and the summary.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import harness
from harness import LEADLINE, Limit, Row

START_LIMIT, END_LIMIT = Limit(150.0), Limit(300.0)

NOTHING = """
import time
first = time.monotonic()
print("at", first, time.monotonic())
"""
TRAINING = """
import time
first = time.monotonic()
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
until = time.monotonic() + {seconds}
step = 0
while step < 20 or time.monotonic() < until:
    step += 1
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.randn(16, 32)), torch.randint(4, (16,))).backward()
    optimizer.step()
    time.sleep(0.005)
print("at", first, time.monotonic())
"""
SCRIPTS = {
    "trains nothing": NOTHING,
    "trains for 20 steps": TRAINING.format(seconds=0.0),
    "trains for 6 s": TRAINING.format(seconds=6.0),
}


def times_of(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Run a script; return the seconds before its first line, and after its last one."""
    begun = time.monotonic()
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    over = time.monotonic()
    line = next((line for line in ended.stdout.splitlines() if line.startswith("at ")), None)
    if ended.returncode or line is None:
        raise SystemExit(f"{' '.join(command)} exited with {ended.returncode}: {ended.stderr[-2000:]}")
    first, last = map(float, line.split()[1:])
    return first - begun, over - last


def rows_of(name: str, code: str, *, rounds: int) -> list[Row]:
    """Return the rows of a script: what is added before and after it."""
    harness.progress(name)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        script = folder / "script.py"
        script.write_text(code)
        bare = [sys.executable, str(script)]
        watched = [LEADLINE, "run", "--out", "runs", "--", *bare]
        times = harness.pairs(
            lambda: times_of(bare, folder), lambda: times_of(watched, folder), count=rounds, warmups=1
        )
    rows = []
    for place, limit in ((0, START_LIMIT), (1, END_LIMIT)):
        values = [1e3 * (under[place] - alone[place]) for alone, under in times]
        bare_ms = 1e3 * harness.spread([alone[place] for alone, _ in times]).median
        part = "before the first line" if place == 0 else "after the last line"
        rows.append(
            Row(
                f"{name}: {part}",
                "ms",
                harness.spread(values),
                limit,
                note=f"bare {bare_ms:.0f} ms",
                values=tuple(values),
                details={"seconds": [(alone[place], under[place]) for alone, under in times]},
            )
        )
    return rows


def main() -> int:
    options = harness.arguments(__doc__, rounds=10, quick_rounds=2).parse_args()
    started, rounds = harness.machine(), harness.rounds_of(options)
    rows = [row for name, code in SCRIPTS.items() for row in rows_of(name, code, rounds=rounds)]
    return harness.report("start_and_end", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
