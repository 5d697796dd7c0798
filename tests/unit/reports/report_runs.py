"""Runs for the tests of reports: with GPUs, with malicious names, and without data."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from timelines import CPU, IOWAIT, MEMORY, gpu, merge_by_time, sampled, training

from leadline.records.finding import Finding
from leadline.records.series import TensorInfo
from leadline.store import layout
from leadline.store.documents import append_line, make_folder
from leadline.testing.runs import SECOND_NS, START_NS, Capture, DetailedProfile, RunWriter

MALICIOUS = ("<script>alert(1)</script>", "../..", "x" * 10_000, "🚀 acc", '"><img src=x onerror=alert(1)>')
COUNT = 60
STARVED = range(10, 25)
"""Samples in which the CPU is saturated and the GPUs are idle."""


def machine_run(path: Path) -> str:
    """Two GPUs, two ranks, 100 steps, malicious metric names, gradients, findings, a detailed profile."""
    chance = random.Random(7)
    busy = [0.0 if sample in STARVED else 95.0 for sample in range(COUNT)]
    values = {
        CPU: [99.0 if sample in STARVED else 40.0 for sample in range(COUNT)],
        IOWAIT: [1.0] * COUNT,
        MEMORY: [30.0] * COUNT,
        gpu(0): busy,
        gpu(1): [value / 2 for value in busy],
        gpu(0, "memory_used_percent"): [50.0] * COUNT,
        gpu(1, "memory_used_percent"): [20.0] * COUNT,
    }
    steps = [
        {
            "data": 5.0,
            "forward": 30.0,
            "backward": 60.0,
            "optimizer": 10.0,
            **({"checkpoint": 900.0} if step == 77 else {}),
        }
        for step in range(100)
    ]
    infos = {name: TensorInfo(name, ("metrics",), ()) for name in MALICIOUS}
    scalars = [
        Capture(
            step,
            {"loss": {"value": 2.0 / (step + 1)}, **{name: {"value": chance.random()} for name in MALICIOUS}},
            infos=infos,
        )
        for step in range(100)
    ]
    layers = {f"gradient/layers.{index}.weight": {"abs_mean": 10.0**-index} for index in range(4)}
    of_layers = {name: TensorInfo(name, ("gradients",), (4, 4)) for name in layers}
    tensors = [Capture(step, layers, infos=of_layers) for step in range(0, 100, 20)]
    records = merge_by_time(
        training(steps, has_captures=False),
        training(steps, worker="rank1-2", has_captures=False),
        scalars,
        tensors,
        sampled(values, every_ms=500.0),
    )
    window = DetailedProfile("w1", 3, START_NS + SECOND_NS, [("aten::mm", 1.0, 30.0), ("aten::relu", 40.0, 5.0)])
    run = RunWriter(path).write_all([*records, window]).end().path
    write_findings(run)
    return run


def write_findings(run: str) -> None:
    """Write three findings, of which the second has the first step, and the last one lasts until the end."""
    for number, (rule, step, tensors) in enumerate(
        (
            ("loss_spike", 50, ("loss",)),
            ("exploding_tensor", 20, (MALICIOUS[0],)),
            ("low_gpu_utilization", 90, ("node/gpu1",)),
        )
    ):
        finding = Finding(
            id=1,
            rule=rule,
            step=step,
            last_step=step + number,
            is_open=number == 2,
            time_ns=START_NS + step * SECOND_NS // 10,
            message=f"{rule} saw {MALICIOUS[0]}",
            suggestion="less; usually more",
            tensors=tensors,
            tensor_count=len(tensors),
            worker=None,
            evidence={"value": 1.5, MALICIOUS[4]: MALICIOUS[0]},
        )
        path = os.path.join(run, layout.rule_findings(rule))
        make_folder(os.path.dirname(path))
        append_line(
            path,
            {
                "event": "opened" if finding.is_open else "closed",
                **{k: getattr(finding, k) for k in Finding.__dataclass_fields__},
            },
        )
    rules = [
        {"name": rule, "rule": rule, "status": "IssuesFound", "verdict": "fired", "why": "", "explained_by": None}
        for rule in ("exploding_tensor", "loss_spike", "low_gpu_utilization")
    ]
    with open(os.path.join(run, layout.RULE_SUMMARY), "w", encoding="utf-8") as file:
        json.dump({"complete": True, "rules": rules}, file)


def bare_run(path: Path) -> str:
    """A run without captures, samples and rules."""
    return RunWriter(path).end().path
