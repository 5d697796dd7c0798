"""Stored runs judged again, many at once: in one process one after the other, and on every engine.

``judge.py`` prints the rows. On Ray this file runs itself in ``.venvs/ray``: ``stored_runs.py ADDRESS RUN…`` judges
and prints seconds and verdicts; the cluster is one of two nodes on this machine, a processor each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import harness
from harness import Row
from judged_training import TENSORS, Training

from leadline.cli.run_setup import rule_specs
from leadline.judge.engines.engine import Engine, Judged, Task
from leadline.judge.engines.local import LocalEngine
from leadline.judge.engines.ray import RayEngine
from leadline.judge.evaluator import Evaluator
from leadline.judge.judge import judge_run
from leadline.judge.rule_plan import resolve_rules
from leadline.records.manifest import RuleSpec
from leadline.testing.runs import START_NS, RunWriter

RAY_PYTHON = harness.PROJECT / ".venvs" / "ray" / "bin" / "python"
RULES = (
    "all_zero:collection_names=gradients",
    "check_input_images",
    "class_imbalance",
    "confusion",
    "dead_relu",
    "exploding_gradient",
    "exploding_tensor",
    "gradient_clipping",
    "loss_not_decreasing",
    "loss_spike",
    "nonfinite_origin",
    "no_learning",
    "output_collapse",
    "poor_weight_initialization",
    "saturated_activation",
    "skipped_steps",
    "tensor_variance:tensor_regex=weight$,max_threshold=1e9",
    "unused_parameter",
    "vanishing_gradient",
    "weight_update_ratio",
)
STEPS, EVERY = 200, 10
DIFFERENT = 10
"""Runs that are written; the others are copies of them."""
_NODES = """
import os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
node = {"num_cpus": 1, "object_store_memory": 100 << 20}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
cluster.add_node(**node)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""

Verdicts = dict[str, list[tuple[str, str | None, int]]]
"""By run: of each rule its name, verdict and findings."""
Work = Callable[[Sequence[str]], tuple[float, Verdicts]]
"""Some way to judge runs: the seconds that it took, and what it came to."""


def timed(work: Callable[[Sequence[str]], Verdicts]) -> Work:
    """A way that is timed from outside."""

    def measured(runs: Sequence[str]) -> tuple[float, Verdicts]:
        began = time.perf_counter()
        found = work(runs)
        return time.perf_counter() - began, found

    return measured


def write_runs(root: Path, count: int) -> list[str]:
    """Trainings that have ended, each tenth of which has a loss that is NaN."""
    training = Training(EVERY)
    for index in range(min(count, DIFFERENT)):
        harness.progress(f"  writing run {index + 1} of {DIFFERENT}, {STEPS} steps, statistics every {EVERY}")
        writer = RunWriter(root / f"run-{index:03d}", batch_rows=8)
        for step in range(STEPS):
            for part in training.parts(step, loss=float("nan") if index == 3 and step == 100 else None):
                writer.write(part)
        writer.end()
    for index in range(DIFFERENT, count):
        shutil.copytree(root / f"run-{index % DIFFERENT:03d}", root / f"run-{index:03d}")
    return [str(root / f"run-{index:03d}") for index in range(count)]


def specs() -> tuple[RuleSpec, ...]:
    return tuple(rule_specs(RULES, os.getcwd()))


def judge_here(runs: Sequence[str]) -> Verdicts:
    """One after the other in this process: no process is started, and no rule is kept from the others."""
    found: Verdicts = {}
    for run in runs:
        rules = [(spec.alias, rule) for spec, rule in resolve_rules(specs())]
        states = Evaluator(run, rules, started_ns=START_NS, is_over=True).advance(is_over=True).rules
        found[run] = [(alias, state["verdict"], state["findings"]) for alias, state in states.items()]
    return found


def judge_on(engine: Engine, runs: Sequence[str]) -> Verdicts:
    return {each.run: _verdicts(each) for each in engine.judge([Task(run, specs()) for run in runs])}


def judge_apart(runs: Sequence[str]) -> Verdicts:
    """Each run in processes that are started for it."""
    return {run: _verdicts(Judged(run, judge_run(run, specs()).rules)) for run in runs}


def _verdicts(judged: Judged) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.verdict, len(each.findings)) for each in judged.rules]


def rows(runs_count: int, rounds: int) -> list[Row]:
    """How fast many stored runs are judged, beside one process that judges them one after the other."""
    with tempfile.TemporaryDirectory() as root:
        runs = write_runs(Path(root), runs_count)
        judge_here(runs[:1])  # what is imported on first use
        few = runs[: max(2, runs_count // 10)]
        ways: list[tuple[str, Sequence[str], Work]] = [
            ("processes started for each run", few, timed(judge_apart)),
            ("local, 1 worker", runs, timed(lambda asked: judge_on(LocalEngine(1), asked))),
            ("local, 2 workers", runs, timed(lambda asked: judge_on(LocalEngine(2), asked))),
        ]
        found = [_row(name, asked, work, rounds) for name, asked, work in ways]
        if not RAY_PYTHON.exists():
            return [*found, Row(_name("Ray, 2 nodes"), "x", None, note="needs scripts/setup tests (.venvs/ray)")]
        with _cluster() as address:
            _on_ray(address, few)  # Ray starts its own processes on first use
            return [*found, _row("Ray, 2 nodes", runs, lambda asked: _on_ray(address, asked), rounds)]


def _row(name: str, runs: Sequence[str], work: Work, rounds: int) -> Row:
    """The speed of one way, as a multiple of that of one process; both judge the same runs, in turn."""
    seen: list[Verdicts] = []
    seconds: list[float] = []

    def here() -> float:
        taken, found = timed(judge_here)(runs)
        seen.append(found)
        return taken

    def there() -> float:
        taken, found = work(runs)
        seen.append(found)
        seconds.append(taken)
        return taken

    harness.progress(f"  stored runs, {name}: {rounds} pairs of {len(runs)} runs")
    ratios = [alone / other for alone, other in harness.pairs(here, there, count=rounds, warmups=0)]
    agreeing = sum(all(each[run] == seen[0][run] for each in seen) for run in runs)
    per_second = len(runs) / harness.spread(seconds).median
    judged = len(RULES) * len(TENSORS) * (STEPS // EVERY) * per_second
    note = f"{per_second:.1f} runs/s, {judged:,.0f} rules x tensors x steps/s; found/asked: runs with the same verdicts"
    return Row(
        _name(name),
        "x",
        harness.spread(ratios),
        asked=len(runs),
        found=agreeing,
        note=note,
        values=tuple(ratios),
        details={"seconds": seconds},
    )


def _name(way: str) -> str:
    return f"stored runs by {len(RULES)} rules, {way}: speed of one process"


def _on_ray(address: str, runs: Sequence[str]) -> tuple[float, Verdicts]:
    """With connecting to the cluster, without starting the Python that asks."""
    words = [str(RAY_PYTHON), __file__, address, *runs]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    seconds, found = json.loads(done.stdout)
    return seconds, {run: [(name, verdict, count) for name, verdict, count in each] for run, each in found.items()}


@contextmanager
def _cluster() -> Iterator[str]:
    nodes = subprocess.Popen(
        [str(RAY_PYTHON), "-c", _NODES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert nodes.stdout is not None
    try:
        yield nodes.stdout.readline().strip()
    finally:
        nodes.communicate("")


def main() -> None:
    """Judge on a cluster, and print the verdicts."""
    address, *runs = sys.argv[1:]
    print(json.dumps(timed(lambda asked: judge_on(RayEngine(address), asked))(runs)))


if __name__ == "__main__":
    main()
