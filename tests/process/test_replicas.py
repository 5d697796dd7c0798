"""Two ranks: replicas of a model that differ are found at the first capture; without replicas no verdict claims any."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from launching import rule, script, watched

TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")

pytestmark = pytest.mark.slow


def judged(folder: Path, kind: str) -> dict[str, Any]:
    ended = watched((), *TORCHRUN, script("drifting.py"), kind, folder=folder)
    assert ended.status == 0, ended.err
    return rule(ended.show(), "replica_divergence")


def test_a_rank_that_changes_a_weight_alone_is_found_at_the_next_capture(tmp_path: Path) -> None:
    told = judged(tmp_path, "drifting")
    assert told["verdict"] == "fired"
    (finding,) = told["findings"]
    assert finding["step"] == 50
    assert finding["message"].startswith("0.weight")
    assert finding["worker"].startswith("rank1-")


def test_averaged_gradients_of_other_weights_are_found_at_the_second_step(tmp_path: Path) -> None:
    told = judged(tmp_path, "unequal")
    (finding,) = told["findings"]
    assert (finding["step"], finding["message"]) == (
        1,
        "0.weight (linear), and 3 more parameters: the gradients are equal on 2 workers, and the weights have never "
        "been",
    )


@pytest.mark.parametrize(
    ("kind", "verdict", "why"),
    [
        ("healthy", "clear", ""),
        ("averaged", "clear", ""),
        ("sharded", "not_applicable", "the parameters are sharded: no process holds a replica"),
        ("bare", "undecided", "no parameter was equal on all processes at two captures"),
    ],
)
def test_only_equal_replicas_are_clear(tmp_path: Path, kind: str, verdict: str, why: str) -> None:
    told = judged(tmp_path, kind)
    assert (told["verdict"], told["why"]) == (verdict, why)
