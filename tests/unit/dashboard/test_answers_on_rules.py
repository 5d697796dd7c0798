"""Rules page: verdicts with reasons, and findings with links."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import malicious_inputs
import page_runs
import pytest
from starlette.testclient import TestClient

from leadline.dashboard.rule_view import finding_views, rule_views
from leadline.reader.run import Run
from leadline.records.manifest import RuleSpec
from leadline.rules.documentation import read_documentation
from leadline.store.documents import append_line
from leadline.testing.runs import Capture, RunWriter

Open = Callable[..., TestClient]
PAGE = {"accept": "text/html"}


@pytest.fixture
def client(tmp_path: Path, open_dashboard: Open) -> TestClient:
    page_runs.write_full_run(tmp_path / "story")
    return open_dashboard(tmp_path)


def test_a_finding_links_to_its_tensor_step_and_system_metrics(client: TestClient) -> None:
    text = client.get("/runs/story/rules", headers=PAGE).text
    assert 'id="mine-1"' in text
    links = [html.unescape(each) for each in re.findall(r'href="([^"]+)"', text)]
    tensor = next(each for each in links if "/tensors?" in each)
    asked = parse_qs(urlsplit(tensor).query)
    assert asked == {"name": ["gradient/a.weight"], "step": ["5"], "worker": ["rank0-1"]}
    assert client.get(tensor, headers=PAGE).status_code == 200
    moment = parse_qs(urlsplit(next(each for each in links if "/nodes?" in each)).query)
    assert moment == {"from": ["2026-11-18T11:06:26.000Z"], "to": ["2026-11-18T11:06:56.000Z"]}


def test_undecided_rules_show_a_reason_and_fired_rules_are_first(client: TestClient) -> None:
    text = client.get("/runs/story/rules", headers=PAGE).text
    assert "no evaluation was seen" in text
    rows = re.findall(r'<th scope="row" class="rule" data-value="([^"]+)"', text)
    assert rows == ["mine", "overfit"]


def test_rules_are_filtered_by_verdict(client: TestClient) -> None:
    text = client.get("/runs/story/rules?show=undecided", headers=PAGE).text
    assert re.findall(r'<th scope="row" class="rule" data-value="([^"]+)"', text) == ["overfit"]
    assert 'id="mine-1"' not in text
    everything = client.get("/runs/story/rules?show=<b>", headers=PAGE).text
    assert 'data-value="mine"' in everything
    assert "<b>&" not in everything


def test_parameters_are_shown_with_value_and_description(client: TestClient, tmp_path: Path) -> None:
    mine = next(each for each in rule_views(Run(str(tmp_path / "story"))) if each.alias == "mine")
    (setting,) = mine.settings
    known = read_documentation("vanishing_gradient")
    assert known is not None
    assert (setting.name, setting.value, setting.is_default) == ("threshold", "0.5", False)
    assert setting.about == known.parameters[0].about
    overfit = next(each for each in rule_views(Run(str(tmp_path / "story"))) if each.alias == "overfit")
    assert all(each.is_default for each in overfit.settings)


def test_a_finding_shows_its_actions(tmp_path: Path, open_dashboard: Open) -> None:
    page_runs.write_full_run(tmp_path / "story")
    append_line(
        str(tmp_path / "story" / "actions.jsonl"),
        {
            "rule": "mine",
            "action": "stop_training",
            "outcome": "asked to stop at step 8: applied at step 9",
            "state": "done",
            "time_ns": 1,
            "finding": 5,
            "notice": "mine/opened/5",
        },
    )
    (found,) = finding_views(rule_views(Run(str(tmp_path / "story"))))
    assert [each.outcome for each in found.actions] == ["asked to stop at step 8: applied at step 9"]
    assert "applied at step 9" in open_dashboard(tmp_path).get("/runs/story/rules", headers=PAGE).text


def test_a_cause_is_listed_before_its_consequences(tmp_path: Path) -> None:
    RunWriter(tmp_path / "two").end()
    run = str(tmp_path / "two")
    malicious_inputs.write_rule(
        run, "after", verdict="fired", explained_by="cause", findings=[page_runs.finding("after", "b")]
    )
    malicious_inputs.write_rule(run, "cause", verdict="fired", findings=[page_runs.finding("cause", "a")])
    views = rule_views(Run(run))
    assert [each.alias for each in views] == ["cause", "after"]
    assert [each.rule for each in finding_views(views)] == ["cause", "after"]


def test_hundreds_of_findings_are_paged(tmp_path: Path, open_dashboard: Open) -> None:
    RunWriter(tmp_path / "run").end()
    many = [replace(page_runs.finding("mine", f"number {each}", number=each), step=each) for each in range(1, 451)]
    malicious_inputs.write_rule(str(tmp_path / "run"), "mine", verdict="fired", findings=many)
    client = open_dashboard(tmp_path)
    pages = [client.get(f"/runs/run/rules?page={number}", headers=PAGE).text for number in (1, 2, 3)]
    found = [re.findall(r'<article [^>]*id="mine-(\d+)"', each) for each in pages]
    assert [int(each) for one in found for each in one] == list(range(1, 451))
    assert "401 to 450 of 450" in pages[2]
    assert client.get("/runs/run/rules?page=99", headers=PAGE).text.count('class="card finding"') == 50


def test_a_rule_not_evaluated_yet_is_labelled(tmp_path: Path, open_dashboard: Open) -> None:
    RunWriter(tmp_path / "new", rules=(RuleSpec("overfit", "overfit"),))
    assert "not evaluated yet" in open_dashboard(tmp_path).get("/runs/new/rules", headers=PAGE).text


def test_a_run_without_rules_shows_how_to_evaluate_one(tmp_path: Path, open_dashboard: Open) -> None:
    RunWriter(tmp_path / "bare").end()
    assert "leadline judge bare --rule" in open_dashboard(tmp_path).get("/runs/bare/rules", headers=PAGE).text


def test_malicious_names_are_text(tmp_path: Path, open_dashboard: Open) -> None:
    page_runs.write_malicious_run(tmp_path / "ill")
    text = open_dashboard(tmp_path).get("/runs/ill/rules", headers=PAGE).text
    page_runs.expect_text_only(text)
    assert text.count('class="card finding"') == len(malicious_inputs.NAMES)
    assert "exe.gpj" in text, "a name that turns its direction is told as it is written"
    assert "\u202e" not in re.sub(r'data-value="[^"]*"', "", text)


def test_a_custom_rule_named_by_a_run_is_not_executed(tmp_path: Path, open_dashboard: Open) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n")
    RunWriter(tmp_path / "run", rules=(RuleSpec("theirs", f"{file}:Theirs"),)).end()
    assert open_dashboard(tmp_path).get("/runs/run/rules", headers=PAGE).status_code == 200
    assert not (tmp_path / "was_run").exists()


def test_many_tensors_are_folded_and_one_of_nan_shows_their_count(tmp_path: Path, open_dashboard: Open) -> None:
    names = tuple(f"gradient/{number}.weight" for number in range(30))
    statistics = {"abs_mean": math.nan, "nonfinite_count": 4.0}
    run = RunWriter(tmp_path / "story", shapes=dict.fromkeys(names, (4,)))
    run.write_all([Capture(step, dict.fromkeys(names, statistics)) for step in range(3)])
    found = replace(page_runs.finding("mine", "it is NaN", names), evidence={"nonfinite": 4}, tensor_count=30)
    malicious_inputs.write_rule(str(tmp_path / "story"), "mine", verdict="fired", findings=[found])
    text = html.unescape(open_dashboard(tmp_path).get("/runs/story/rules", headers=PAGE).text)
    first, folded = re.findall(
        r'<div class="chips">(.*?)(?=<div class="chips">|<details class="measured">)', text, re.S
    )
    assert [re.findall(r'class="chip"[^>]*>(?:<[^>]*>)?([^<]*)<', part) for part in (first, folded)] == [
        list(names[:6]),
        list(names[6:20]),
    ]
    assert "and 24 more" in first
    assert "and 10 more" in folded
    assert f"{urlencode({'name': names[0]})}&statistic=nonfinite_count" in text


def test_evidence_is_a_list_with_units_and_a_chart_around_the_steps(tmp_path: Path, open_dashboard: Open) -> None:
    page_runs.write_full_run(tmp_path / "story")
    evidence = {
        "abs_mean": 6e-9,
        "before_step": 3,
        "change_percent": 0.25,
        "gradient/a.weight": "NaN",
        "limits": [1, 2],
    }
    first = page_runs.finding("mine", "it vanishes", ("unknown", "gradient/a.weight"))
    findings = [replace(first, evidence=evidence), replace(first, id=2), replace(first, id=3)]
    malicious_inputs.write_rule(str(tmp_path / "story"), "mine", verdict="fired", findings=findings)
    text = html.unescape(open_dashboard(tmp_path).get("/runs/story/rules", headers=PAGE).text)
    said = re.search(r'<summary class="muted">Measured values</summary>\s*<dl class="pairs">(.*?)</dl>', text, re.S)
    assert said is not None
    assert re.findall(r"<dt>(?:<[^>]*>)?([^<]*)<.*?<dd>(?:<[^>]*>)?([^<]*)<", said[1]) == [
        ("abs mean", "6e-9"),
        ("before step", "3"),
        ("change", "0.25\u00a0%"),
        ("gradient/a.weight", "NaN"),
        ("limits", "1, 2"),
    ]
    (query,) = re.findall(r'data-chart="tensor" data-flags="none" data-query="([^"]*)"', text)
    assert parse_qs(query) == {
        "name": ["gradient/a.weight"],
        "statistic": ["abs_mean"],
        "start_step": ["0"],
        "end_step": ["58"],
    }
    assert "2 more findings of" in text


def test_a_rule_that_evaluates_others_has_a_line_for_each(tmp_path: Path, open_dashboard: Open) -> None:
    RunWriter(tmp_path / "run").end()
    evidence = {"cpu_bottleneck": {"p95": 100, "phases": {"backward": 0.4}}, "batch_size": {"cpu_p95": 3}}
    findings = [replace(page_runs.finding("profiler_report", "cpu_bottleneck: …"), evidence=evidence)]
    malicious_inputs.write_rule(str(tmp_path / "run"), "profiler_report", verdict="fired", findings=findings)
    text = open_dashboard(tmp_path).get("/runs/run/rules", headers=PAGE).text
    assert '<a href="#rule-cpu_bottleneck">cpu_bottleneck</a>' in text
    assert ">p95 100, phases (backward 0.4)<" in text
    assert "Measured:" not in text


def test_only_findings_within_the_steps_of_a_chart_are_marked(client: TestClient) -> None:
    address = "/runs/story/charts/tensor.json?name=gradient/a.weight&statistic=l2"
    marked = {
        query: len(client.get(address + query).json()["layout"].get("meta", {}).get("flags", ()))
        for query in ("", "&start_step=0&end_step=5", "&start_step=5&end_step=6")
    }
    assert marked == {"": 1, "&start_step=0&end_step=5": 0, "&start_step=5&end_step=6": 1}
