"""Boosters that learn nothing are told by what guessing reaches, which is exact for each metric."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from launching import LEADLINE, Ended, environment, finish, rule, script

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


@pytest.mark.parametrize("library", METRICS)
def test_guessing_is_the_metric_of_a_constant(tmp_path: Path, library: str) -> None:
    ended = launch(library, tmp_path, "--constant")
    assert ended.status == 0, ended.err
    run = ended.run
    for metric in METRICS[library]:
        for labels in ("noise", "learnable"):
            name = f"{set_name(metric)}_{labels}-{metric}"
            guess, reached = (
                run.tensor(tensor).statistics("value", mode="train")["value"].to_pylist()
                for tensor in (f"{name}/guess_level", name)
            )
            guess = [level for level in guess if not math.isnan(level)]
            assert guess[0] == pytest.approx(reached[0], rel=2e-5), name


@pytest.mark.parametrize("library", METRICS)
def test_of_labels_that_cannot_be_learned_guessing_is_as_good(tmp_path: Path, library: str) -> None:
    ended = launch(library, tmp_path)
    assert ended.status == 0, ended.err
    remarks = " ".join(rule(ended.show(), "closing_remarks")["product"]["remarks"])
    found = set(re.findall(r"(\S+)_(noise|learnable)-\S+ of the last validation", remarks))
    assert found == {(set_name(metric), "noise") for metric in METRICS[library]}, remarks
