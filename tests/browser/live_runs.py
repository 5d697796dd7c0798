"""Runs for browser tests that the test writes while a page is open."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from timelines import CPU, IOWAIT, MEMORY, RSS, gpu, merge_by_time, sampled, training

from leadline.records.event import Event
from leadline.records.manifest import RuleSpec
from leadline.records.metric import Channel
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.testing.runs import SECOND_NS, START_NS, Capture, Part, RunWriter, TimelineEvent

STEP_MS = 150.0
PHASES = {"data": 20.0, "forward": 40.0, "backward": 70.0, "optimizer": 20.0}
LOOP_NS = START_NS + 2 * SECOND_NS


def training_parts(
    seconds: int, *, first_second: int = 0, gpus: int = 2, cores: int = 4, node: str = "node-1"
) -> list[Part]:
    """Return seconds of a training on one node: steps of 150 ms, samples every 0.5 s, a loss per step."""
    count = 2 * seconds
    begin = START_NS + first_second * SECOND_NS
    channels = {CPU: 40.0, IOWAIT: 2.0, MEMORY: 30.0, RSS: 2e9, **{gpu(index): 80.0 - index for index in range(gpus)}}
    channels |= {gpu(index, "memory_used_percent"): 50.0 for index in range(gpus)}
    channels |= {Channel("cpu", f"core{index}", "utilization_percent"): 10.0 * index for index in range(cores)}
    samples = sampled({key: [value] * count for key, value in channels.items()}, start_ns=begin, node=node)
    first = 0 if not first_second else round((first_second - 2) * 1000 / STEP_MS)
    steps = round((seconds if first_second else seconds - 2) * 1000 / STEP_MS)
    start_ns = LOOP_NS + round(first * STEP_MS * 1e6)
    rows = training([PHASES] * steps, start_ns=start_ns, first_step=first, has_captures=False)
    losses = [
        Capture(step, {"loss": {"value": 2.0 / (step + 1)}}, time_ns=start_ns + round((step - first) * STEP_MS * 1e6))
        for step in range(first, first + steps)
    ]
    return merge_by_time(samples, [*rows, *([] if first_second else _start())], losses)


def _start() -> list[Part]:
    imports = Event("imports", 0, START_NS, SECOND_NS, "initialization")
    setup = Event("setup", 0, START_NS + SECOND_NS, SECOND_NS, "initialization")
    return [TimelineEvent(imports), TimelineEvent(setup)]


def write_live_run(root: Path, name: str, parts: Sequence[Part], *, nodes: Sequence[str] = ("node-1",)) -> RunWriter:
    """Write a running job whose agent is this process."""
    spec = RuleSpec("exploding_tensor", "exploding_tensor")
    writer = RunWriter(root / name, rules=(spec,)).write_all(parts)
    for node in nodes:
        writer.write_node(node, cpu_count=4, gpus=[{"name": "H200"}, {"name": "H200"}])
    judge(writer, findings=[])
    return writer


def end(writer: RunWriter, second: int) -> None:
    """End the run after a number of seconds."""
    writer.end()
    writer.set_status("Completed", exit_status=0, ended_ns=START_NS + second * SECOND_NS)


def judge(writer: RunWriter, findings: Sequence[dict[str, object]]) -> None:
    """Write the rule status, findings and summary as the judge does."""
    found = bool(findings)
    told = {
        "name": "exploding_tensor",
        "rule": "exploding_tensor",
        "status": "IssuesFound" if found else "InProgress",
        "verdict": "fired" if found else "clear",
        "why": "",
        "findings": len(findings),
        "step": None,
        "message": None,
        "suggestion": None,
        "explained_by": None,
    }
    make_folder(os.path.join(writer.path, os.path.dirname(layout.rule_status("exploding_tensor"))))
    status = {**told, "parameters": {}, "judged_steps": 10, "updated_ns": START_NS}
    write_document(os.path.join(writer.path, layout.rule_status("exploding_tensor")), status)
    with open(os.path.join(writer.path, layout.rule_findings("exploding_tensor")), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(finding) + "\n" for finding in findings)
    write_document(os.path.join(writer.path, layout.RULE_SUMMARY), {"complete": False, "rules": [told]})


def finding(step: int, time_ns: int) -> dict[str, object]:
    """Return a finding as written by exploding_tensor."""
    return {
        "event": "opened",
        "id": 1,
        "rule": "exploding_tensor",
        "step": step,
        "last_step": step,
        "is_open": True,
        "time_ns": time_ns,
        "message": "loss is NaN",
        "suggestion": "a tenth of the learning rate",
        "tensors": ["loss"],
        "tensor_count": 1,
        "worker": "rank0-1",
        "evidence": {"loss": "NaN"},
        "count": 1,
    }
