"""The page of text of a run: its parts, narrow terminals, many workers, hostile names, and how it is followed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from leadline.cli.app import application
from leadline.cli.rule_results import verdicts
from leadline.cli.run_page import _warnings, head
from leadline.cli.sparklines import sparkline
from leadline.cli.utilization import machine_block
from leadline.records.series import TensorInfo
from leadline.testing.runs import Capture, RunWriter
from leadline.testing.timelines import CPU, MEMORY, in_time, sampled, training

STEP = {"data": 1.0, "forward": 30.0, "backward": 50.0, "optimizer": 10.0}


def spoken(block: Any, width: int = 100) -> str:
    console = Console(width=width, highlight=False, no_color=True)
    with console.capture() as capture:
        console.print(block)
    return capture.get()


def rule(name: str, verdict: str = "clear", *, why: str = "", findings: Sequence[Mapping[str, Any]] = ()) -> Any:
    status = "IssuesFound" if findings else "NoIssuesFound"
    return {
        "name": name,
        "rule": name,
        "status": status,
        "verdict": verdict,
        "why": why,
        "explained_by": None,
        "findings": list(findings),
    }


def finding(step: int, message: str) -> dict[str, Any]:
    return {"step": step, "last_step": step, "message": message, "suggestion": "less of it; usually too much"}


def worker(number: int, **changes: Any) -> dict[str, Any]:
    said: dict[str, Any] = {
        "worker": f"rank{number}",
        "node": f"node{number // 8}",
        "state": "running",
        "lost": None,
        "off": None,
        "notes": [],
        "models": [],
        "optimizers": [],
    }
    return {**said, **changes}


@pytest.fixture
def run(tmp_path: Path) -> str:
    captures = [Capture(step, {"loss": {"value": 1.0 / (step + 1)}}) for step in range(30)]
    story = in_time([*training([STEP] * 30), *captures], sampled({CPU: [10.0, 20.0, 30.0], MEMORY: [50.0] * 3}))
    return RunWriter(tmp_path / "run").write_all(story).end().path


def shown(*arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(application(), ["show", *arguments], env=environment)
    assert result.exit_code == 0, result.output
    return result.output


def test_all_parts_are_there_in_their_order(run: str) -> None:
    page = shown(run, COLUMNS="100")
    parts = ("Completed", "1 → 0.03333", "no rule judged", "where the time went", "the machine (1 node", "look:")
    places = [page.index(each) for each in parts]
    assert places == sorted(places)
    assert "leadline report run" in page


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_it_keeps_to_the_width_of_the_terminal(run: str, width: int) -> None:
    page = shown(run, COLUMNS=str(width))
    lines = [line for line in page.splitlines() if not line.startswith(("look:", "  at"))]
    assert max(map(len, lines)) <= width


def test_there_is_no_colour_in_a_pipe(run: str) -> None:
    assert "\x1b" not in shown(run)


def test_following_a_run_that_is_over_shows_it_once(run: str) -> None:
    page = shown(run, "--follow")
    assert page.count("where the time went") == 1


def test_rules_that_found_something_lead_and_others_are_put_together() -> None:
    told = [
        rule("a"),
        rule("b", "undecided", why="no GPU"),
        rule("bad", "fired", findings=[finding(7, "NaN")]),
        rule("c"),
        rule("d", "undecided", why="no GPU"),
        rule("e", "undecided", why="too short"),
    ]
    page = [re.sub(" +", " ", line).strip() for line in spoken(verdicts(told)).splitlines()]
    assert page == [
        "1 of 6 rules found something",
        "bad IssuesFound step 7: NaN",
        "try: less of it; usually too much",
        "2 rules clear a, c",
        "2 rules undecided no GPU: b, d",
        "1 rule undecided too short: e",
    ]


def test_a_thousand_workers_are_counted() -> None:
    said = {
        "name": "big",
        "status": "InProgress",
        "stopped_by": None,
        "ended": None,
        "started": "2026-01-01T00:00:00Z",
        "steps": {"train": 5},
        "command": ["x"],
        "cost": {"step_share": None, "bytes": 1, "thinned": []},
        "uri": "/r",
        "workers": [worker(each, state="ended" if each < 2 else "running", notes=["no CUDA"]) for each in range(1000)],
        "damage": [f"part {each}" for each in range(50)],
    }
    page = spoken(head(said), 200)
    assert "1,000 on 125 nodes: 998 running, 2 ended" in page
    warnings = spoken(_warnings(said), 200).splitlines()
    assert warnings[0] == "1,000 workers: no CUDA"
    assert warnings[-1].startswith("and 43 more lines")
    assert len(page.splitlines()) + len(warnings) < 20


def test_names_that_look_like_markup_are_text(tmp_path: Path) -> None:
    name = "[red]loss[/red] <script>"
    infos = {name: TensorInfo(name, ("losses",), ())}
    story = [Capture(step, {name: {"value": 1.0}}, infos=infos) for step in range(3)]
    path = RunWriter(tmp_path / "run").write_all(story).end().path
    assert name in shown(path, COLUMNS="200")


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([1.0, 2.0], "▁█"),
        ([2.0, 1.0], "█▁"),
        ([3.0, 3.0], "▁▁"),
        ([1.0], ""),
        ([], ""),
        ([math.nan] * 3, ""),
        ([0.0, math.nan, 1.0], "▁ █"),
        ([1.0, math.inf, 2.0], "▁ █"),
    ],
)
def test_a_course_is_drawn_in_small(values: list[float], drawn: str) -> None:
    assert sparkline(values) == drawn


def test_a_long_course_is_drawn_in_as_many_characters_as_there_is_room() -> None:
    assert sparkline([float(each) for each in range(1000)], 8) == "▁▂▃▄▅▆▇█"


def test_the_busiest_device_speaks_for_all_and_what_was_not_read_is_not_there() -> None:
    def row(device: str, p50: float) -> dict[str, Any]:
        return {
            "node": "n",
            "kind": "gpu",
            "device": device,
            "metric": "utilization_percent",
            "p50": p50,
            "p95": p50,
            "max": p50,
        }

    page = spoken(machine_block([row("gpu0", 10.0), row("gpu1", 95.5)]))
    assert "95.5 %" in page
    assert "the busiest of 2" in page
    assert "CPU" not in page
    assert machine_block([]) is None


def test_json_stays_as_it_is(run: str) -> None:
    said = json.loads(shown(run, "--json"))
    assert {"name", "uri", "status", "steps", "workers", "cost", "rules", "actions", "time"} <= set(said)
