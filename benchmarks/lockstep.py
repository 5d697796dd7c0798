"""What Leadline adds to a step, by two processes that take turns every twelve steps.

One process trains bare, the other under ``leadline run`` with its defaults; both run the same steps, and one waits
while the other runs. What happens to the machine meanwhile happens to both: differences of a percent show within
a minute, also on a busy machine. In the second half Leadline has left the watched process. Rows per training:

* ``median step``: what is added to the processor time of the training's thread in a step at which little but its loss
  is captured;
* ``without Leadline``: what that process takes longer after Leadline has left it. It is not code of Leadline: the
  tensors of the model lie elsewhere in memory than in a process that has imported nothing else.

The budget counts the other process's turns as part of the training: for what captures cost see ``whole_runs.py``.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
from harness import Limit, Row

STEPS = {"3 modules": 6000, "101 layers": 2400, "transformer": 48, "keras": 600}
_SCRIPT = Path(__file__).with_name("lockstep_training.py")
_LIMIT = Limit(35.0)


def in_turn(kind: str, steps: int) -> tuple[float, float, float]:
    """Return the median microseconds of a bare step, and what is added with Leadline and after it has left."""
    with tempfile.TemporaryDirectory() as folder:
        turns = [os.path.join(folder, name) for name in ("bare turn", "watched turn")]
        for turn in turns:
            os.mkfifo(turn)
        first = os.open(turns[0], os.O_RDWR)
        results = [Path(folder, name) for name in ("bare.json", "watched.json")]
        watch = [harness.LEADLINE, "run", "--out", str(Path(folder, "runs"))]
        processes = [
            subprocess.Popen(
                [*command, str(_SCRIPT), kind, str(steps), str(results[at]), turns[at], turns[1 - at]],
                env={**os.environ, "PYTHONPATH": str(_SCRIPT.parent)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for at, command in enumerate(([sys.executable], watch))
        ]
        os.write(first, b"x")
        for process in processes:
            if process.wait():
                raise RuntimeError(f"{process.args} ended with {process.returncode}")
        os.close(first)
        bare, watched = (json.loads(result.read_text()) for result in results)
    with_leadline, without = (
        statistics.median(watched[part]) - statistics.median(bare[part]) for part in ("open", "closed")
    )
    return statistics.median(bare["open"]), with_leadline, without


def main() -> int:
    parser = harness.arguments(__doc__, rounds=3, quick_rounds=1)
    parser.add_argument("--kinds", default="3 modules,101 layers,transformer", help="trainings, by comma")
    options = parser.parse_args()
    started, found = harness.machine(), []
    for kind in options.kinds.split(","):
        steps = STEPS[kind] // (3 if options.quick else 1)
        times = [in_turn(kind, steps) for _ in range(harness.rounds_of(options))]
        bare, added, left = (list(values) for values in zip(*times, strict=True))
        note = f"step {statistics.median(bare) / 1e3:.2f} ms"
        found += [
            Row(f"{kind}: median step", "µs", harness.spread(added), _LIMIT, note=note, values=tuple(added)),
            Row(f"{kind}: without Leadline", "µs", harness.spread(left), values=tuple(left)),
        ]
        harness.progress(f"{kind}: {statistics.median(added):+.0f} µs of {statistics.median(bare):.0f} µs")
        harness.save("lockstep", found, started=started, options=options)
    return harness.report("lockstep", found, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
