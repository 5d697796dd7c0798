"""Every figure, drawn from a full run, without data, and with malicious names."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
from timelines import CPU, IOWAIT, MEMORY, gpu, merge_by_time, sampled, training

from leadline.analysis import call_tree, histograms, job, operators, ranks, steps
from leadline.analysis.digest import Digest
from leadline.analysis.usage import distributions
from leadline.charts import marks, phases, profiles, scalars, system_charts, usage, values
from leadline.charts import steps as step_figures
from leadline.profiles.python_profiles import Flame
from leadline.reader.run import Run, open_run
from leadline.records.metric import Channel
from leadline.testing.runs import START_NS, Capture, Part, RawTensors, RunWriter

EVIL = "<script>alert(1)</script><b>bold</b> &amp; $x^2$ %{x} \u202egnp.exe \x00\n" + "🙂" * 5 + "é" * 4000
"""Markup, a formula, a template, turned text, control characters, and more than anybody reads."""
NODES = ("algo-1", "algo-2")


@dataclass(frozen=True)
class Made:
    """An open run with all kinds of data."""

    run: Run
    digest: Digest

    @property
    def steps(self) -> steps.StepTable:
        return steps.read_steps(self.run.timeline())


def write_run(path: str) -> Made:
    """Two nodes of four cores and two GPUs for a minute, three ranks of which one is slow, losses with NaN, layers."""
    chance = random.Random(7)
    stories: list[list[Part]] = [_machine(chance, node) for node in NODES]
    stories += [_rank(chance, number) for number in range(3)]
    values_at = np.random.default_rng(1)
    for step in range(0, 200, 20):
        data = values_at.normal(0, 1 + step / 50, (16, 8)).astype("<f4")
        stories.append([RawTensors(step, {"fc.weight": ("F32", data.shape, data.tobytes())}, worker="rank0-7")])
    writer = RunWriter(path, batch_rows=40)
    writer.write_all(merge_by_time(*stories))
    for node in NODES:
        writer.write_node(node)
    writer.end()
    run = open_run(os.fspath(path))
    return Made(run, Digest(run))


def _machine(chance: random.Random, node: str) -> list[Part]:
    channels = {
        CPU: [40 + 20 * math.sin(at / 9) for at in range(120)],
        IOWAIT: [3.0] * 120,
        MEMORY: [30 + at / 10 for at in range(120)],
        Channel("network", "total", "received_bytes_per_second"): [chance.uniform(0, 3e7) for _ in range(120)],
    }
    for core in (0, 1, 2, 10):
        channels[Channel("cpu", f"core{core}", "utilization_percent")] = [chance.uniform(0, 100) for _ in range(120)]
    for number in (0, 1):
        channels[gpu(number)] = [90.0 - 40 * number + chance.uniform(0, 5) for _ in range(120)]
        channels[gpu(number, "memory_used_bytes")] = [(8 + at / 20) * 2**30 for at in range(120)]
    return list(sampled(channels, node=node))


def _rank(chance: random.Random, number: int) -> list[Part]:
    rows = []
    for step in range(200):
        slow = 1.6 if number == 2 else 1.0
        rows.append(
            {
                "data": 900.0 if step == 50 else 5.0,
                "forward": 60 * chance.uniform(0.9, 1.1),
                "backward": 120 * slow,
                "optimizer": 20.0,
                "collective": 3.0,
            }
        )
    worker = f"rank{number}-{number + 7}"
    parts = training(rows, worker=worker, within={"collective": "backward"}, other_ms=4.0, has_captures=False)
    for step in range(200):
        numbers = {"loss": {"value": float("nan") if step == 150 else 3.0 / (step + 1)}}
        if step % 10 == 0:
            for layer in range(4):
                numbers[f"gradient/block.{layer}.weight"] = {"abs_mean": 10.0 ** (layer - 6), "l2": 1.0}
        parts.append(Capture(step, numbers, worker=worker, time_ns=START_NS + step * 230_000_000))
    return parts


def full(made: Made) -> dict[str, go.Figure]:
    """Draw each figure of the run."""
    digest, run = made.digest, made.run
    gpus, loss = digest.system("gpu", "utilization_percent"), digest.scalar("loss")
    told, stored = histograms.read_histograms(run.tensor("fc.weight")), run.tensor("fc.weight").value(40)
    findings = [_finding("vanishing_gradient", 40), _finding("loss_spike", 42), _finding("overfit", 150)]
    return {
        "usage": usage.usage(gpus),
        "usage_together": usage.usage(gpus, is_mean=True),
        "usage_bytes": usage.usage(digest.system("gpu", "memory_used_bytes")),
        "usage_histogram": usage.histogram(gpus),
        "heat_map": usage.heat_map(digest.system()),
        "boxes": usage.boxes(distributions(gpus)),
        "durations": step_figures.durations(digest.steps()),
        "step_histogram": step_figures.histogram(digest.step_durations()),
        "step_timeline": step_figures.timeline(digest.steps("rank0-7")),
        "lanes": phases.tracks(run.timeline(worker="rank0-7", end_step=20)),
        "over_time": phases.over_time(digest.steps()),
        "progress": phases.progress(digest.steps(), job=digest.job(), interruptions=[(START_NS, START_NS + 10**9)]),
        "pie": phases.pie(digest.phases(), title="Phases"),
        "job_phases": phases.job_phases(digest.job()),
        "shares": phases.shares(digest.phases()),
        "scalars": scalars.scalars(loss, y="loss"),
        "scalars_log": scalars.scalars(loss, y="loss", is_log=True),
        "compare": scalars.compare({"one": loss, "other": loss}, y="loss"),
        "marked": marks.mark(scalars.scalars(loss, y="loss"), findings),
        "marked_time": marks.mark(usage.usage(gpus), findings),
        "over_steps": values.over_steps(told),
        "ridge": values.ridge(told),
        "at_step": values.at_step(stored, tensor="fc.weight", step=40),
        "matrix": values.matrix(np.asarray(stored, np.float64)),
        "layers": values.layers(digest.layers("gradients", "abs_mean"), statistic="abs_mean"),
        "rank_times": step_figures.rank_times(ranks.compare_ranks(made.steps)),
        "rank_phases": step_figures.rank_phases(ranks.compare_ranks(made.steps)),
        "operators": profiles.bars(operators.top_operators(operator_table("convolution", "layer1.0"))),
        "window": profiles.window(call_table("convolution", "layer1.0")),
        "icicle": profiles.icicle(call_tree.call_tree([({}, flame_list("step"))])),
        "linked": system_charts.linked([usage.usage(gpus), phases.over_time(digest.steps())], title="Both"),
    }


def empty(made: Made) -> dict[str, go.Figure]:
    """Draw each figure without data."""
    digest, run = made.digest, made.run
    nothing = digest.system("tpu")
    no_steps, no_numbers = digest.steps("nobody"), digest.scalar("nothing")
    nobody = job.JobPhases(0, 1, None, None, {})
    return {
        "usage": usage.usage(nothing),
        "usage_together": usage.usage(nothing, is_mean=True),
        "usage_histogram": usage.histogram(nothing),
        "heat_map": usage.heat_map(nothing),
        "boxes": usage.boxes([]),
        "durations": step_figures.durations(no_steps),
        "step_histogram": step_figures.histogram({}),
        "step_timeline": step_figures.timeline(no_steps),
        "lanes": phases.tracks(run.timeline(worker="nobody")),
        "over_time": phases.over_time(no_steps),
        "progress": phases.progress(no_steps),
        "pie": phases.pie({}, title="Phases"),
        "pie_zero": phases.pie({"data": 0.0}, title="Phases"),
        "job_phases": phases.job_phases(nobody),
        "shares": phases.shares({}),
        "scalars": scalars.scalars(no_numbers),
        "compare": scalars.compare({}),
        "compare_absent": scalars.compare({"one": no_numbers}),
        "over_steps": values.over_steps(_no_histograms()),
        "ridge": values.ridge(_no_histograms()),
        "at_step": values.at_step(None, tensor="x", step=1),
        "matrix": values.matrix(None),
        "at_step_nan": values.at_step(np.array([np.nan, np.inf]), tensor="x", step=1),
        "at_step_none": values.at_step(np.zeros((0, 3)), tensor="x", step=1),
        "layers": values.layers(digest.layers("nothing", "abs_mean"), statistic="abs_mean"),
        "layers_nan": values.layers({"tensors": ["x"], "steps": [0], "values": [[np.nan]]}, statistic="abs_mean"),
        "rank_times": step_figures.rank_times(None),
        "rank_phases": step_figures.rank_phases(None),
        "operators": profiles.bars([]),
        "window": profiles.window(call_table("x", "y").slice(0, 0)),
        "icicle": profiles.icicle([]),
        "linked": system_charts.linked([usage.usage(nothing)]),
    }


def malicious(made: Made) -> dict[str, go.Figure]:
    """Draw each figure that shows names of the run, with malicious names."""
    digest = made.digest
    gpus = renamed(digest.system("gpu", "utilization_percent"), node=EVIL, device=EVIL)
    rows = renamed(digest.steps(), worker=EVIL)
    numbers = renamed(digest.scalar("loss"), name=EVIL, worker=EVIL)
    told = {**digest.layers("gradients", "abs_mean"), "tensors": [EVIL + str(at) for at in range(4)]}
    timeline = renamed(made.run.timeline(worker="rank0-7", end_step=20), name=EVIL)
    found = histograms.read_histograms(made.run.tensor("fc.weight"))
    evil_histograms = histograms.Histograms(EVIL, found.steps, found.edges, found.counts)
    return {
        "usage": usage.usage(gpus),
        "usage_histogram": usage.histogram(gpus),
        "heat_map": usage.heat_map(gpus),
        "boxes": usage.boxes(distributions(gpus)),
        "durations": step_figures.durations(rows),
        "step_histogram": step_figures.histogram(
            dict.fromkeys((f"{EVIL}/train", "rank0-7/train"), next(iter(digest.step_durations().values())))
        ),
        "lanes": phases.tracks(timeline),
        "progress": phases.progress(rows),
        "pie": phases.pie({EVIL: 1.0, "other": 2.0}, title="Phases"),
        "shares": phases.shares({EVIL: 1.0, "data": 1.0}),
        "scalars": scalars.scalars(numbers),
        "compare": scalars.compare({EVIL: numbers, "b": numbers}),
        "marked": marks.mark(scalars.scalars(numbers), [_finding(EVIL, 40)]),
        "over_steps": values.over_steps(evil_histograms),
        "ridge": values.ridge(evil_histograms),
        "at_step": values.at_step(np.arange(5.0), tensor=EVIL, step=1),
        "layers": values.layers(told, statistic=EVIL),
        "operators": profiles.bars(operators.top_operators(operator_table(EVIL, EVIL))),
        "window": profiles.window(call_table(EVIL, EVIL)),
        "icicle": profiles.icicle(call_tree.call_tree([({}, flame_list(EVIL))])),
        "words": usage.usage(digest.system("tpu"), missing=EVIL),
    }


DRAWN: dict[str, Callable[[Made], dict[str, go.Figure]]] = {"full": full, "empty": empty, "malicious": malicious}


def renamed(table: pa.Table, **words: str) -> pa.Table:
    """Replace the text of some columns; rows stay distinct."""
    for name, word in words.items():
        kept = [f"{word}{each}" for each in table[name].to_pylist()]
        table = table.set_column(table.column_names.index(name), name, pa.array(kept, pa.string()))
    return table


def _finding(rule: str, step: int) -> dict[str, Any]:
    return {"rule": rule, "id": 1, "step": step, "time_ns": START_NS + step * 230_000_000, "message": f"{rule} at last"}


def _no_histograms() -> histograms.Histograms:
    return histograms.Histograms("x", (), np.zeros(1), np.zeros((0, 0)))


def operator_table(operator: str, module: str) -> pa.Table:
    """Return operators like ``Run.operators``."""
    rows = [
        {
            "phase": phase,
            "operator": operator,
            "module": module,
            "device": device,
            "calls": 3,
            "total_ns": 5_000_000,
            "own_ns": own,
            "memory_bytes": 0,
        }
        for own, (phase, device) in enumerate((("forward", "cpu"), ("backward", "cpu"), ("forward", "gpu0")), 1_000_000)
    ]
    return pa.Table.from_pylist(rows)


def call_table(operator: str, module: str) -> pa.Table:
    """Return nested calls like ``Run.operator_calls``."""
    rows = [
        {
            "worker": "rank0-7",
            "window": "detailed-1",
            "step": 1,
            "mode": "train",
            "phase": "forward",
            "operator": operator,
            "module": module,
            "device": device,
            "start_ns": START_NS + begin,
            "total_ns": length,
            "own_ns": length,
            "thread": 1,
            "memory_bytes": None,
        }
        for device, begin, length in (("cpu", 0, 9_000_000), ("cpu", 1_000_000, 2_000_000), ("gpu0", 0, 5_000_000))
    ]
    return pa.Table.from_pylist(rows)


def flame_list(name: str) -> list[Flame]:
    """A call of a tenth of a second that calls another twice."""
    second = 1_000_000_000
    return [
        Flame(name, f"/x/site-packages/{name}/a.py", 1, 0, second),
        Flame("inner", "/x/b.py", 2, 0, second // 4),
        Flame("inner", "/x/b.py", 2, second // 2, second // 4),
    ]
