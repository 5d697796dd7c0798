"""Bottlenecks of real trainings: named in the summary, found by their rules; no rule fires on healthy trainings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from launching import script, watched

TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")
WATCHING = ("straggler", "input_bound", "memory_growth", "gpu_throttling", "step_outlier")
ASKED = ("--no-default-rules", "--preset", "light", *(word for name in WATCHING for word in ("--rule", name)))
"""Little is captured beside: what it takes would be most of a short run where the machine computes fast."""

pytestmark = pytest.mark.slow


def shown(tmp_path: Path, kind: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[str]]:
    """Return the time breakdown of ``show --json``, the result of each rule, and the terminal lines."""
    job = (script("bound.py"), kind)
    ended = watched(ASKED, *((*TORCHRUN, *job) if "rank" in kind or kind == "straggler" else job), folder=tmp_path)
    assert ended.status == 0, ended.err
    told = ended.show()
    return told["time"], {rule["name"]: rule for rule in told["rules"]}, ended.err.splitlines()


def is_bound(time: dict[str, Any], kind: str, phase: str, words: str = "") -> bool:
    """Return whether a bottleneck is the one expected; on a machine that is too busy to tell, whether none is named."""
    bound, overload = time["bound"], time["overload"]
    if overload is not None and "not reliable" in overload["message"]:
        return bound is None
    return (bound["kind"], bound["phase"]) == (kind, phase) and words in bound["message"]


def fired(rules: dict[str, dict[str, Any]]) -> set[str]:
    return {name for name in WATCHING if rules[name]["findings"]}


def test_a_slow_data_loader_is_an_input_bottleneck(tmp_path: Path) -> None:
    time, rules, lines = shown(tmp_path, "loader")
    assert (time["bound"]["kind"], time["bound"]["phase"]) == ("input", "data")
    assert fired(rules) == {"input_bound"}
    assert any("; input-bound: " in line for line in lines)
    assert any("num_workers" in line for line in lines)


def test_python_code_between_the_phases_is_a_host_bottleneck(tmp_path: Path) -> None:
    time, rules, _ = shown(tmp_path, "python")
    assert is_bound(time, "host", "other")
    assert "input_bound" not in fired(rules)


@pytest.mark.parametrize(
    ("kind", "bottleneck", "phase", "words"),
    [
        ("sleeping_load", "input", "host", "wait"),
        ("numpy_load", "host", "host", "loading data, callbacks or other code"),
        ("computing", "compute", "backward", "compute"),
        ("checkpointing", "host", "checkpoint", "checkpoints"),
        ("blocked_forward", "host", "forward", "waits"),
    ],
)
def test_a_loop_without_a_data_loader(tmp_path: Path, kind: str, bottleneck: str, phase: str, words: str) -> None:
    time, rules, lines = shown(tmp_path, kind)
    assert is_bound(time, bottleneck, phase, words)
    assert max(time["phases"], key=lambda found: found["share"])["phase"] == phase
    assert "input_bound" not in fired(rules)
    if kind == "sleeping_load":
        assert rules["input_bound"]["verdict"] == "undecided"
        assert not any("autocast" in line for line in lines)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel has no statistics of the scheduler")
def test_a_training_that_shares_its_processor_is_told_so_and_not_that_it_waits(tmp_path: Path) -> None:
    time, rules, lines = shown(tmp_path, "crowded")
    assert time["bound"] is None
    assert time["overload"]["share"] > 0.5
    assert "% of the time after the first step" in time["overload"]["message"]
    assert any("Note: the machine was overloaded: " in line for line in lines)
    assert "input_bound" not in fired(rules)


def test_a_leak_is_a_memory_bottleneck(tmp_path: Path) -> None:
    time, rules, _ = shown(tmp_path, "leak")
    assert "memory_growth" in fired(rules)
    assert time["bound"]["kind"] == "memory"


def test_occasional_slow_steps_are_outliers(tmp_path: Path) -> None:
    time, rules, _ = shown(tmp_path, "periodic")
    (finding,) = rules["step_outlier"]["findings"]
    assert "mostly in other" in finding["message"]
    assert time["throughput"]["step_ms"]["p95"] < 500


def test_a_slow_rank_is_named_with_its_phase(tmp_path: Path) -> None:
    time, rules, _ = shown(tmp_path, "straggler")
    assert "straggler" in fired(rules)
    finding = rules["straggler"]["findings"][0]
    assert (finding["evidence"]["rank"], finding["evidence"]["phase"]) == (1, "forward")
    assert is_bound(time, "communication", "forward", "rank 1")


@pytest.mark.parametrize("kind", ["healthy_mlp", "healthy_cnn", "healthy_ranks"])
def test_no_rule_fires_on_a_healthy_training(tmp_path: Path, kind: str) -> None:
    time, rules, _ = shown(tmp_path, kind)
    assert fired(rules) - {"step_outlier"} == set()
    assert rules["gpu_throttling"]["verdict"] in ("not_applicable", "clear")
    assert is_bound(time, "compute", "backward") or time["bound"]["kind"] in ("compute", "communication")
    assert sum(phase["share"] for phase in time["phases"]) == pytest.approx(1.0)
