"""Statuses of rules, from documents as the judge writes them one after the other."""

from __future__ import annotations

import os
from pathlib import Path

from test_job_queue import new_job

from leadline.records.documents import RuleDocument, RuleSummary, SummarizedRule
from leadline.serve.job_folder import JobFolder
from leadline.serve.rule_status import current_rules
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
