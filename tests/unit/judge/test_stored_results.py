"""Results of an evaluation after the end of a run: what is written into it, and what stays."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from leadline.judge import stored_results as subject
from leadline.judge.rule_entry import RuleResult
from leadline.judge.stored_results import lock_rules, store_results
from leadline.reader.run import open_run
from leadline.records.documents import RuleDocument, RuleSummary
from leadline.records.finding import Finding
from leadline.records.manifest import RuleSpec
from leadline.remote.mirror import root_folder
from leadline.store import layout
from leadline.store.documents import append_line, make_folder, read_document, write_document
from leadline.store.run_state import read_rule, read_rule_summary
from leadline.testing.runs import Capture, RunWriter

SPEC = RuleSpec("nan", "exploding_tensor")
FOUND = Finding(1, "nan", 4, 4, False, 0, "loss is NaN at step 4", "this", ("loss",), 1)


@pytest.fixture
def run(tmp_path: Path) -> str:
    writer = RunWriter(tmp_path / "run", rules=[SPEC, RuleSpec("gone", "loss_spike")])
    return writer.write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(5)]).end().path


def result(verdict: str | None, status: str = "NoIssuesFound", *findings: Finding, why: str = "") -> RuleResult:
    return RuleResult("nan", "exploding_tensor", {}, status, verdict, why, 5, findings, judged_step=4)


def tell(run: str, verdict: str, status: str, *findings: Finding, complete: bool = True) -> None:
    """Write what the judge of the running job has found."""
    make_folder(os.path.dirname(os.path.join(run, layout.rule_status("nan"))))
    document = RuleDocument("nan", "exploding_tensor", {}, status, verdict, findings=len(findings))
    write_document(os.path.join(run, layout.rule_status("nan")), document)
    for finding in findings:
        append_line(os.path.join(run, layout.rule_findings("nan")), {"event": "opened", **asdict(finding)})
    rule = {"name": "nan", "rule": "exploding_tensor", "status": status, "verdict": verdict, "findings": len(findings)}
    removed = {"name": "gone", "rule": "loss_spike", "status": "Stopped", "verdict": "undecided", "why": "removed"}
    announcement = {"id": 1, "step": 4, "rule": "nan", "message": "loss is NaN"}
    summary = {"complete": complete, "rules": [rule, removed], "announcements": [announcement]}
    write_document(os.path.join(run, layout.RULE_SUMMARY), summary)


def summary(run: str) -> RuleSummary:
    found = read_rule_summary(run)
    assert found is not None
    return found


def test_a_run_without_a_judge_gets_the_results(run: str) -> None:
    assert store_results(run, [SPEC], [result("fired", "IssuesFound", FOUND)]) == ""
    (rule,) = summary(run).rules
    assert (summary(run).complete, rule.status, rule.verdict, rule.step) == (True, "IssuesFound", "fired", 4)
    document = read_rule(run, "nan")
    assert document is not None
    assert (document.status, document.judged_step, document.findings) == ("IssuesFound", 4, 1)
    assert [row["message"] for row in open_run(run).findings().to_pylist()] == ["loss is NaN at step 4"]


def test_an_evaluation_that_was_ended_early_is_completed(run: str) -> None:
    tell(run, "undecided", "Stopped", complete=False)
    assert store_results(run, [SPEC], [result("clear")]) == ""
    assert [(rule.name, rule.status, rule.verdict) for rule in summary(run).rules] == [
        ("nan", "NoIssuesFound", "clear"),
        ("gone", "Stopped", "undecided"),
    ]
    assert summary(run).complete
    assert [line.message for line in summary(run).announcements] == ["loss is NaN"]


@pytest.mark.parametrize(
    "later",
    [result("clear"), result("undecided", why="no losses were captured"), result(None, "Error", why="not trusted")],
)
def test_findings_of_the_running_job_stay(run: str, later: RuleResult) -> None:
    tell(run, "fired", "IssuesFound", FOUND, complete=False)
    assert store_results(run, [SPEC], [later]) == ""
    rule = next(rule for rule in summary(run).rules if rule.name == "nan")
    assert (rule.status, rule.verdict, rule.findings) == ("IssuesFound", "fired", 1)
    assert len(open_run(run).findings()) == 1
    assert summary(run).complete


@pytest.mark.parametrize(
    ("later", "verdict"),
    [
        (result("undecided", why="its raw tensors were removed"), "clear"),
        (result(None, "Error", why="not trusted"), "clear"),
        (result("fired", "IssuesFound", FOUND), "fired"),
    ],
)
def test_a_final_verdict_is_replaced_only_by_a_finding(run: str, later: RuleResult, verdict: str) -> None:
    tell(run, "clear", "NoIssuesFound")
    assert store_results(run, [SPEC], [later]) == ""
    assert next(rule.verdict for rule in summary(run).rules if rule.name == "nan") == verdict


def test_results_that_are_known_change_nothing(run: str) -> None:
    store_results(run, [SPEC], [result("clear")])
    before = os.stat(os.path.join(run, layout.RULE_SUMMARY)).st_mtime_ns, sorted(os.listdir(run))
    assert store_results(run, [SPEC], [result("clear")]) == ""
    assert (os.stat(os.path.join(run, layout.RULE_SUMMARY)).st_mtime_ns, sorted(os.listdir(run))) == before


def test_a_run_whose_judge_is_at_work_is_not_written(run: str) -> None:
    lock = lock_rules(run)
    assert lock is not None
    assert store_results(run, [SPEC], [result("clear")]) == "its own judge is still at work"
    os.close(lock)
    assert store_results(run, [SPEC], [result("clear")]) == ""


def test_a_run_that_was_removed_is_not_created_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lock_rules(str(tmp_path / "removed"))
    assert not (tmp_path / "removed").exists()


def test_a_run_that_is_still_running_is_not_written(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", rules=[SPEC])
    writer.set_status("InProgress", node=os.uname().nodename, agent_pid=os.getpid())
    assert "still running" in store_results(writer.path, [SPEC], [result("clear")])
    assert read_document(os.path.join(writer.path, layout.RULE_SUMMARY)) is None


def test_a_mirror_of_a_run_in_a_store_is_not_written(run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    mirror = os.path.join(root_folder("s3://bucket"), "run")
    shutil.copytree(run, mirror)
    write_document(os.path.join(mirror, layout.MIRROR), {"uri": "s3://bucket/run"})
    assert store_results(mirror, [SPEC], [result("clear")]) == "it is a copy of s3://bucket/run"


def test_a_run_of_another_user_or_in_a_read_only_folder_is_not_written(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject.os, "access", lambda *_: False)
    assert store_results(run, [SPEC], [result("clear")]) == "its folder is read-only"
    user = os.geteuid() + 1
    monkeypatch.setattr(subject.os, "geteuid", lambda: user)
    assert store_results(run, [SPEC], [result("clear")]) == "it belongs to another user"
