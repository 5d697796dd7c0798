"""Compare page: facts, configuration, scalars and rules of several runs."""

from __future__ import annotations

import html
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import malicious_inputs
import page_runs
import pytest
from starlette.testclient import TestClient

from leadline.analysis.comparison import settings
from leadline.dashboard.pages import compare
from leadline.reader.run import Run
from leadline.records.manifest import RuleSpec
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.testing.runs import SECOND_NS, START_NS, Capture, RunWriter

Open = Callable[..., TestClient]
PAGE = {"accept": "text/html"}


@pytest.fixture
def two(tmp_path: Path) -> Path:
    page_runs.write_full_run(tmp_path / "one")
    other = RunWriter(tmp_path / "other", rules=(RuleSpec("mine", "vanishing_gradient", {"threshold": 0.25}),))
    manifest = replace(other.manifest, preset="full", command=("python", "train.py", "--rate", "0.1"))
    write_document(str(tmp_path / "other" / layout.MANIFEST), manifest.to_dict())
    other.write_all([Capture(step, {"loss": {"value": 5.0}, "a": {"l2": 3.0}}) for step in range(5)]).end()
    malicious_inputs.write_rule(str(tmp_path / "other"), "mine", rule="vanishing_gradient", verdict="clear")
    return tmp_path


def test_differing_settings_are_listed_first(two: Path) -> None:
    rows = settings([Run(str(two / "one")), Run(str(two / "other"))])
    told = {each.name: each.values for each in rows if each.differs}
    assert told == {
        "preset": ("standard", "full"),
        "command": ("python train.py", "python train.py --rate 0.1"),
        "rules.mine.threshold": ("0.5", "0.25"),
    }
    assert [each.differs for each in rows] == sorted((each.differs for each in rows), reverse=True)
    assert ("interval_ms", ("500", "500")) in [(each.name, each.values) for each in rows]


def test_the_duration_of_an_interrupted_run_ends_with_its_last_sign_of_life(tmp_path: Path) -> None:
    nobody, host = 2**22 + 1, os.uname().nodename
    for name, end_ns in (("killed", START_NS + 90 * SECOND_NS), ("silent", None)):
        writer = RunWriter(tmp_path / name)
        writer.write_all([Capture(step, {"loss": {"value": 5.0}}) for step in range(5)])
        writer.set_status("InProgress", node=host, agent_pid=nobody, job_pid=nobody)
        if end_ns is not None:
            writer.write_worker("rank0-1", node=host, pid=nobody, time_ns=end_ns)
        else:
            shutil.rmtree(tmp_path / name / layout.WORKERS)
    RunWriter(tmp_path / "running").set_status("InProgress")
    killed, silent, running = (Run(str(tmp_path / name)) for name in ("killed", "silent", "running"))
    told = {fact.name: fact.values for fact in compare.facts([killed, silent])}
    assert told["status"] == ("Interrupted", "Interrupted")
    assert told["duration"] == ("1 m 30 s", "–")
    (durations,) = (fact.values for fact in compare.facts([running, killed]) if fact.name == "duration")
    assert durations == ("running", "1 m 30 s")


def test_rules_of_all_runs_are_compared(two: Path) -> None:
    rows = compare.rules([Run(str(two / name)) for name in ("one", "other", "one")])
    found = {each.name: tuple(view and view.verdict for view in each.views) for each in rows}
    assert found == {"mine": ("fired", "clear", "fired"), "overfit": ("undecided", None, "undecided")}


def test_a_shared_scalar_is_drawn_with_a_line_for_each_run(two: Path, open_dashboard: Open) -> None:
    client = open_dashboard(two)
    figure = client.get("/runs/one/charts/compare.json?other=other&name=loss").json()
    lines = [each for each in figure["data"] if "lines" in each.get("mode", "")]
    assert len(lines) == 2
    assert {("one" in each["name"], "other" in each["name"]) for each in lines} == {(True, False), (False, True)}
    again = client.get("/runs/one/charts/compare.json?other=one&name=loss").json()
    assert len([each for each in again["data"] if "lines" in each.get("mode", "")]) == 2


def test_the_page_draws_shared_scalars(two: Path, open_dashboard: Open) -> None:
    text = open_dashboard(two).get("/compare?run=one&run=other", headers=PAGE).text
    assert re.findall(r'id="scalar-\d+"[^>]*name=([^"&]+)', text) == ["loss"]
    assert text.count('data-chart="layers"') == 0, "they share no collection of arrays with statistics"
    same = open_dashboard(two).get("/compare?run=one&run=one", headers=PAGE).text
    assert same.count('data-chart="layers"') == 2


