"""How work is cut for Ray and put together again; what Ray itself does with it is in ``tests/process``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from leadline.errors import ConfigurationError, MissingExtraError
from leadline.judge.engines import ray
from leadline.judge.engines.engine import Judged, Task
from leadline.judge.engines.ray import Piece, RayEngine, cut, judge_shard
from leadline.judge.judge import judge_run
from leadline.judge.rule_entry import RuleResult
from leadline.judge.rule_pool import WorkerLimits
from leadline.records.manifest import RuleSpec
from leadline.records.version import __version__
from leadline.testing.runs import Capture, RunWriter

RULES = tuple(RuleSpec(name, "exploding_tensor") for name in "abcdefg")


def tasks(count: int, rules: Sequence[RuleSpec] = RULES) -> list[Task]:
    return [Task(f"/runs/{index}", tuple(rules)) for index in range(count)]


def result(name: str) -> RuleResult:
    return RuleResult(name, "exploding_tensor", {}, "NoIssuesFound", "clear", "", 1, ())


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40, 200])
@pytest.mark.parametrize("places", [1, 2, 5, 64])
@pytest.mark.parametrize("rules", [RULES, RULES[:1], ()])
def test_every_rule_of_every_run_is_in_one_piece(count: int, places: int, rules: tuple[RuleSpec, ...]) -> None:
    asked = tasks(count, rules)
    shards = cut(asked, places)
    pieces = [piece for shard in shards for piece in shard]
    assert all(shards)
    for place, task in enumerate(asked):
        own = [piece for piece in pieces if piece.place == place]
        assert [piece.count for piece in own] == [len(own)] * len(own)
        assert {piece.task.run for piece in own} == {task.run}
        assert sorted(spec.alias for piece in own for spec in piece.task.rules) == [spec.alias for spec in rules]
    assert len(pieces) == count or count < places
    assert len(shards) >= min(len(pieces), places)


def test_many_runs_make_shards_of_several() -> None:
    assert [len(shard) for shard in cut(tasks(200), 2)] == [25] * 8
    assert max(len(shard) for shard in cut(tasks(10_000), 2)) == 50


def test_one_run_is_cut_by_rules() -> None:
    (first, *others) = cut(tasks(1), 3)
    assert [spec.alias for spec in first[0].task.rules] == ["a", "d", "g"]
    assert len(others) == 2


def test_pieces_are_put_together_in_the_order_of_the_rules() -> None:
    asked = tasks(2, RULES[:3])
    answers = [
        (Piece(0, 2, asked[0]), Judged("/runs/0", (result("b"),), ("torn",))),
        (Piece(1, 1, asked[1]), Judged("/runs/1", tuple(map(result, "abc")))),
        (Piece(0, 2, asked[0]), Judged("/runs/0", (result("a"), result("c")), ("torn", "cut"))),
    ]
    first, second = ray._merged(asked, iter(answers))
    assert (first.run, second.run) == ("/runs/1", "/runs/0")
    assert [each.name for each in second.rules] == ["a", "b", "c"]
    assert second.damage == ("torn", "cut")


def test_a_run_of_which_a_piece_could_not_be_judged_was_not_judged() -> None:
    asked = tasks(1, RULES[:2])
    answers = [
        (Piece(0, 2, asked[0]), Judged("/runs/0", (result("a"),))),
        (Piece(0, 2, asked[0]), Judged("/runs/0", problem="node n sees no run")),
    ]
    assert list(ray._merged(asked, iter(answers))) == [Judged("/runs/0", problem="node n sees no run")]


def test_a_shard_is_judged_as_each_run_alone(tmp_path: Path) -> None:
    rules = (RuleSpec("bad", "exploding_tensor"), RuleSpec("mine", "mine.py:Mine", folder=str(tmp_path)))
    parts = [Capture(step, {"loss": {"value": float("nan") if step == 2 else 1.0}}) for step in range(4)]
    run = RunWriter(tmp_path / "run").write_all(parts).end().path
    shard = [Piece(0, 1, Task(run, rules)), Piece(1, 1, Task(str(tmp_path / "nowhere"), rules))]
    there, nowhere = judge_shard(shard, WorkerLimits(), __version__)
    node = os.uname().nodename
    assert there.rules[0] == judge_run(run, rules[:1]).rules[0]
    assert (there.rules[1].status, there.rules[1].why) == (
        "Error",
        f"node {node} does not have the rule file {tmp_path}/mine.py; all nodes need it under the same path",
    )
    assert nowhere.problem.startswith(f"node {node} has no run at {tmp_path}/nowhere; ")
    ray._worker_processes().close()
    ray._worker_processes.cache_clear()


def test_another_version_judges_nothing() -> None:
    (judged,) = judge_shard([Piece(0, 1, tasks(1)[0])], WorkerLimits(), "0.0.1")
    assert judged.problem.endswith(f"has leadline {__version__}, not 0.0.1; install the same version on all nodes")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'leadline\[ray\]'"):
        list(RayEngine().judge(tasks(1)))


@pytest.mark.parametrize("address", ["nowhere", "host:port", ":1", "ray://host", "127.0.0.1:99999999"])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(ConfigurationError, match="must be host:port"):
        ray._check_address(address)
