"""Model page: only for boosted trees, with the sections and charts of the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from tree_scenarios import answers, importances, loss

from leadline.testing.runs import Capture, Part, RunWriter

Open = Callable[..., TestClient]
PAGE = {"accept": "text/html"}
LINK = '<a href="/runs/trees/model"'
LABELS = np.repeat([0, 1, 1], 20)


def story(rounds: int = 11) -> list[Part]:
    parts: list[Part] = [loss(step, train=1 / (step + 1), holdout=1.1 / (step + 1)) for step in range(rounds)]
    for step in range(0, rounds, 5):
        parts.append(importances(step, {"age": 0.25, "<b>x</b>": 0.75}, "gain"))
        parts += answers(step, LABELS, np.where(LABELS, 0.8, 0.1))
    return parts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    writer = RunWriter(tmp_path / "trees").write_all(story())
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", hyperparameters={"objective": "binary:logistic"})
    RunWriter(tmp_path / "network").write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    return tmp_path


def test_it_is_in_the_navigation_of_runs_of_trees_only(root: Path, open_dashboard: Open) -> None:
    client = open_dashboard(root)
    assert LINK in client.get("/runs/trees/rules", headers=PAGE).text
    other = client.get("/runs/network/rules", headers=PAGE).text
    assert "/runs/network/tensors" in other
    assert "/runs/network/model" not in other
    assert "does not train boosted trees" in client.get("/runs/network/model", headers=PAGE).text


def test_it_has_the_sections_of_the_report_with_their_words_and_tables(root: Path, open_dashboard: Open) -> None:
    page = open_dashboard(root).get("/runs/trees/model", headers=PAGE).text
    assert page.count('<section class="card"') == 8
    assert "This is a binary classification, with the objective binary:logistic, trained by xgboost 3.2.0." in page
    assert "100 % of 60 samples are predicted correctly" in page
    assert page.index("Not available for this run") < page.index("A classification has no residuals")
    assert "A classification has no residuals; see the sections above." in page
    assert "&lt;b&gt;x&lt;/b&gt; has 75 % of the gain" in page
    assert "<b>x</b>" not in page


def test_every_chart_that_it_places_can_be_drawn(root: Path, open_dashboard: Open) -> None:
    client = open_dashboard(root)
    page = client.get("/runs/trees/model", headers=PAGE).text
    queries = [part.split('"')[0].replace("&amp;", "&") for part in page.split('data-query="')[1:]]
    assert len(queries) == 6
    for query in queries:
        answer = client.get(f"/runs/trees/charts/model.json?{query}")
        assert answer.status_code == 200
        assert answer.json()["data"]


def test_an_unknown_chart_is_not_found(root: Path, open_dashboard: Open) -> None:
    client = open_dashboard(root)
    absent = client.get("/runs/trees/charts/model.json?section=residuals&place=0").json()
    assert absent["layout"]["meta"]["empty"].startswith("A classification has no residuals")
    assert client.get("/runs/trees/charts/model.json?section=nothing").status_code == 404
    assert client.get("/runs/trees/charts/model.json?section=loss&place=-1").status_code == 404


def test_a_growing_run_is_shown_up_to_date(
    tmp_path: Path, open_dashboard: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.dashboard.run_cache._FRESH_SECONDS", 0.0)
    writer = RunWriter(tmp_path / "trees").write_all(story(6))
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", hyperparameters={"objective": "binary:logistic"})
    client = open_dashboard(tmp_path)
    assert "Round 5" in str(client.get("/runs/trees/charts/model.json?section=confusion-matrix").json())
    writer.write_all(story(11)[11:])
    assert "Round 10" in str(client.get("/runs/trees/charts/model.json?section=confusion-matrix").json())
