"""The XGBoost report of real trainings: updated while they run, with the same numbers as scikit-learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import LEADLINE, Ended, environment, finish, script

from leadline.analysis import scores, trees
from leadline.analysis.boosted_run import BoostedRun
from leadline.reports import xgboost

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "trees" / "bin" / "python")
LAST = 25

pytestmark = pytest.mark.slow


def trained(kind: str, folder: Path) -> tuple[Ended, dict[str, Any]]:
    launch = [PYTHON, *LEADLINE[1:], "run", "--out", str(folder / "runs"), "--budget", "off", "--no-default-rules"]
    job = [PYTHON, script("boosted_reported.py"), kind]
    ended = finish([*launch, "--rule", "CreateXgboostReport", "--", *job], folder, env=environment())
    assert ended.status == 0, ended.err
    return ended, json.loads((folder / "truth.json").read_text())


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_the_report_of_a_classifier_matches_scikit_learn(tmp_path: Path, kind: str) -> None:
    ended, truth = trained(kind, tmp_path)
    boosted = BoostedRun(ended.run)
    assert (boosted.model.kind, boosted.model.evaluated_on, boosted.model.steps[-1]) == (kind, "holdout", LAST)
    assert boosted.matrix is not None
    assert boosted.matrix.tolist() == truth["confusion"]
    for name, score in scores.averages(boosted.matrix).items():
        assert (score.precision, score.recall, score.f1) == pytest.approx(truth["averages"][name], abs=1e-12)
    areas = {name: curve.auc for name, curve in boosted.curves().items() if name != "micro"}
    assert areas == pytest.approx(truth["areas"], abs=1e-9)
    check_report(ended, {"residuals", "error-by-label"})


def test_the_report_of_a_regression_matches_scikit_learn(tmp_path: Path) -> None:
    ended, truth = trained("regression", tmp_path)
    boosted = BoostedRun(ended.run)
    assert (boosted.model.kind, boosted.model.steps[-1]) == ("regression", LAST)
    assert boosted.last is not None
    residuals = trees.residuals(boosted.last)
    assert float(np.abs(residuals).mean()) == pytest.approx(truth["error"], rel=1e-5)
    assert float(residuals.mean()) == pytest.approx(truth["bias"], rel=1e-4, abs=1e-4)
    check_report(ended, {"confusion-matrix", "evaluation", "class-accuracy", "roc"})


def check_report(ended: Ended, absent: set[str]) -> None:
    """Check that the judge wrote the report and completed it after the end of the training."""
    page = Path(ended.run.path, "reports", "xgboost.html").read_text()
    sections = xgboost.chapter(ended.run).sections
    assert {section.key for section in sections if section.why_empty} == absent
    for section in sections:
        assert section.title in page
        assert all(text.partition("'")[0] in page for text in section.paragraphs)
    summary = ended.show()
    (rule,) = summary["rules"]
    assert (rule["name"], rule["status"], rule["verdict"]) == ("create_xgboost_report", "NoIssuesFound", "clear")