def test_the_tensors_drawn_first_have_the_statistic_drawn_first(tmp_path: Path, open_dashboard: Open) -> None:
    for name in ("one", "two"):
        RunWriter(tmp_path / name).write_all(
            [
                Capture(step, {"loss": {"value": 5.0}, "gradient/a": {"l2": 3.0}, "b_output_0": {"value": 1.0}})
                for step in range(5)
            ]
        ).end()
    client = open_dashboard(tmp_path)
    text = client.get("/compare?run=one&run=two", headers=PAGE).text
    charts = {
        element["chart"]: client.get(f"/runs/{element['run']}/charts/{element['chart']}.json?{element['query']}").json()
        for element in (
            {key: html.unescape(value) for key, value in re.findall(r'data-(chart|run|query)="([^"]*)"', tag)}
            for tag in re.findall(r"<div[^>]*data-chart=[^>]*>", text)
        )
    }
    assert set(charts) == {"compare", "layers"}
    assert not [name for name, figure in charts.items() if "empty" in (figure["layout"].get("meta") or {})]


def test_what_is_the_same_in_every_run_is_folded(two: Path, open_dashboard: Open) -> None:
    text = open_dashboard(two).get("/compare?run=one&run=other", headers=PAGE).text
    assert re.findall(r'class="rule"><span title="(\w+)"', text) == ["mine", "overfit"]
    assert "with the same verdict" not in text
    same = open_dashboard(two).get("/compare?run=one&run=one", headers=PAGE).text
    shown, folded = same.split('id="same-rules"')
    assert re.findall(r'class="rule"><span title="(\w+)"', shown) == ["mine"], "it fired in both"
    assert re.findall(r'class="rule"><span title="(\w+)"', folded) == ["overfit"]
    assert "1 rule with the same verdict in every run" in folded


def test_without_two_runs_the_page_shows_a_form(two: Path, open_dashboard: Open) -> None:
    text = open_dashboard(two).get("/compare?run=one&run=", headers=PAGE).text
    assert '<option value="other">' in text
    assert "Configuration" not in text


@pytest.mark.parametrize(("a", "b"), [("one", "nothing"), ("..%2fone", "one"), ("one", "..%2fone"), ("one", "%2Fetc")])
def test_unknown_runs_are_refused(a: str, b: str, two: Path, open_dashboard: Open) -> None:
    client = open_dashboard(two)
    assert client.get(f"/compare?run={a}&run={b}", headers=PAGE).status_code == 404
    assert client.get(f"/runs/{a}/charts/compare.json?other={b}&name=loss").status_code == 404


def test_malicious_names_are_text(tmp_path: Path, open_dashboard: Open) -> None:
    page_runs.write_malicious_run(tmp_path / "ill")
    page_runs.write_full_run(tmp_path / "story")
    for query in ("run=ill&run=story", "run=ill&run=ill", "run=<script>"):
        page_runs.expect_text_only(open_dashboard(tmp_path).get(f"/compare?{query}", headers=PAGE).text)


def test_five_runs_are_compared_with_hyperparameters_and_outcomes(tmp_path: Path, open_dashboard: Open) -> None:
    for number in range(6):
        writer = RunWriter(tmp_path / f"run-{number}")
        command = ("python", "train.py", "--lr", f"0.{number}", "--depth=3", "--fast")
        write_document(
            str(tmp_path / f"run-{number}" / layout.MANIFEST), replace(writer.manifest, command=command).to_dict()
        )
        writer.write_all([Capture(step, {"loss": {"value": 1.0 * number}}) for step in range(5)]).end()
    client = open_dashboard(tmp_path)
    text = client.get("/compare", params=[("run", f"run-{number}") for number in range(6)], headers=PAGE).text
    assert [f'href="/runs/run-{number}/overview"' in text for number in range(6)] == [True] * 5 + [False]
    rows = re.findall(r"<tr[^>]*><th scope=\"row\"><span[^>]*>(?:lr|depth|outcome)</span></th>.*?</tr>", text)
    told = {re.findall(r">([^<>]+)</span>", row)[0]: re.findall(r">([^<>]+)</span>", row)[1:] for row in rows}
    assert told["lr"] == ["0.0", "0.1", "0.2", "0.3", "0.4"]
    assert told["depth"] == ["3"] * 5
    last = re.findall(r'id="last-values-table".*?</table>', text, re.DOTALL)
    cells = [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>.*?</t[hd]>", last[0])]
    courses = [f"{number} → {number} ({number} … {number})" for number in range(5)]  # no share of zero
    assert cells[-6:] == ["loss", *courses]
    assert told["outcome"] == ["no rules were evaluated."] * 5
    (query,) = re.findall(r'id="scalar-1"[^>]*data-query="([^"]*)"', text)
    figure = client.get(f"/runs/run-0/charts/compare.json?{html.unescape(query)}").json()
    assert [line["name"] for line in figure["data"] if "lines" in line.get("mode", "")] == [
        f"run-{n}" for n in range(5)
    ]
