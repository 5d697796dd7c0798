"""Statuses of rules, from documents as the judge writes them one after the other."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from test_job_queue import new_job

from leadline.records.describe import ENDED_EARLY
from leadline.records.documents import RuleDocument, RuleSummary, SummarizedRule
from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.serve.job_folder import JobFolder
from leadline.serve.rule_status import current_rules
from leadline.serve.training_job import RuleEvaluation
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.testing.runs import RunWriter

MET = (
    "RuleEvaluationConditionMet: Evaluation of the rule ExplodingTensor at step 3 resulted in the condition being met\n"
)


def test_a_finding_is_reported_when_its_step_is_known(tmp_path: Path) -> None:
    job, folder = new_job("job"), JobFolder(str(tmp_path), "job")
    RunWriter(Path(folder.run))

    def statuses() -> list[tuple[str, str]]:
        return [(rule.status, rule.details) for rule in current_rules(job, folder, 5)]

    assert statuses() == [("InProgress", "")]
    path = os.path.join(folder.run, layout.rule_status("Nan"))
    make_folder(os.path.dirname(path))
    write_document(path, RuleDocument(name="Nan", rule="exploding_tensor", status="IssuesFound", findings=1))
    summary = os.path.join(folder.run, layout.RULE_SUMMARY)
    before = SummarizedRule(name="Nan", rule="exploding_tensor", status="InProgress")
    write_document(summary, RuleSummary(rules=(before,)))
    assert statuses() == [("InProgress", "")]
    found = {"findings": 1, "step": 3, "message": "loss is NaN"}
    after = SummarizedRule(name="Nan", rule="exploding_tensor", status="IssuesFound", **found)
    write_document(summary, RuleSummary(rules=(after,)))
    assert statuses() == [("IssuesFound", f"{MET}loss is NaN")]


EVERY_500 = CaptureItem("losses", statistics=("value",), schedule=Schedule(every=500), source="rule:Falling")
OF_BOOSTERS = replace(EVERY_500, schedule=Schedule(every=5), family="trees")
SAVED = "; requested: losses every 500 steps"


@pytest.mark.parametrize(
    ("document", "status", "details"),
    [
        ({"verdict": "clear"}, "NoIssuesFound", ""),
        ({"verdict": "not_applicable", "why": "no GPU was sampled"}, "NoIssuesFound", "no GPU was sampled"),
        (
            {"verdict": "undecided", "why": "1 of the 10 losses needed"},
            "NoIssuesFound",
            f"The rule had too little data to decide: 1 of the 10 losses needed{SAVED}",
        ),
        (
            {"verdict": "undecided", "why": "its evaluation was ended early", "status": "Stopped"},
            "Stopped",
            "",
        ),
        ({"verdict": "clear", "status": "InProgress"}, "Error", f"InternalServerError: {ENDED_EARLY}"),
        (
            {"verdict": "undecided", "why": "KeyError: 'x'", "status": "Error"},
            "Error",
            "InternalServerError: KeyError: 'x'",
        ),
    ],
)
def test_an_undecided_rule_says_what_it_lacked(
    tmp_path: Path, document: dict[str, str], status: str, details: str
) -> None:
    rules = (RuleEvaluation("Falling", "LossNotDecreasing", "job-falling", False, False, 1),)
    job, folder = replace(new_job("job"), status="Completed", rules=rules), JobFolder(str(tmp_path), "job")
    RunWriter(Path(folder.run), plan=CapturePlan((EVERY_500, OF_BOOSTERS)))
    path = os.path.join(folder.run, layout.rule_status("Falling"))
    make_folder(os.path.dirname(path))
    known = {"name": "Falling", "rule": "loss_not_decreasing", "status": "NoIssuesFound"} | document
    write_document(path, RuleDocument(**known))
    (rule,) = current_rules(job, folder, 5)
    assert (rule.status, rule.details) == (status, details)
