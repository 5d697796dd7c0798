"""Small documents that are damaged: they are named, and what they said is derived from those that are whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from leadline.analysis.overview import overview
from leadline.judge.judge import judge_run
from leadline.reader.find_runs import list_runs
from leadline.reader.run import Run
from leadline.records.manifest import RuleSpec
from leadline.store import layout
from leadline.store.node_lock import node_name
from leadline.store.run_state import read_rule
from leadline.testing.runs import Capture, RunWriter

RULES = ("exploding_tensor", "loss_not_decreasing")
DAMAGE = {"text": b"x", "empty": b"", "half": None, "zeros": bytes(64), "another type": b"[1]", "no status": b'{"a":1}'}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of this machine that has ended, with a finding."""
    path = tmp_path_factory.mktemp("whole") / "run"
    writer = RunWriter(path, rules=[RuleSpec(name, name) for name in RULES])
    for step in range(12):
        writer.write(Capture(step, {"loss": {"value": float("nan") if step == 7 else 1.0}}))
    writer.write_node(node_name(), agent_pid=1 << 22)
    judge_run(writer.end().path, write=True)
    return path


def damaged(whole: Path, tmp_path: Path, name: str, how: str) -> Run:
    copy = tmp_path / "runs" / "run"
    shutil.copytree(whole, copy)
    data = DAMAGE[how]
    (copy / name).write_bytes((copy / name).read_bytes()[:40] if data is None else data)
    return Run(str(copy))


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_status(whole: Path, tmp_path: Path, how: str) -> None:
    run = damaged(whole, tmp_path, layout.STATUS, how)
    assert run.damage == ["status.json: not a readable document"]
    assert run.status == Run(str(whole)).status == "Completed"
    (listed,) = list_runs(os.path.dirname(run.path))
    assert (listed.status, listed.damage) == ("Completed", ("status.json",))


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_summary(whole: Path, tmp_path: Path, how: str) -> None:
    run = damaged(whole, tmp_path, layout.RULE_SUMMARY, how)
    assert run.damage == ["rules/summary.json: not a readable document"]
    assert overview(run)["rules"] == overview(Run(str(whole)))["rules"]
    (listed,) = list_runs(os.path.dirname(run.path))
    assert [(rule.name, rule.findings) for rule in listed.rules] == [(RULES[0], 1), (RULES[1], 0)]
    assert listed.damage == ("rules/summary.json",)


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_document_of_a_rule(whole: Path, tmp_path: Path, how: str) -> None:
    name = layout.rule_status(RULES[0])
    run = damaged(whole, tmp_path, name, how)
    assert run.damage == [f"{name}: not a readable document"]
    rule = read_rule(run.path, RULES[0])
    assert rule is not None
    assert (rule.status, rule.verdict, rule.findings) == ("IssuesFound", "fired", 1)


def test_a_damaged_document_of_a_worker(whole: Path, tmp_path: Path) -> None:
    (worker,) = Run(str(whole)).worker_documents()
    run = damaged(whole, tmp_path, layout.worker_document(worker), "text")
    assert run.damage == [f"{layout.worker_document(worker)}: not a readable document"]
    assert run.steps() == list(range(12))
    (listed,) = list_runs(os.path.dirname(run.path))
    assert listed.damage == (layout.worker_document(worker),)


def test_a_whole_run_is_not_damaged(whole: Path) -> None:
    assert Run(str(whole)).damage == []
    (listed,) = list_runs(whole.parent)
    assert listed.damage == ()
