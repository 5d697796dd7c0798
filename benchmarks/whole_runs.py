"""What a user pays for ``leadline run``: whole processes, bare and watched in turn, and what Leadline says it cost.

Each pair runs ``whole_training.py`` bare and under ``leadline run`` with its defaults (or ``--options``). Its steps are
measured as multiples of a fixed piece of work beside them, so that the speed of the machine cancels. Rows per training:

* ``first N``: the processor time of the training's thread for the first steps, watched over bare;
* ``settled``: the same for the rest of the steps, which is what a long run pays per step;
* ``settled, all threads``: with the writer's thread;
* ``median step``: the median settled step, at which little but its loss is captured;
* ``whole process``: from start to exit on the clock, in seconds beyond bare; the note has the overhead that is told;
* ``processor``: the processor time of all processes from start to exit, agent and judge among them, in seconds beyond
  bare. In JAX, whose capture programs are compiled, that of the first watched run, and of one more (``again``) for
  which the cache of Leadline has the program. *bare* is that of the bare process.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import harness
from harness import Limit, Row

STEPS = {
    "3 modules": 6000,
    "101 layers": 4000,
    "transformer": 200,
    "compiled": 1000,
    "keras": 1000,
    "jax": 2000,
    "tensorflow": 2000,
    "mxnet": 2000,
    "xgboost": 600,
    "lightgbm": 600,
}
_FIRST = 4
"""One step in so many is a first one; the others are settled."""
_COMPILE = ("jax",)
"""Trainings that are watched once more, with what the first watched run has compiled."""
_SCRIPT = Path(__file__).with_name("whole_training.py")
_SETTLED = Limit(1.02)


class Pair:
    """The steps of a bare process and of a watched one."""

    def __init__(self, kind: str, steps: int, options: list[str], folder: Path, *, is_bare_first: bool) -> None:
        self.seconds: dict[str, float] = {}
        self.processor: dict[str, float] = {}
        """Processor seconds of all processes."""
        self.steps: dict[str, list[list[float]]] = {}
        for name in ("bare", "watched") if is_bare_first else ("watched", "bare"):
            self._run(name, kind, steps, options, folder)
        if kind in _COMPILE:
            self._run("again", kind, steps, options, folder)
        self.first = max(1, steps // _FIRST)

    def _run(self, name: str, kind: str, steps: int, options: list[str], folder: Path) -> None:
        result, runs = folder / f"{name}.json", folder / "runs"
        command = [str(_SCRIPT), kind, str(steps), str(result)]
        watch = [harness.LEADLINE, "run", "--out", str(runs), "--name", name, *options]
        began, began_cpu = time.perf_counter(), _processor_seconds()
        done = subprocess.run(
            [sys.executable, *command] if name == "bare" else [*watch, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(_SCRIPT.parent), "LEADLINE_CACHE": str(folder / "cache")},
        )
        self.seconds[name] = time.perf_counter() - began
        self.processor[name] = _processor_seconds() - began_cpu
        if done.returncode:
            raise RuntimeError(f"{name} {kind} ended with {done.returncode}: {done.stderr[-2000:]}")
        document = json.loads(result.read_text())
        self.steps[name], self.step_ms = document["steps"], document["step_ms"]
        if name == "watched":
            shown = subprocess.run(
                [harness.LEADLINE, "show", str(runs / name), "--json"], capture_output=True, text=True, check=True
            )
            self.cost = json.loads(shown.stdout)["cost"]
            shutil.rmtree(runs)

    def ratio(self, clock: int, *, is_settled: bool, by: Callable[[list[float]], float] = statistics.fmean) -> float:
        """Return what steps take watched over bare.

        Args:
            clock: 0: the training's thread; 1: all threads; 2: the wall clock.
        """
        part = slice(self.first, None) if is_settled else slice(0, self.first)
        watched, bare = ([step[clock] for step in self.steps[name][part]] for name in ("watched", "bare"))
        return by(watched) / by(bare)

    @property
    def told(self) -> str:
        """What Leadline says that it cost."""
        start = self.cost.get("start")
        since = f", {start['seconds']:.2f} s at the start, then {start['step_share_since']:.1%}" if start else ""
        compiled = self.cost["compile_seconds"]
        compiling = f", {compiled:.2f} s to compile" if compiled else ""
        return f"told {self.cost['seconds']:.2f} s{compiling}{since}; step {self.step_ms:.1f} ms"


def _processor_seconds() -> float:
    """Return the processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows(kind: str, pairs: list[Pair]) -> list[Row]:
    """Return the rows of one training."""

    def row(name: str, values: list[float], unit: str = "x", limit: Limit | None = None, note: str = "") -> Row:
        return Row(f"{kind}: {name}", unit, harness.spread(values), limit, note=note, values=tuple(values))

    limit = _SETTLED if pairs[0].step_ms >= 5 else None
    return [
        row(f"first {pairs[0].first}", [pair.ratio(0, is_settled=False) for pair in pairs]),
        row("settled", [pair.ratio(0, is_settled=True) for pair in pairs], limit=limit, note=pairs[-1].told),
        row("settled, all threads", [pair.ratio(1, is_settled=True) for pair in pairs]),
        row("median step", [pair.ratio(0, is_settled=True, by=statistics.median) for pair in pairs]),
        row("processor, bare", [pair.processor["bare"] for pair in pairs], "s"),
        row("whole process", [pair.seconds["watched"] - pair.seconds["bare"] for pair in pairs], "s"),
        *(
            row(f"processor, {name}", [pair.processor[name] - pair.processor["bare"] for pair in pairs], "s")
            for name in pairs[0].processor
            if name != "bare"
        ),
    ]


def main() -> int:
    parser = harness.arguments(__doc__, rounds=8, quick_rounds=1)
    parser.add_argument("--kinds", default="3 modules,101 layers,transformer,compiled", help="trainings, by comma")
    parser.add_argument("--steps", type=int, help="steps of each training")
    parser.add_argument("--options", default="", help="options of leadline run, such as '--preset light'")
    options = parser.parse_args()
    started, found = harness.machine(), []
    for kind in options.kinds.split(","):
        steps = options.steps or STEPS[kind] // (4 if options.quick else 1)
        pairs = []
        for index in range(harness.rounds_of(options)):
            with tempfile.TemporaryDirectory() as folder:
                pair = Pair(kind, steps, options.options.split(), Path(folder), is_bare_first=index % 2 == 0)
            pairs.append(pair)
            harness.progress(f"{kind} {index}: settled {pair.ratio(0, is_settled=True):.3f}, {pair.told}")
        found += rows(kind, pairs)
        harness.save("whole_runs", found, started=started, options=options)
    return harness.report("whole_runs", found, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
