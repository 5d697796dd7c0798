"""The overhead budget in a real training: captures that exceed it are delayed and reported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, PATIENCE, Ended, bare, environment, rule, script, watched

from leadline.errors import ConfigurationError
from leadline.reader.run import Run
from leadline.records.formatting import latency
from leadline.store.run_state import read_nodes

STEPS = 500
"""Capturing all of them would take longer than the seconds that the budget grants at the start of a run."""
pytestmark = pytest.mark.slow

DEAR = """
from leadline.records.needs import TensorNeed
from leadline.rules import Clear, Needs, Rule

STATISTICS = ("median_exact", "nonfinite_count")

class Dear(Rule):
    def needs(self):
        return Needs((TensorNeed("weights", statistics=STATISTICS, every=1),))

    def evaluate(self, window):
        return Clear()
"""
OPTIONS = ("--rule", "dear.py:Dear", "--capture", "gradients:every=5,statistics=max", "--preset", "light")
SIZE = ("--depth", "8", "--width", "512")


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return bare("deep.py", *SIZE, "--steps", str(STEPS), folder=tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return train(tmp_path_factory.mktemp("budget"), "2%", STEPS)


def train(folder: Path, budget: str, steps: int) -> Ended:
    (folder / "dear.py").write_text(DEAR)
    job = (script("deep.py"), *SIZE, "--steps", str(steps))
    return watched(("--budget", budget, *OPTIONS), *job, folder=folder, LATE_DYNAMO="")  # as users train


def captured(run: Run, tensor: str, statistic: str) -> list[int]:
    return list(run.tensor(tensor).statistics(statistic).column("step").to_pylist())


def sampled(ended: Ended) -> dict[str, Any]:
    """Return the record of the rule's expensive statistic."""
    (record,) = [item for item in ended.show()["cost"]["sampled"] if item["statistics"] == ["median_exact"]]
    return record  # type: ignore[no-any-return]


def test_the_training_is_bit_identical(unwatched: Ended, ended: Ended) -> None:
    assert (ended.status, ended.out) == (0, unwatched.out)


def test_expensive_captures_of_a_rule_are_delayed(ended: Ended) -> None:
    steps = captured(ended.run, "0.weight", "median_exact")
    assert steps[:2] == [0, 1]
    assert 3 <= len(steps) < 0.8 * STEPS


def test_losses_and_explicit_captures_are_not_delayed(ended: Ended) -> None:
    run = ended.run
    (loss,) = run.tensor_names(collection="losses")
    assert captured(run, loss, "value") == list(range(STEPS))
    assert captured(run, "0.weight", "nonfinite_count")  # how often depends on the load
    assert set(range(0, STEPS, 5)) <= set(captured(run, "gradient/0.weight", "max"))


def test_what_was_captured_is_recorded(ended: Ended) -> None:
    record = sampled(ended)
    assert (record["collection"], record["mode"], record["sources"]) == ("weights", "train", ["rule:dear"])
    assert (record["requested_every"], record["steps"]) == (1, STEPS)
    steps = captured(ended.run, "0.weight", "median_exact")
    assert record["captures"] == len(steps)
    assert record["longest_gap"] == max(after - before for before, after in pairwise(steps))
    assert record["captures"] < record["requests"] <= STEPS


def test_a_rule_whose_data_was_captured_less_often_is_decided(ended: Ended) -> None:
    assert rule(ended.show(), "dear")["verdict"] == "clear"


def test_sampling_is_shown(ended: Ended) -> None:
    cost = ended.show()["cost"]
    known = {"seconds", "step_share", "start", "compile_seconds", "beside_seconds", "captures", "bytes", "sampled"}
    assert set(cost) == known
    record = sampled(ended)
    average = round(STEPS / record["captures"])
    # a busy machine makes steps slow, so that the budget may allow two of three captures
    often = f"at {record['captures']} of {record['requests']} requested steps"
    interval = f"every {average} steps on average, 1 requested" if average > 1 else often
    page = " ".join(leadline("show", ended.run.path).split())  # without line breaks
    assert re.search(rf"\bweights\b[\w, ]* {interval}", page), page
    assert f"overhead {overhead(cost)}" in page
    (listed,) = json.loads(leadline("ls", str(ended.root), "--json"))
    assert listed["cost"] == cost["step_share"]


def test_the_summary_shows_the_overhead_with_the_same_number(ended: Ended) -> None:
    cost = ended.show()["cost"]
    beside = f"{latency(cost['beside_seconds'])} of processor time beside it"
    assert re.search(rf"Overhead: {re.escape(overhead(cost))}, [\d.]+ m?s of processor time beside it, ", said(ended))
    assert f"{beside}, " in " ".join(leadline("show", ended.run.path).split())
    agent = max(node.processor_seconds or 0.0 for node in read_nodes(ended.run.path))
    assert 0.05 < agent < cost["beside_seconds"] - 0.1  # agent and judge import numpy alone for so long
    assert "leadline  sampled less often to stay within the overhead budget: " in ended.err


def said(ended: Ended) -> str:
    """Return what the run printed without line breaks."""
    return " ".join(ended.err.split())


def overhead(cost: dict[str, Any]) -> str:
    start, seconds = cost["start"], latency(cost["seconds"])
    if start is None:
        return f"{seconds} ({spoken(cost['step_share'])} of step time)"
    once = f"{latency(start['seconds'])} in the first {start['steps']} steps"
    return f"{seconds}: {once}, then {spoken(start['step_share_since'])} of step time"


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


def test_without_a_budget_everything_is_captured_when_due(tmp_path: Path) -> None:
    ended = train(tmp_path, "off", 30)
    assert captured(ended.run, "0.weight", "median_exact") == list(range(30))
    assert ended.show()["cost"]["sampled"] == []
    assert "sampled less often" not in ended.err


def test_ranks_capture_the_same_steps(tmp_path: Path) -> None:
    """Ranks do not communicate, so none waits."""
    (tmp_path / "dear.py").write_text(DEAR)
    torchrun = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")
    job = (*torchrun, script("deep.py"), *SIZE, "--steps", str(STEPS))
    ended = watched(("--budget", "2%", *OPTIONS), *job, folder=tmp_path)
    assert ended.status == 0
    (loss,) = ended.run.tensor_names(collection="losses")
    assert {len(steps) for steps in per_worker(ended.run, loss, "value").values()} == {STEPS}
    fewer, more = sorted(per_worker(ended.run, "0.weight", "median_exact").values(), key=len)
    assert len(fewer) < STEPS
    assert len(fewer & more) >= 0.6 * len(fewer)


def per_worker(run: Run, tensor: str, statistic: str) -> dict[str, set[int]]:
    table = run.tensor(tensor).statistics(statistic)
    rows = list(zip(table.column("worker").to_pylist(), table.column("step").to_pylist(), strict=True))
    return {worker: {step for of, step in rows if of == worker} for worker in run.workers()}


def test_to_stop_on_any_finding_takes_no_verdict_away(tmp_path: Path) -> None:
    """The rules that stop the training see more steps of what is cheap, and no fewer of anything else."""
    clear = []
    shared = ("--budget", "2%", "--no-rule", "learning_rate")  # it fires: gradients vanish in a network so deep
    for name, options in (("plain", ()), ("stopping", ("--on", "*=stop_training"))):
        folder = tmp_path / name
        folder.mkdir()
        ended = watched((*shared, *options), script("deep.py"), "--steps", "300", folder=folder)
        assert ended.status == 0
        clear.append({each["name"] for each in ended.show()["rules"] if each["verdict"] == "clear"})
    assert clear[0] <= clear[1]


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
