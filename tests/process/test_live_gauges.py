"""Prometheus scrapes a running training: one rule fires and resets, another is undecided."""

from __future__ import annotations

import math
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from endpoints import HttpEndpoint
from launching import Running, script, started, wait_for, watched
from prometheus_client.parser import text_string_to_metric_families
from wire import otlp

from leadline.monitor.processes import list_pids
from leadline.reader.run import Run
from leadline.store.documents import read_lines

Seen = dict[str, dict[str, float]]


def scrape(url: str) -> Seen:
    with urllib.request.urlopen(url, timeout=60) as response:
        text = response.read().decode()
    found: Seen = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels.get("rule") or sample.labels.get("status") or ""] = (
                sample.value
            )
    return found


def address(running: Running) -> str:
    """Return the address of the metrics endpoint from the terminal output."""
    pattern = r"publish_metric:prometheus: served at (http://\S+)"
    return str(wait_for(lambda: re.search(pattern, running.err), "an address")[1])


@pytest.mark.slow
def test_an_alarm_fires_and_resets_while_a_training_is_running(tmp_path: Path) -> None:
    rules = script("steered_rules.py")
    options = [
        "--no-default-rules",
        "--rule",
        f"high={rules}:High",
        "--rule",
        f"never={rules}:Never",
        "--on",
        "*=publish_metric:prometheus",
    ]
    with started(options, script("steered.py"), folder=tmp_path) as running:
        url = address(running)

        def value(rule: str) -> float:
            return scrape(url)["leadline_rule_fired"][rule]

        wait_for(lambda: value("high") == 0.0, "a rule that is clear")
        first = scrape(url)
        assert math.isnan(first["leadline_rule_fired"]["never"])
        assert first["leadline_job_status"]["InProgress"] == 1.0
        (tmp_path / "high").touch()
        wait_for(lambda: value("high") == 1.0, "a rule that fires")
        (tmp_path / "high").unlink()
        wait_for(lambda: value("high") == 0.0, "a rule that resets")
        last = scrape(url)
        assert math.isnan(last["leadline_rule_fired"]["never"])
        assert last["leadline_job_findings"][""] == 1.0
        assert last["leadline_job_step"][""] > first["leadline_job_step"][""]
        (tmp_path / "end").touch()
        ended = running.wait()
    assert ended.status == 0, ended.err
    with pytest.raises(urllib.error.URLError):
        scrape(url)
    _check_outcomes(ended.run, url)


@pytest.mark.slow
def test_the_last_export_has_the_final_status_of_the_training(tmp_path: Path) -> None:
    endpoint = HttpEndpoint()
    rules = script("steered_rules.py")
    options = [
        "--no-default-rules",
        "--rule",
        f"high={rules}:High",
        "--rule",
        f"never={rules}:Never",
        "--on",
        f"*=publish_metric:otlp,endpoint={endpoint.url},headers=$HEADERS",
        "--on",
        "high=run_command:touch end",
    ]
    (tmp_path / "high").touch()
    mark = str(tmp_path / "mark")
    ended = watched(options, script("steered.py"), folder=tmp_path, MARK=mark, HEADERS="x-key=s3cret-of-the-user")
    endpoint.close()
    assert ended.status == 0, ended.err
    assert all(request.headers["x-key"] == "s3cret-of-the-user" for request in endpoint.received)
    last, _ = otlp(endpoint.received[-1].body)
    assert last["leadline.rule.fired"]["high"] == 1.0
    assert math.isnan(last["leadline.rule.fired"]["never"])
    assert last["leadline.job.status"]["Completed"] == 1.0
    assert last["leadline.job.findings"] == {"": 1.0}
    assert _processes_with(mark) == []


def _processes_with(mark: str) -> list[int]:
    found = []
    for pid in list_pids():
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        found += [pid] if mark.encode() in environ else []
    return found


def _check_outcomes(run: Run, url: str) -> None:
    lines = {line["notice"]: line for line in read_lines(str(Path(run.uri) / "actions.jsonl"))}
    told = {name: (line["state"], line["outcome"]) for name, line in lines.items()}
    assert set(told.values()) == {("done", f"served at {url}")}
    assert {"job/Completed", "high/status/InProgress/clear"} <= told.keys()
    assert any(name.startswith("high/opened/") for name in told)
    assert any(name.startswith("high/closed/") for name in told)
