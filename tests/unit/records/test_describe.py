"""Sentences about a run: the same number and text in every view."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.agent.summary import JobEnd, summary_lines
from leadline.analysis.overview import cost_of
from leadline.records import describe
from leadline.records.documents import (
    Announcement,
    DisabledCapture,
    DroppedData,
    DroppedSamples,
    NodeDocument,
    OverheadAtStart,
    RuleDocument,
    RuleSummary,
    SampledItem,
    SummarizedRule,
    WorkerDocument,
)
from leadline.records.formatting import share
from leadline.records.outcome import RunOutcome
from leadline.records.totals import compile_seconds, own_seconds, sampled, start_and_rest, step_share, steps_by_mode
from leadline.store import layout
from leadline.store.documents import make_folder, to_json, write_document
from leadline.store.run_html import verdict_html
from leadline.testing.runs import RunWriter


def entry(collection: str | None = "gradients", **changes: Any) -> SampledItem:
    item = SampledItem(
        collection,
        statistics=("l2",),
        sources=("preset",),
        requested_every=50,
        requests=20,
        captures=5,
        steps=1000,
        longest_gap=400,
    )
    return replace(item, **changes)


def test_the_share_is_of_all_workers_together() -> None:
    assert step_share([WorkerDocument(own_ns=1, loop_ns=100), WorkerDocument(own_ns=5, loop_ns=100)]) == 0.03
    compiling = WorkerDocument(own_ns=1, compile_ns=30, loop_ns=100)
    assert step_share([compiling]) == 0.31
    assert own_seconds([compiling]) == pytest.approx(31e-9)
    assert step_share([WorkerDocument(), WorkerDocument()]) is None
    assert step_share([]) is None


def test_the_overhead_has_the_longest_compilation_of_a_worker() -> None:
    workers = [WorkerDocument(compile_ns=10**9), WorkerDocument(compile_ns=8_100_000_000)]
    assert compile_seconds(workers) == pytest.approx(8.1)
    assert describe.overhead(9.34, 0.007, compile_seconds=8.1, written_bytes=41_000_000) == (
        "9.34 s (0.7 % of step time), 8.1 s of it to compile capture programs, 41 MB written"
    )
    start = OverheadAtStart(51, 610_000_000, 2_000_000_000)
    worker = WorkerDocument(steps={"train": 200}, own_ns=710_000_000, loop_ns=12_000_000_000, start=start)
    assert describe.overhead(0.71, 0.06, start=start_and_rest([worker, WorkerDocument()])) == (
        "710 ms: 610 ms in the first 51 steps, then 1.0 % of step time"
    )
    assert json.loads(json.dumps(cost_of("/no/run", [worker])["start"])) == {
        "steps": 51,
        "seconds": 0.61,
        "step_share_since": 0.01,
    }
    assert start_and_rest([replace(worker, steps={"train": 120})]) is None
    assert start_and_rest([]) is None
    assert describe.overhead(2.34, 0.007, compile_seconds=compile_seconds([])) == "2.34 s (0.7 % of step time)"


def test_the_seconds_are_of_the_worker_with_most() -> None:
    workers = [WorkerDocument(own_ns=10**9, loop_ns=10**11), WorkerDocument(own_ns=2 * 10**9, loop_ns=10**11)]
    assert own_seconds(workers) == 2.0
    assert own_seconds([WorkerDocument()]) is None


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0, "0.0 %"), (0.0004, "under 0.1 %"), (0.0071, "0.7 %"), (0.437, "44 %")]
)
def test_all_views_use_the_same_format(ratio: float, text: str) -> None:
    assert share(ratio) == text


def test_the_least_captured_of_all_workers_is_reported() -> None:
    workers = [WorkerDocument(sampled=(entry(captures=captures),)) for captures in (12, 4, 6)]
    assert sampled([*workers, WorkerDocument()]) == [entry(captures=4)]


@pytest.mark.parametrize(
    ("entries", "texts"),
    [
        ([], []),
        ([entry(), entry("weights")], ["gradients, weights every 200 steps on average, 50 requested"]),
        (
            [entry(name) for name in "abcdef"],
            ["a, b, c, d and 2 more every 200 steps on average, 50 requested"],
        ),
        ([entry(raw=True)], ["raw gradients every 200 steps on average, 50 requested"]),
        ([entry("layers", mode="eval")], ["layers every 200 steps of eval on average, 50 requested"]),
        ([entry(None)], ["tensors by name every 200 steps on average, 50 requested"]),
        ([entry("metrics", regexes=("accuracy",))], ["accuracy every 200 steps on average, 50 requested"]),
        (
            [entry("checks", regexes=("/replicas$",), sources=("rule:duplicate_batches", "rule:replica_divergence"))],
            ["checks every 200 steps on average, 50 requested"],
        ),
        (
            [entry("checks", regexes=("/replicas$",), sources=("preset", "rule:replica_divergence"))],
            ["/replicas$ every 200 steps on average, 50 requested"],
        ),
        ([entry(captures=19)], []),
        ([entry(steps=200)], ["gradients at 5 of 20 requested steps"]),
        ([entry(captures=0, mode="eval")], ["gradients at 0 of 20 requested steps of eval"]),
        ([entry(requested_every=None, requested_seconds=2.0)], ["gradients at 5 of 20 requested steps"]),
    ],
)
def test_sampling_is_formatted(entries: list[SampledItem], texts: list[str]) -> None:
    assert describe.sampling(entries) == texts


def test_every_view_has_the_same_number(tmp_path: Path) -> None:
    documents = {
        "rank0-1": WorkerDocument(
            "rank0-1", steps={"train": 9}, own_ns=70_000_000, loop_ns=10_000_000_000, sampled=(entry(),)
        ),
        "rank1-2": WorkerDocument("rank1-2", steps={"train": 9}, own_ns=50_000_000, loop_ns=10_000_000_000),
    }
    writer = RunWriter(tmp_path / "run")
    make_folder(str(tmp_path / "run" / layout.WORKERS))
    for name, document in documents.items():
        write_document(str(tmp_path / "run" / layout.worker_document(name)), document)
    workers = list(documents.values())
    make_folder(str(tmp_path / "run" / layout.NODES))
    write_document(str(tmp_path / "run" / layout.node_document("a")), NodeDocument("a", processor_seconds=0.5))
    write_document(str(tmp_path / "run" / layout.RULE_SUMMARY), RuleSummary(complete=True, processor_seconds=1.25))
    cost = cost_of(writer.path, workers)
    assert (cost["step_share"], cost["sampled"]) == (0.006, to_json([entry()]))
    ending = JobEnd(
        RunOutcome("Completed"), "Completed", 0, 0, 1.0, tuple(workers), 10, None, False, beside_seconds=1.75
    )
    text = "\n".join(summary_lines(ending, width=100))
    shown = "70 ms (0.6 % of step time), 1.75 s of processor time beside it, "
    assert f"Overhead: {shown}" in " ".join(text.split())
    assert shown in describe.overhead_of(workers, cost["beside_seconds"], cost["bytes"])
    expected = (
        "sampled less often to stay within the overhead budget: gradients every 200 steps on average, 50 requested"
    )
    assert expected in " ".join(text.split())
    html = verdict_html(writer.path)
    assert "overhead 70 ms (0.6 % of step time); sampled: gradients every 200 steps on average, 50 requested" in html


def test_steps_are_those_of_the_worker_with_the_most() -> None:
    workers = [WorkerDocument(steps={"train": 3750, "eval": 2}), WorkerDocument(steps={"train": 12, "eval": 9})]
    assert describe.steps(steps_by_mode(workers)) == "3,750 steps, 9 eval steps"
    assert describe.steps({"train": 1, "predict": 0}) == "1 step"
    assert describe.steps({}) == "no steps"


@pytest.mark.parametrize(
    ("status", "verdict", "findings", "state"),
    [
        ("IssuesFound", None, 0, "fired"),
        ("InProgress", "clear", 2, "fired"),
        ("Error", None, 1, "fired"),
        ("Error", "clear", 0, "error"),
        ("NoIssuesFound", "clear", 0, "clear"),
        ("NoIssuesFound", "undecided", 0, "undecided"),
        ("InProgress", None, 0, "undecided"),
    ],
)
def test_the_state_of_a_rule(status: str, verdict: str | None, findings: int, state: str) -> None:
    assert describe.rule_state(SummarizedRule(status=status, verdict=verdict, findings=findings)) == state
    assert describe.rule_state(RuleDocument(status=status, verdict=verdict, findings=findings)) == state


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            {"models": [{"name": "Net", "parameters": 62}], "optimizers": ["AdamW"], "watching": "losses every step"},
            "watching Net (62 parameters, AdamW): losses every step",
        ),
        (
            {
                "models": [{"name": "G", "parameters": 1}, {"name": "D", "parameters": 2000}],
                "optimizers": ["Adam", "Adam"],
                "watching": "x",
            },
            "watching G and D (2,001 parameters, Adam): x",
        ),
        ({"models": [{"name": "Net", "parameters": 1}]}, "watching Net (1 parameter)"),
        ({"optimizers": ["SGD"], "watching": "losses"}, "watching the training (SGD): losses"),
        ({}, "watching the training"),
    ],
)
def test_what_is_captured_is_described(document: dict[str, object], said: str) -> None:
    assert describe.watched(WorkerDocument.from_dict(document)) == said


def test_announcements() -> None:
    finding = Announcement(1, 1312, "exploding_tensor", "loss is NaN")
    text = "step 1,312  exploding_tensor: loss is NaN"
    assert describe.announcement(finding) == text
    acting = replace(finding, action="stopping at step 1314")
    assert describe.announcement(acting) == f"{text} → stopping at step 1314"
    assert describe.announcement(replace(finding, step=None)).startswith("exploding_tensor: ")
    failure = Announcement(2, rule="stall_mail", message="notify:$MAIL failed: no", kind="failure")
    assert describe.announcement(failure) == "stall_mail: notify:$MAIL failed: no"


def test_problems_of_a_worker() -> None:
    dropped = DroppedData(since_step=7, reason="the disk is full", rows=1, tensors=2, bytes=9)
    disabled = DisabledCapture(1300, "boom")
    assert describe.problems(WorkerDocument(lost=dropped, off=disabled)) == {
        "lost": "dropped 1 row and 2 tensors since step 7: the disk is full",
        "off": "capture ended at step 1,300: boom",
    }
    assert describe.problems(WorkerDocument()) == {}
    assert describe.dropped_data(DroppedData()) == "dropped captured data since step ?: unknown reason"
    assert describe.dropped_samples(DroppedSamples(1200, 5, "full")) == "1,200 system metric samples: full"
