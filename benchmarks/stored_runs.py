"""Evaluation of many stored runs: sequentially in one process, and on every engine.

``judge.py`` prints the rows. For Ray this file is run in ``.venvs/ray``: ``stored_runs.py ADDRESS RUN…`` judges the
runs and prints seconds and verdicts; the cluster has two nodes of one CPU each on this machine.
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

from leadline.config.options import parse_rule
from leadline.judge.engines.engine import Engine, Judged, LocalEngine, Task
from leadline.judge.engines.ray import RayEngine
from leadline.judge.evaluator import Evaluator
from leadline.judge.judge import judge_run
from leadline.judge.rule_plan import named, resolve_rules
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
WRITTEN_RUNS = 10
"""Number of runs that are written; the others are copies of them."""
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
"""By run: name, verdict and number of findings of each rule."""
Judging = Callable[[Sequence[str]], tuple[float, Verdicts]]
"""A way to judge runs; returns the time in seconds and the verdicts."""


def timed(judge: Callable[[Sequence[str]], Verdicts]) -> Judging:
    """Add the time to the verdicts of a function."""

    def measured(runs: Sequence[str]) -> tuple[float, Verdicts]:
        began = time.perf_counter()
        verdicts = judge(runs)
        return time.perf_counter() - began, verdicts

    return measured


def write_runs(root: Path, count: int) -> list[str]:
    """Write trainings that have ended; every tenth has a NaN loss."""
    training = Training(EVERY)
    for index in range(min(count, WRITTEN_RUNS)):
        harness.progress(f"  writing run {index + 1} of {WRITTEN_RUNS}, {STEPS} steps, statistics every {EVERY}")
        writer = RunWriter(root / f"run-{index:03d}", batch_rows=8)
        for step in range(STEPS):
            for part in training.parts(step, loss=float("nan") if index == 3 and step == 100 else None):
                writer.write(part)
        writer.end()
    for index in range(WRITTEN_RUNS, count):
        shutil.copytree(root / f"run-{index % WRITTEN_RUNS:03d}", root / f"run-{index:03d}")
    return [str(root / f"run-{index:03d}") for index in range(count)]


def specs() -> tuple[RuleSpec, ...]:
    return tuple(named(parse_rule(rule, os.getcwd())) for rule in RULES)


def judge_in_process(runs: Sequence[str]) -> Verdicts:
    """Judge runs sequentially in this process, without rule workers."""
    verdicts: Verdicts = {}
    for run in runs:
        rules = [(spec.alias, rule) for spec, rule in resolve_rules(specs())]
        states = Evaluator(run, rules, started_ns=START_NS, is_over=True).advance(is_over=True).rules
        verdicts[run] = [(alias, state["verdict"], state["findings"]) for alias, state in states.items()]
    return verdicts


def judge_on(engine: Engine, runs: Sequence[str]) -> Verdicts:
    return {judged.run: _verdicts(judged) for judged in engine.judge([Task(run, specs()) for run in runs])}


def judge_in_new_processes(runs: Sequence[str]) -> Verdicts:
    """Judge every run in processes that are started for it."""
    return {run: _verdicts(Judged(run, judge_run(run, specs()).rules)) for run in runs}


def _verdicts(judged: Judged) -> list[tuple[str, str | None, int]]:
    return [(rule.name, rule.verdict, len(rule.findings)) for rule in judged.rules]


def rows(runs_count: int, rounds: int) -> list[Row]:
    """Measure the speed on many stored runs, relative to one process that judges them sequentially."""
    with tempfile.TemporaryDirectory() as root:
        runs = write_runs(Path(root), runs_count)
        judge_in_process(runs[:1])  # imports everything that is imported on first use
        few = runs[: max(2, runs_count // 10)]
        cases: list[tuple[str, Sequence[str], Judging]] = [
            ("new processes per run", few, timed(judge_in_new_processes)),
            ("local, 1 worker", runs, timed(lambda paths: judge_on(LocalEngine(1), paths))),
            ("local, 2 workers", runs, timed(lambda paths: judge_on(LocalEngine(2), paths))),
        ]
        measured = [_row(name, paths, judging, rounds) for name, paths, judging in cases]
        if not RAY_PYTHON.exists():
            return [*measured, Row(_name("Ray, 2 nodes"), "x", None, note="needs scripts/setup tests (.venvs/ray)")]
        with _cluster() as address:
            _on_ray(address, few)  # Ray starts its own processes on first use
            return [*measured, _row("Ray, 2 nodes", runs, lambda paths: _on_ray(address, paths), rounds)]


def _row(name: str, runs: Sequence[str], judging: Judging, rounds: int) -> Row:
    """Measure a speed as a multiple of that of one process; both judge the same runs alternately."""
    all_verdicts: list[Verdicts] = []
    seconds: list[float] = []

    def in_process() -> float:
        duration, verdicts = timed(judge_in_process)(runs)
        all_verdicts.append(verdicts)
        return duration

    def measured() -> float:
        duration, verdicts = judging(runs)
        all_verdicts.append(verdicts)
        seconds.append(duration)
        return duration

    harness.progress(f"  stored runs, {name}: {rounds} pairs of {len(runs)} runs")
    ratios = [reference / other for reference, other in harness.pairs(in_process, measured, count=rounds, warmups=0)]
    agreeing = sum(all(verdicts[run] == all_verdicts[0][run] for verdicts in all_verdicts) for run in runs)
    per_second = len(runs) / harness.spread(seconds).median
    evaluations = len(RULES) * len(TENSORS) * (STEPS // EVERY) * per_second
    note = f"{per_second:.1f} runs/s, {evaluations:,.0f} rules x tensors x steps/s; "
    note += "found/expected: runs with equal verdicts"
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


def _name(method: str) -> str:
    return f"stored runs by {len(RULES)} rules, {method}: speed relative to one process"


def _on_ray(address: str, runs: Sequence[str]) -> tuple[float, Verdicts]:
    """Judge runs on Ray; the time includes connecting to the cluster, but not starting the Python process."""
    command = [str(RAY_PYTHON), __file__, address, *runs]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds, verdicts = json.loads(result.stdout)
    return seconds, {run: [(name, verdict, count) for name, verdict, count in rules] for run, rules in verdicts.items()}


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
    """Judge on a cluster and print the verdicts."""
    address, *runs = sys.argv[1:]
    print(json.dumps(timed(lambda paths: judge_on(RayEngine(address), paths))(runs)))


if __name__ == "__main__":
    main()
