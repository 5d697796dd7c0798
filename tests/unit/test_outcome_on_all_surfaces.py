"""The outcome of a run is the same line on every surface."""

from __future__ import annotations

import json
import re
from contextlib import closing
from html import unescape
from pathlib import Path

import pytest
from outcome_scenarios import ACTION, NOTIFICATION, SCENARIOS
from starlette.testclient import TestClient
from typer.testing import CliRunner

from leadline.agent.summary import JobEnd, summary_lines
from leadline.analysis.overview import outcome_of
from leadline.cli.app import application
from leadline.dashboard.app import create_app
from leadline.judge.judge import Judge
from leadline.judge.rule_pool import WorkerProcesses
from leadline.judge.run_trust import RunTrust
from leadline.reader.run import Run
from leadline.reports.files import render
from leadline.reports.report import build
from leadline.store.run_html import verdict_html
from leadline.store.run_state import read_rule_summary

ADDRESS = "http://127.0.0.1:8321"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write and judge all runs; one rule worker serves them."""
    root = tmp_path_factory.mktemp("runs")
    (root / "tell.py").write_text(ACTION)
    paths = {name: write(root) for name, (write, _) in SCENARIOS.items()}
    with closing(WorkerProcesses(is_kept=True)) as workers:
        for path in paths.values():
            Judge(path, worker_processes=workers, trust=RunTrust(is_whole=True)).judge(follow=False)
    return paths


def plain(html: str) -> str:
    """Return the text of a page without tags, styles and scripts, in one line."""
    text = re.sub(r"<(style|script)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return one_line(unescape(re.sub(r"<[^>]*>", " ", text)))


def one_line(text: str) -> str:
    return " ".join(text.split())


def terminal(path: str) -> str:
    """Return the end of ``leadline run``."""
    run = Run(path)
    document, workers = run.status_document, tuple(run.worker_documents().values())
    end = JobEnd(
        outcome_of(run),
        document.status,
        document.exit_status,
        document.exit_status or 0,
        60.0,
        workers,
        1000,
        read_rule_summary(path),
        True,
    )
    return one_line(" ".join(line.removeprefix("leadline") for line in summary_lines(end, width=100)))


def command(*arguments: str) -> str:
    result = CliRunner().invoke(application(), arguments, env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_line_is_the_same_everywhere(runs: dict[str, str], name: str) -> None:
    path, expected = runs[name], SCENARIOS[name][1]
    root, run = str(Path(path).parent), Path(path).name
    listed = {row["name"]: row["outcome"] for row in json.loads(command("ls", root, "--json"))}
    shown = json.loads(command("show", path, "--json"))
    line = shown["outcome"]["text"]
    assert re.fullmatch(expected, line), line
    assert listed[run] == shown["outcome"]
    with TestClient(create_app(root), base_url=ADDRESS) as client:
        overview = plain(client.get(f"/runs/{run}/overview").text)
        table = plain(client.get("/").text)
    surfaces = {
        "terminal": terminal(path),
        "show": one_line(command("show", path)),
        "overview": overview,
        "report": plain(render(build(Run(path), ()))),
        "notebook": plain(verdict_html(path)),
        "notification": (Path(path) / NOTIFICATION).read_text(),
    }
    assert {surface: line in text for surface, text in surfaces.items()} == dict.fromkeys(surfaces, True)
    brief = outcome_of(Run(path)).brief
    assert brief in table
    assert brief in command("ls", root)
    assert surfaces["terminal"].index(line) == surfaces["notification"].index(line) == 0
    assert overview.index(line) < overview.index("Insights") < overview.index("Job summary")


def test_performance_advice_is_shown_only_where_nothing_is_wrong_with_the_model(runs: dict[str, str]) -> None:
    with TestClient(create_app(str(Path(runs["nan"]).parent)), base_url=ADDRESS) as client:
        pages = {name: plain(client.get(f"/runs/{Path(path).name}/overview").text) for name, path in runs.items()}
    assert "input-bound" in pages["input_bound"]
    assert "Bottleneck" not in pages["input_bound"]  # the outcome has said it
    assert "Bottleneck: compute" in pages["healthy"]
    assert "Bottleneck" not in pages["nan"]


def test_advice_is_visible_in_the_row_of_a_finding(runs: dict[str, str]) -> None:
    with TestClient(create_app(str(Path(runs["nan"]).parent)), base_url=ADDRESS) as client:
        page = client.get("/runs/nan/overview").text
    found = re.findall(r'<details id="rule-(\w+)".*?<summary>(.*?)</summary>', page, re.DOTALL)
    rows = {name: plain(row) for name, row in found}
    assert next(iter(rows)) == "loss_spike"
    assert not {"exploding_tensor", "nonfinite_origin"} & set(rows)
    assert "Try: the last checkpoint before it with half the learning rate" in rows["loss_spike"]
    assert re.search(r"explains exploding_tensor \(step 600\), nonfinite_origin \(step 600\)$", rows["loss_spike"])


def test_a_cause_is_one_row_with_its_effects_on_every_surface(runs: dict[str, str]) -> None:
    path = runs["nan"]
    with TestClient(create_app(str(Path(path).parent)), base_url=ADDRESS) as client:
        listed = plain(client.get("/").text)
    folded = "explains exploding_tensor (step 600), nonfinite_origin (step 600)"
    surfaces = {
        "terminal": terminal(path),
        "show": one_line(command("show", path)),
        "notebook": plain(verdict_html(path)),
    }
    assert {surface: folded in text for surface, text in surfaces.items()} == dict.fromkeys(surfaces, True)
    report = plain(render(build(Run(path), ("training",))))
    assert "1 finding, the worst first. 2 findings that follow from them are listed with their cause." in report
    assert "It explains 2 findings of other rules, listed below." in report
    (problem,) = json.loads(command("show", path, "--json"))["outcome"]["findings_ranked"]
    assert [effect["name"] for effect in problem["explains"]] == ["exploding_tensor", "nonfinite_origin"]
    assert "loss_spike" in listed


def test_what_follows_from_a_cause_has_no_advice_of_its_own(runs: dict[str, str]) -> None:
    with TestClient(create_app(str(Path(runs["nan"]).parent)), base_url=ADDRESS) as client:
        pages = [client.get(f"/runs/nan/{page}").text for page in ("overview", "rules")]
    for page in pages:
        (card,) = re.findall(r'<article [^>]*id="exploding_tensor-1".*?</article>', page, re.DOTALL)
        assert "Try: the advice of loss_spike first; this usually follows from it" in plain(card)
        assert "learning rate" not in plain(card)


def test_a_finding_that_has_closed_is_shown_with_its_last_step(runs: dict[str, str]) -> None:
    path = runs["recovered"]
    with TestClient(create_app(str(Path(path).parent)), base_url=ADDRESS) as client:
        pages = [plain(client.get(f"/runs/recovered/{page}").text) for page in ("overview", "rules")]
    finding = "steps 2 to 19: every gradient of 1 parameter is exactly 0 at each of 3 captured steps (0 to 2)"
    assert finding in pages[0]
    assert "steps 2 to 19" in pages[1]
    assert finding in one_line(command("show", path))
    assert not any("0 since step" in page for page in (*pages, terminal(path), plain(render(build(Run(path), ())))))
    (problem,) = json.loads(command("show", path, "--json"))["outcome"]["findings_ranked"]
    assert (problem["step"], problem["last_step"], problem["is_open"]) == (2, 19, False)


def test_counts_of_rules_are_the_same_everywhere(runs: dict[str, str]) -> None:
    path = runs["nan"]
    counts = outcome_of(Run(path)).rules
    words = counts.words(with_fired=True)
    assert words.startswith("3 rules fired, ")
    with TestClient(create_app(str(Path(path).parent)), base_url=ADDRESS) as client:
        assert words in plain(client.get("/runs/nan/overview").text)
        assert f"fired {counts.fired} " in plain(client.get("/runs/nan/rules").text)
    assert words in terminal(path)
    assert words in plain(render(build(Run(path), ())))
    assert f"{counts.fired} of {counts.total} rules fired" in command("show", path)


def test_a_rule_that_fired_as_advice_is_counted_as_such_everywhere(runs: dict[str, str]) -> None:
    path, words = runs["input_bound"], "1 rule fired as advice, 2 clear"
    counts = outcome_of(Run(path)).rules
    assert (counts.fired, counts.advice, counts.words(with_fired=True)) == (1, 1, words)
    with TestClient(create_app(str(Path(path).parent)), base_url=ADDRESS) as client:
        assert words in plain(client.get("/runs/input_bound/overview").text)
        assert "fired 1 clear 2 " in plain(client.get("/runs/input_bound/rules").text)
    assert words in terminal(path)
    assert words in plain(render(build(Run(path), ())))
    assert "1 of 3 rules fired as advice" in command("show", path)
    shown = json.loads(command("show", path, "--json"))["outcome"]["rules"]
    assert shown == {"fired": 1, "clear": 2, "undecided": 0, "failed": 0, "advice": 1}
