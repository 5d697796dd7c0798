"""The overhead budget in a real training: captures that exceed it are throttled and reported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, PATIENCE, Ended, bare, environment, rule, script, watched

from leadline.errors import ConfigurationError
from leadline.judge.judge import judge_run
from leadline.reader.run import Run
from leadline.records.plan import Schedule

STEPS = 150
DEAR = """
from leadline.records.needs import TensorNeed
from leadline.rules import Clear, Needs, Rule

STATISTICS = ("l2", "std", "min", "max", "abs_mean", "nonfinite_count")

class Dear(Rule):
    def needs(self):
        return Needs(tuple(TensorNeed(each, statistics=STATISTICS, every=1) for each in ("gradients", "weights")))

    def evaluate(self, window):
        return Clear()
"""
OPTIONS = ("--rule", "dear.py:Dear", "--capture", "gradients:every=5,statistics=max", "--preset", "light")


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return bare("deep.py", "--steps", str(STEPS), folder=tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return train(tmp_path_factory.mktemp("thinned"), "2%")


def train(folder: Path, budget: str) -> Ended:
    (folder / "dear.py").write_text(DEAR)
    return watched(("--budget", budget, *OPTIONS), script("deep.py"), "--steps", str(STEPS), folder=folder)


def events(run: Run) -> list[dict[str, Any]]:
    return [json.loads(row["args"]) for row in run.timeline().to_pylist() if row["name"] == "capture_thinned"]


def captured(run: Run, tensor: str, statistic: str) -> list[int]:
    return list(run.tensor(tensor).statistics(statistic).column("step").to_pylist())


def due(told: list[dict[str, Any]], every: int) -> list[int]:
    """Return the steps at which an item planned every ``every`` steps is captured, according to the events."""
    changes = {change["since_step"]: change["to_every"] for change in told}
    steps, interval = [], every
    for step in range(STEPS):
        interval = changes.get(step, interval)
        if Schedule(every=interval).should_capture(step):
            steps.append(step)
    return steps


def test_the_training_is_bit_identical(unwatched: Ended, ended: Ended) -> None:
    assert (ended.status, ended.out) == (0, unwatched.out)


def test_captures_of_the_rule_are_throttled_as_the_events_record(ended: Ended) -> None:
    told = events(ended.run)
    of_rule = [change for change in told if change["sources"] == ["rule:dear"]]
    assert {change["collection"] for change in of_rule} == {"gradients", "weights"}
    assert all(change["from_every"] == 1 and change["mode"] == "train" and not change["raw"] for change in of_rule)
    assert of_rule[0]["to_every"] > 1
    weights = [change for change in of_rule if change["collection"] == "weights"]
    assert captured(ended.run, "0.weight", "l2") == sorted({*due(weights, 1), *due(of_preset(told), 100)})
    assert len(captured(ended.run, "0.weight", "l2")) < STEPS


def of_preset(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [change for change in told if "preset" in change["sources"] and change["collection"] == "weights"]


def test_losses_nonfinite_counts_and_explicit_captures_are_not_throttled(ended: Ended) -> None:
    run = ended.run
    (loss,) = run.tensor_names(collection="losses")
    assert captured(run, loss, "value") == list(range(STEPS))
    for tensor in ("0.weight", "gradient/0.weight"):
        assert captured(run, tensor, "nonfinite_count") == list(range(STEPS))
    assert set(range(0, STEPS, 5)) <= set(captured(run, "gradient/0.weight", "max"))


def test_the_rule_is_undecided_and_others_are_clear(ended: Ended) -> None:
    said = ended.show()
    dear, exploding = rule(said, "dear"), rule(said, "exploding_tensor")
    assert (dear["status"], dear["verdict"]) == ("NoIssuesFound", "undecided")
    assert dear["why"].startswith("gradients and weights throttled since step ")
    assert (exploding["verdict"], exploding["why"]) == ("clear", "")
    afterwards = {rule.name: (rule.verdict, rule.why) for rule in judge_run(ended.run.path).rules}
    assert afterwards["dear"] == ("undecided", dear["why"])
    assert afterwards["exploding_tensor"] == ("clear", "")


def test_throttling_is_shown(ended: Ended) -> None:
    cost = ended.show()["cost"]
    assert set(cost) == {"step_share", "bytes", "thinned"}
    assert {"rule:dear"} <= {source for item in cost["thinned"] for source in item["sources"]}
    for item in cost["thinned"]:
        own = [
            event
            for event in events(ended.run)
            if event["collection"] == item["collection"]
            and event["sources"] == item["sources"]
            and event["statistics"] == item["statistics"]
        ]
        assert (own[0]["since_step"], own[-1]["to_every"]) == (item["since_step"], item["to_every"])
    page = leadline("show", ended.run.path)
    assert "throttled  gradients, weights every " in page
    assert f"overhead   {spoken(cost['step_share'])} of step time" in page
    assert spoken(cost["step_share"]) in leadline("ls", str(ended.root))


def test_the_summary_shows_the_overhead_with_the_same_number(ended: Ended) -> None:
    share = spoken(ended.show()["cost"]["step_share"])
    assert f"Overhead: {share} of step time, " in ended.err
    assert "leadline  throttled to stay within the overhead budget: gradients, weights every " in ended.err


def spoken(share: float) -> str:
    percent = 100 * share
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


def leadline(*words: str) -> str:
    done = subprocess.run(
        [*LEADLINE, *words],
        env=environment(COLUMNS="200"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout


def test_without_a_budget_nothing_is_throttled(tmp_path: Path, unwatched: Ended) -> None:
    ended = train(tmp_path, "off")
    assert (ended.status, ended.out) == (0, unwatched.out)
    assert events(ended.run) == []
    assert captured(ended.run, "0.weight", "l2") == list(range(STEPS))
    said = ended.show()
    assert (rule(said, "dear")["verdict"], said["cost"]["thinned"]) == ("clear", [])
    assert "thinned" not in ended.err


def test_each_rank_throttles_independently(tmp_path: Path) -> None:
    """Ranks do not communicate, so none waits; captures skipped by one rank leave the rule undecided."""
    (tmp_path / "dear.py").write_text(DEAR)
    steps = 60
    torchrun = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")
    job = (*torchrun, script("deep.py"), "--steps", str(steps), "--depth", "20")
    ended = watched(("--budget", "2%", *OPTIONS), *job, folder=tmp_path)
    assert ended.status == 0
    run = ended.run
    assert len(run.workers()) == 2
    rows = run.timeline().to_pylist()
    assert {row["worker"] for row in rows if row["name"] == "capture_thinned"} == set(run.workers())
    for row_count in per_worker(run, *run.tensor_names(collection="losses"), statistic="value").values():
        assert row_count == steps
    for row_count in per_worker(run, "0.weight", statistic="nonfinite_count").values():
        assert row_count == steps
    assert rule(ended.show(), "dear")["verdict"] == "undecided"


def per_worker(run: Run, tensor: str, *, statistic: str) -> dict[str, int]:
    workers = run.tensor(tensor).statistics(statistic).column("worker").to_pylist()
    return {worker: workers.count(worker) for worker in run.workers()}


def test_an_invalid_budget_is_reported_in_one_line(tmp_path: Path) -> None:
    ended = watched(("--budget", "2"), script("deep.py"), folder=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == (
        "leadline: --budget must be a percentage of the step time like 2%, or off, not '2'; did you mean 2%?\n"
    )
    from leadline.torch import Hook

    with pytest.raises(ConfigurationError, match="budget must be a percentage"):
        Hook(out=str(tmp_path / "hook"), budget="much")
    assert list(tmp_path.iterdir()) == []
