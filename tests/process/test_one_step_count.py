"""A spike at train step 500 of a training with evaluations is at step 500 wherever a user reads a step."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import LEADLINE, Ended, environment, finish, script, watched
from starlette.testclient import TestClient

from leadline.analysis.digest import Digest
from leadline.charts import tensor_charts
from leadline.charts.chart import ChartView
from leadline.dashboard.app import create_app
from leadline.errors import NotCapturedError
from leadline.reader.run import Run

SPIKE, TRAIN_STEPS, EVAL_STEPS = 500, 600, 60
EVALUATED_AT = list(range(49, TRAIN_STEPS, 50))
"""The train steps after which the model was evaluated."""
GLOBAL = SPIKE + SPIKE // 50 * 5
"""The spike in the raw tables: 50 batches were evaluated before it."""
NAME = "mse_loss_output_0"
WEIGHT = "gradient/weight"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    options = ("--rule", "loss_spike:patience=1", "--capture", f"spike:regex=^{WEIGHT}$,steps={SPIKE},raw=true")
    ended = watched((*options, "--name", "spike"), script("evaluated_spike.py"), folder=tmp_path_factory.mktemp("one"))
    assert ended.status == 0, ended.err
    return ended


@pytest.fixture(scope="module")
def run(ended: Ended) -> Run:
    return ended.run


@pytest.fixture(scope="module")
def client(ended: Ended) -> Iterator[TestClient]:
    with TestClient(create_app(str(ended.root)), base_url="http://127.0.0.1:1") as client:
        yield client


def told(ended: Ended, *words: str) -> Ended:
    return finish([*LEADLINE, *words], ended.root.parent, env=environment(COLUMNS="200", LEADLINE_ROOT=str(ended.root)))


def finding(run: Run) -> dict[str, Any]:
    (row,) = [row for row in run.findings().to_pylist() if row["rule"] == "loss_spike"]
    return row


def test_the_finding_is_at_the_train_step(run: Run) -> None:
    row = finding(run)
    assert (row["step"], row["last_step"], row["global_step"]) == (SPIKE, SPIKE, GLOBAL)


def test_the_reader_takes_steps_of_a_mode(run: Run) -> None:
    assert run.steps() == list(range(TRAIN_STEPS))
    assert run.steps(mode="eval") == list(range(EVAL_STEPS))
    loss = run.tensor(NAME)
    assert max(loss.steps(), key=loss.value) == SPIKE
    assert loss.statistic("value", SPIKE) == float(loss.value(SPIKE)) > 100 * float(loss.value(SPIKE - 1))
    assert loss.steps(mode="eval") == list(range(EVAL_STEPS))
    assert float(loss.value(EVAL_STEPS - 1, mode="eval")) < 100
    assert run.tensor(WEIGHT).value(SPIKE).shape == (1, 8)
    with pytest.raises(NotCapturedError, match=f"at step {SPIKE - 1}; the nearest steps are {SPIKE}"):
        run.tensor(WEIGHT).value(SPIKE - 1)
    run.wait_for_step(TRAIN_STEPS - 1, timeout=0)
    with pytest.raises(NotCapturedError, match=f"the last step is {TRAIN_STEPS - 1}"):
        run.wait_for_step(TRAIN_STEPS, timeout=0)


def test_raw_tables_have_both_counts(run: Run) -> None:
    rows = [row for row in run.scalars(NAME).to_pylist() if row["mode_step"] == SPIKE]
    assert [(row["mode"], row["step"]) for row in rows] == [("train", GLOBAL)]
    tables = run.sql("SELECT max(step) AS last, max(mode_step) AS last_of_mode FROM series").to_pylist()
    assert tables == [{"last": TRAIN_STEPS + EVAL_STEPS - 1, "last_of_mode": TRAIN_STEPS - 1}]


def test_charts_are_drawn_over_train_steps(run: Run) -> None:
    figure = tensor_charts.losses(ChartView(Digest(run), points=1000))
    lines = [trace for trace in figure.data if trace.mode and trace.fill is None]
    trained, evaluated = (next(line for line in lines if line.name.startswith(mode)) for mode in ("train", "eval"))
    assert trained.x[np.argmax(trained.y)] == SPIKE
    assert (min(trained.x), max(trained.x)) == (0, TRAIN_STEPS - 1)
    assert list(evaluated.x) == EVALUATED_AT
    marks = [shape.x0 for shape in figure.layout.shapes if shape.name == "finding"]
    assert SPIKE in marks


def test_terminal_and_lists_count_train_steps(ended: Ended) -> None:
    assert f"step {SPIKE}" in ended.err
    shown = told(ended, "show", "spike", "--json")
    rule = next(rule for rule in json.loads(shown.out)["rules"] if rule["name"] == "loss_spike")
    assert rule["findings"][0]["step"] == SPIKE
    assert f"step {SPIKE}" in told(ended, "show", "spike").out
    (row,) = [line for line in told(ended, "ls").lines if line.startswith("spike")]
    assert f" {TRAIN_STEPS} " in row
    assert str(TRAIN_STEPS + EVAL_STEPS) not in row


def names(step: int, page: str) -> bool:
    """Whether a page has the number of a step, rather than the same digits within another number, or a time or size."""
    units = r"(?:[nµm]?s|[kMGT]?B)\b|%"
    return re.search(rf"(?<![\w.,]){step}(?!\w|[.,]\d| ?(?:{units}))", page) is not None


@pytest.mark.parametrize("text", ["step 550", "550 steps", ">550<", "(550)", "step 550: x", "step 550, 3", "550."])
def test_a_number_of_a_step_is_seen(text: str) -> None:
    assert names(550, text)


def test_pages_count_train_steps(client: TestClient) -> None:
    runs = client.get("/").text
    assert f">{TRAIN_STEPS}<" in runs
    assert not names(TRAIN_STEPS + EVAL_STEPS, runs)
    for page in ("", "/rules", f"/tensors?name={NAME}"):
        text = client.get(f"/runs/spike{page}").text
        assert f"step {SPIKE}" in text or f">{SPIKE}<" in text
        assert not names(GLOBAL, text)
    assert f"At step {SPIKE}" in client.get(f"/runs/spike/tensors?name={WEIGHT}&step={SPIKE}").text
    assert client.get(f"/runs/spike/tensors.npy?name={WEIGHT}&step={SPIKE}").status_code == 200
    assert client.get(f"/runs/spike/tensors.npy?name={WEIGHT}&step={GLOBAL}").status_code == 404


def test_reports_and_exports_count_train_steps(ended: Ended, run: Run, tmp_path: Path) -> None:
    report = told(ended, "report", "spike", "-o", str(tmp_path / "report.html"))
    assert report.status == 0, report.err
    text = (tmp_path / "report.html").read_text()
    assert f"Step {SPIKE}: loss_spike" in text
    assert told(ended, "export", "spike", "--to", "csv", "-o", str(tmp_path / "csv")).status == 0
    with (tmp_path / "csv" / "findings.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file) if row["rule"] == "loss_spike"] == [str(SPIKE)]
    with (tmp_path / "csv" / "series.csv").open() as file:
        losses = [row for row in csv.DictReader(file) if row["name"] == NAME and row["mode"] == "train"]
    assert max(losses, key=lambda row: float(row["value"]))["mode_step"] == str(SPIKE)
