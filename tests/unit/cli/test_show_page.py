"""The page of a run in the terminal: its parts, narrow terminals, many workers, untrusted names, following."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from timelines import CPU, MEMORY, merge_by_time, sampled, training
from typer.testing import CliRunner

from leadline.analysis.digest import Digest
from leadline.cli.app import application
from leadline.cli.cost_lines import cost_lines
from leadline.cli.measurements import machine_block, sparkline, sparkline_lines
from leadline.cli.run_page import _warnings, head, rule_block
from leadline.reader.run import Run
from leadline.records.documents import CaptureCost, NodeDocument, RuleSummary, WorkerDocument
from leadline.records.outcome import RunOutcome
from leadline.records.series import TensorInfo
from leadline.testing.runs import Capture, RunWriter

STEP = {"data": 1.0, "forward": 30.0, "backward": 50.0, "optimizer": 10.0}


def rendered(block: Any, width: int = 100) -> str:
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
        "sampling": "",
        "explained_by": None,
        "findings": list(findings),
    }


def finding(step: int, message: str) -> dict[str, Any]:
    return {"step": step, "last_step": step, "message": message, "suggestion": "lower the rate"}


def worker(number: int, state: str) -> WorkerDocument:
    return WorkerDocument(f"rank{number}", f"node{number // 8}", state=state, notes=("no CUDA",))


@pytest.fixture
def run(tmp_path: Path) -> str:
    captures = [Capture(step, {"loss": {"value": 1.0 / (step + 1)}}) for step in range(30)]
    records = merge_by_time([*training([STEP] * 30), *captures], sampled({CPU: [10.0, 20.0, 30.0], MEMORY: [50.0] * 3}))
    return RunWriter(tmp_path / "run").write_all(records).end().path


def shown(*arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(application(), ["show", *arguments], env=environment)
    assert result.exit_code == 0, result.output
    return result.output


def test_all_parts_are_shown_in_order(run: str) -> None:
    page = shown(run, COLUMNS="100")
    parts = (
        "Completed",
        "1 → 0.0333",
        "no rules were evaluated for this run",
        "time breakdown",
        "resource utilization (1 node",
        "dashboard:",
    )
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "leadline report run" in page


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_no_line_is_wider_than_the_terminal(run: str, width: int) -> None:
    page = shown(run, COLUMNS=str(width))
    lines = [line for line in page.splitlines() if not line.startswith(("dashboard:", "  path"))]
    assert max(map(len, lines)) <= width


def test_no_colour_without_a_terminal(run: str) -> None:
    assert "\x1b" not in shown(run)


def test_following_a_run_that_has_ended_shows_it_once(run: str) -> None:
    page = shown(run, "--follow")
    assert page.count("time breakdown") == 1


def test_rules_with_findings_come_first_and_others_are_grouped() -> None:
    rules = [
        rule("a"),
        rule("b", "undecided", why="no GPU"),
        rule("bad", "fired", findings=[finding(7, "NaN")]),
        rule("c"),
        rule("d", "undecided", why="no GPU"),
        rule("e", "undecided", why="too short"),
        {**rule("f"), "sampling": "sampled every 200 steps"},
        rule("straggler", "not_applicable", why="single process"),
    ]
    counts = {"fired": 1, "clear": 3, "undecided": 3, "failed": 0}
    page = [re.sub(" +", " ", line).strip() for line in rendered(rule_block(rules, counts)).splitlines()]
    assert page == [
        "1 of 7 rules fired",
        "bad fired step 7: NaN",
        "try: lower the rate",
        "2 rules clear a, c",
        "1 rule clear f: sampled every 200 steps",
        "2 rules undecided b, d: no GPU",
        "1 rule undecided e: too short",
        "1 rule not applicable straggler: single process",
    ]


def test_a_thousand_workers_are_counted() -> None:
    summary = {
        "name": "big",
        "status": "InProgress",
        "status_note": None,
        "interruptions": [],
        "trainings": [0],
        "planned_steps": None,
        "checkpoint": None,
        "outcome": RunOutcome("Running: 5 steps").to_dict(),
        "stopped_by": None,
        "ended": None,
        "started": "2026-01-01T00:00:00Z",
        "steps": {"train": 5},
        "command": ["x"],
        "cost": {
            "seconds": None,
            "step_share": None,
            "start": None,
            "compile_seconds": 0.0,
            "beside_seconds": None,
            "bytes": 1,
            "sampled": [],
        },
        "uri": "/r",
        "upload": None,
        "removed": None,
    }
    workers = [worker(number, "ended" if number < 2 else "running") for number in range(1000)]
    page = rendered(head(summary, workers), 200)
    assert "1,000 on 125 nodes: 998 running, 2 ended" in page
    warnings = rendered(_warnings(workers, [f"part {number}" for number in range(50)]), 200).splitlines()
    assert warnings[0] == "1,000 workers: no CUDA"
    assert warnings[-1].startswith("and 43 more lines")
    assert len(page.splitlines()) + len(warnings) < 20


def test_names_that_look_like_markup_are_text(tmp_path: Path) -> None:
    name = "[red]loss[/red] <script>"
    infos = {name: TensorInfo(name, ("losses",), ())}
    records = [Capture(step, {name: {"value": 1.0}}, infos=infos) for step in range(3)]
    path = RunWriter(tmp_path / "run").write_all(records).end().path
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
def test_sparkline(values: list[float], drawn: str) -> None:
    assert sparkline(values) == drawn


def test_a_long_series_is_reduced_to_the_width() -> None:
    assert sparkline([float(step) for step in range(1000)], 8) == "▁▂▃▄▅▆▇█"


@pytest.mark.parametrize(
    ("width", "curve", "has_count"), [(91, 24, True), (90, 24, False), (78, 23, False), (63, 8, False), (62, 0, False)]
)
def test_sparklines_become_shorter_in_a_narrow_terminal(
    tmp_path: Path, width: int, curve: int, has_count: bool
) -> None:
    name = "CrossEntropyLoss_output_0"
    infos = {name: TensorInfo(name, ("losses",), ())}
    records = [Capture(step, {name: {"value": 2.5 - step / 100}}, infos=infos) for step in range(200)]
    run = Run(RunWriter(tmp_path / "run").write_all(records).end().path)
    _, line = rendered(sparkline_lines(Digest(run), width), width).splitlines()[:2]
    assert sum(character in "▁▂▃▄▅▆▇█" for character in line) == curve
    assert ("200 values" in line) == has_count
    assert "2.5 → 0.51" in line
    assert name in line or not curve
    assert len(line.rstrip()) <= width


def test_what_is_no_result_of_the_training_has_no_curve(tmp_path: Path) -> None:
    roles = {"loss": ("losses",), "epoch": ("metrics",), "eval_runtime": ("metrics",), "reward": ("metrics",)}
    infos = {name: TensorInfo(name, collections, ()) for name, collections in roles.items()}
    records = [Capture(step, {name: {"value": 1.0 + step} for name in infos}, infos=infos) for step in range(5)]
    run = Run(RunWriter(tmp_path / "run").write_all(records).end().path)
    lines = rendered(sparkline_lines(Digest(run), 100), 100).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["loss", "reward"]
    assert lines[3].strip() == "also logged: epoch and eval_runtime"


def test_the_busiest_device_is_shown_and_missing_metrics_are_left_out() -> None:
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

    page = rendered(machine_block([row("gpu0", 10.0), row("gpu1", 95.5)]))
    assert "95.5 %" in page
    assert "busiest of 2" in page
    assert "CPU" not in page
    assert machine_block([]) is None


def test_json_output(run: str) -> None:
    summary = json.loads(shown(run, "--json"))
    assert {"name", "uri", "status", "steps", "workers", "cost", "rules", "actions", "time"} <= set(summary)


def test_a_run_without_rules_is_to_be_evaluated_when_it_has_ended() -> None:
    assert rendered(rule_block([], {}, has_ended=False)).strip() == "no rules have been evaluated yet"
    assert "evaluate them with: leadline judge" in rendered(rule_block([], {}))


def test_a_rule_whose_evaluation_was_ended_early_says_up_to_which_step_it_is_clear() -> None:
    ended = {**rule("f"), "status": "Stopped", "verdict": "clear", "why": "clear up to step 1,500; it was ended early"}
    counts = {"fired": 0, "clear": 2, "undecided": 0, "failed": 0, "advice": 0}
    lines = rendered(rule_block([{**rule("g"), "verdict": "clear"}, ended], counts)).splitlines()
    shown = [re.sub(" +", " ", line).strip() for line in lines]
    assert shown[-2:] == ["1 rule clear g", "1 rule clear f: clear up to step 1,500; it was ended early"]


def test_costs_add_up_and_say_what_leaves_them_out() -> None:
    costs = (
        CaptureCost(("gradients", "weights"), ("l2",), ("preset", "rule:no_gradient"), "train", 10, 40_000_000),
        CaptureCost(
            ("gradients",), ("nan_count", "nonfinite_count"), ("rule:exploding_tensor",), "train", 5, 9_000_000
        ),
        CaptureCost(("labels",), ("class_counts",), ("rule:sorted_batches",), "train", 50, 100_000_000),
        CaptureCost((), ("mean",), ("option",), "eval", 4, 2_000_000),
        CaptureCost(("inputs",), ("max",), ("rule:unscaled_input",), "train", 1, 1_000),
    )
    most = WorkerDocument("rank0", steps={"train": 90, "eval": 10}, own_ns=200_000_000, loop_ns=10**9, costs=costs)
    workers = [WorkerDocument("rank1", own_ns=1, loop_ns=10**9, costs=costs), most]
    nodes = [NodeDocument("a", processor_seconds=0.5), NodeDocument("b", processor_seconds=0.25)]
    lines = cost_lines(workers, nodes, RuleSummary(processor_seconds=6.75)).plain.splitlines()
    rows = [re.split(r"  +", line.strip()) for line in lines]
    assert rows[1] == ["labels", "50", "2 ms", "100 ms", "10 %", "--no-rule sorted_batches"]
    assert rows[2][:2] == ["steps without captures, and the start", "100"]
    assert rows[3] == ["gradients and weights", "10", "4 ms", "40 ms", "4.0 %", "--preset light --no-rule no_gradient"]
    assert rows[4] == ["NaN counts of gradients", "5", "1.8 ms", "9 ms", "0.9 %", "--no-rule exploding_tensor"]
    assert rows[5] == ["tensors selected by name (eval)", "4", "500 µs", "2 ms", "0.2 %", "leaving out --capture"]
    assert rows[6][:2] == ["1 more", "1 µs"]
    assert rows[7] == ["in all", "200 ms", "20 %"]
    assert lines[8] == "beside the training 7.5 s of processor time, 6.8 s of it for the rules"


def test_a_run_without_a_budget_has_no_costs_by_capture() -> None:
    assert "no overhead budget" in cost_lines([WorkerDocument("rank0", own_ns=1, loop_ns=10)], [], RuleSummary()).plain
