"""Boosters that learn nothing are told by what guessing reaches, which is exact for each metric."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from launching import LEADLINE, Ended, environment, finish, script

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "trees" / "bin" / "python")
METRICS = {
    "xgboost": ["mae", "rmse", "quantile", "poisson-nloglik", "logloss", "ndcg@3", "map@3"],
    "lightgbm": ["l1", "l2", "quantile", "poisson", "binary_logloss", "ndcg@3", "map@3"],
}

pytestmark = pytest.mark.slow


def launch(library: str, folder: Path, *arguments: str) -> Ended:
    words = [PYTHON, *LEADLINE[1:], "run", "--out", str(folder / "runs"), "--budget", "off", "--"]
    return finish([*words, PYTHON, script("guessing_boosters.py"), library, *arguments], folder, env=environment())


def set_name(metric: str) -> str:
    return re.sub(r"\W", "_", metric)


def values(ended: Ended, name: str) -> list[float]:
    """Return the values of a metric, or of a fact about it, that were captured."""
    found = (row["value"] for row in ended.run.scalars(name).to_pylist())
    return [value for value in found if not math.isnan(value)]


@pytest.mark.parametrize("library", METRICS)
def test_guessing_is_the_metric_of_a_constant(tmp_path: Path, library: str) -> None:
    ended = launch(library, tmp_path, "--constant")
    assert ended.status == 0, ended.err
    for metric in METRICS[library]:
        for labels in ("noise", "learnable"):
            name = f"{set_name(metric)}_{labels}-{metric}"
            guess, reached = values(ended, f"{name}/guess_level"), values(ended, name)
            assert guess[0] == pytest.approx(reached[0], rel=2e-5), name


@pytest.mark.parametrize("library", METRICS)
def test_only_labels_that_can_be_learned_are_better_than_guessing(tmp_path: Path, library: str) -> None:
    ended = launch(library, tmp_path)
    assert ended.status == 0, ended.err
    for metric in METRICS[library]:
        for labels in ("noise", "learnable"):
            name = f"{set_name(metric)}_{labels}-{metric}"
            (guess, *_), (perfect, *_) = (values(ended, f"{name}/{fact}_level") for fact in ("guess", "perfect"))
            gained = (values(ended, name)[-1] - guess) / (perfect - guess)
            assert (gained > 0.1) is (labels == "learnable"), (name, gained)


@pytest.mark.parametrize(("library", "metric"), [("xgboost", "quantile"), ("lightgbm", "poisson")])
def test_a_remark_says_so(tmp_path: Path, library: str, metric: str) -> None:
    for labels in ("noise", "learnable"):
        folder = tmp_path / labels
        folder.mkdir()
        ended = launch(library, folder, "--only", metric, labels)
        assert ended.status == 0, ended.err
        remarks = [remark for remark in ended.show()["outcome"]["remarks"] if "no better than always" in remark]
        assert len(remarks) == (labels == "noise"), remarks
