"""Phases of real trainings, compared with torch.profiler on the same steps."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fork_server import client
from launching import Ended, script, watched

from leadline.reader.run import Run

TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")
PHASES = ("data", "forward", "backward", "optimizer")
KINDS = ("loader_bound", "python_bound", "computing", "checkpointing", "accumulating", "adversarial", "evaluating")
STEPS = 12
SLOW_SECONDS = 0.03
FIRST = 2
"""Earlier steps include one-time work, such as finding names and compiling."""
LONGER = 3.0
"""Overhead is processor time; beside other processes of the tests it takes up to so many times as long."""

pytestmark = pytest.mark.slow


def rows(run: Run, rank: int = 0) -> list[dict[str, Any]]:
    found = [row for row in run.timeline().to_pylist() if row["worker"].startswith(f"rank{rank}-")]
    return [{**row, "args": json.loads(row["args"])} for row in found]


def sums(found: list[dict[str, Any]], mode: str = "train", since: int = FIRST) -> dict[str, float]:
    """Return the seconds of each phase, without the phases nested in it."""
    total: dict[str, float] = {}
    for row in found:
        if row["phase"] == mode and row["step"] >= since:
            total[row["name"]] = total.get(row["name"], 0.0) + row["duration_ns"] / 1e9
            within = row["args"].get("within")
            if within:
                total[within] = total.get(within, 0.0) - row["duration_ns"] / 1e9
            total["own"] = total.get("own", 0.0) + row["args"].get("own_ns", 0) / 1e9
    return total


def traced(folder: Path, kind: str, rank: int = 0) -> dict[str, float]:
    return dict(json.loads((folder / f"{kind}_{rank}.json").read_text()))


@pytest.fixture(scope="module", params=KINDS)
def training(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Ended, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    with client.real_starts() if request.param == KINDS[0] else nullcontext():  # one shows how long imports take
        ended = watched((), script("timed.py"), request.param, str(folder), folder=folder)
    assert ended.status == 0, ended.err
    return request.param, ended, folder


def test_the_phases_match_torch_profiler(training: tuple[str, Ended, Path]) -> None:
    kind, ended, folder = training
    found, expected = sums(rows(ended.run)), traced(folder, kind)
    for name in (*PHASES, "checkpoint"):
        if expected.get(name, 0.0) > 0.05 * found["step"]:
            # ranges of torch.profiler include Leadline's overhead
            slack = 0.2 * expected[name] + 0.03 * found["step"] + LONGER * found["own"]
            assert abs(found[name] - expected[name]) <= slack, name


def test_the_phases_add_up_to_the_step(training: tuple[str, Ended, Path]) -> None:
    kind, ended, folder = training
    found, expected = sums(rows(ended.run)), traced(folder, kind)
    known = sum(found.get(name, 0.0) for name in (*PHASES, "checkpoint", "collective"))
    assert known <= 1.02 * found["step"]
    if kind == "python_bound":
        assert known + expected["other"] + found["own"] <= 1.1 * found["step"]
        assert known + expected["other"] + LONGER * found["own"] >= 0.9 * found["step"]
    elif kind in ("loader_bound", "computing", "accumulating"):
        assert known + expected["between"] + LONGER * found["own"] >= 0.9 * found["step"]


def test_steps_are_contiguous_and_complete(training: tuple[str, Ended, Path]) -> None:
    kind, ended, _ = training
    found = sorted((row for row in rows(ended.run) if row["name"] == "step"), key=lambda row: row["start_ns"])
    train = [row["step"] for row in found if row["phase"] == "train"]
    assert len(train) == STEPS == len(set(train))
    for before, after in pairwise(found):
        assert abs(before["start_ns"] + before["duration_ns"] - after["start_ns"]) < 5e6
    (document,) = ended.run.worker_documents().values()
    assert (document.off, document.lost) == (None, None)
    begun = {row["name"]: row for row in rows(ended.run) if row["phase"] == "initialization"}
    assert set(begun) == {"imports", "setup", "first_step"}
    ends = [begun[name]["start_ns"] + begun[name]["duration_ns"] for name in ("imports", "setup")]
    assert abs(begun["setup"]["start_ns"] - ends[0]) < 5e6
    assert abs(begun["first_step"]["start_ns"] - ends[1]) < 5e6
    assert begun["imports"]["duration_ns"] > (1e8 if kind == KINDS[0] else 0)  # mostly the import of PyTorch


def test_the_longest_phase_is_the_bottleneck_of_the_training(training: tuple[str, Ended, Path]) -> None:
    kind, ended, _ = training
    found = sums(rows(ended.run))
    found["other"] = found["step"] - found["own"] - sum(found.get(name, 0.0) for name in (*PHASES, "checkpoint"))
    longest = max((*PHASES, "other"), key=lambda name: found.get(name, 0.0))
    expected = {"loader_bound": "data", "python_bound": "other"}
    if kind in expected:
        assert longest == expected[kind]
    if kind == "evaluating":
        evaluated = sums(rows(ended.run), "eval", since=0)
        assert evaluated["data"] >= 3 * 8 * 0.01  # within steps of their own, which overlap no train step: see above
    if kind == "accumulating":
        counts = [row["args"].get("count") for row in rows(ended.run) if row["name"] == "backward"]
        assert counts == [4] * STEPS
    if kind == "adversarial":
        # the first step ends with the first of two optimizers
        counts = [row["args"].get("count") for row in rows(ended.run) if row["name"] == "optimizer"]
        assert counts == [None, *[2] * (STEPS - 1)]


@pytest.mark.parametrize("kind", ["ranks", "replicas"])
def test_a_fast_rank_waits_for_the_slow_rank(tmp_path: Path, kind: str) -> None:
    ended = watched((), *TORCHRUN, script("timed.py"), kind, str(tmp_path), folder=tmp_path)
    assert ended.status == 0, ended.err
    quick, slow = (sums(rows(ended.run, rank)) for rank in (0, 1))
    lost = (STEPS - FIRST) * SLOW_SECONDS
    assert slow["data"] >= 0.99 * lost
    late = slow["data"] - quick["data"]
    assert late >= 0.7 * lost
    # ranks that share a busy core also wait for each other
    assert quick["collective"] - slow["collective"] >= 0.5 * late
    assert quick["step"] == pytest.approx(slow["step"], rel=0.3)
    found = [row["args"] for row in rows(ended.run) if row["name"] == "collective" and row["phase"] == "train"]
    if kind == "ranks":
        assert {(args["op"], args["group"], args["count"]) for args in found} == {("all_reduce", "world", 6)}
        expected = traced(tmp_path, kind)["collective"]
        assert quick["collective"] == pytest.approx(expected, rel=0.2)
    else:
        assert {(args["op"], args["group"], args["within"]) for args in found} == {("reduction", "world", "backward")}
        assert {args["bytes"] for args in found} == {4 * (64 * 64 + 64 + 64 * 64 + 64 + 64 * 8 + 8)}
