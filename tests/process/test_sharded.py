"""Two ranks with every kind of sharding: each worker has its own shards, and Leadline issues no collectives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import Ended, environment, finish, rule, script, watched

pytestmark = pytest.mark.slow

TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")
WAYS = ("sharded", "flat", "original", "plain", "redundant")
EACH = 6
CAPTURE = ("--capture", "all:every=1", "--capture", "all:every=1,raw=true")


def diary(folder: Path, way: str, rank: int) -> dict[str, Any]:
    return dict(json.loads((folder / f"{way}_{rank}.json").read_text()))


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    ended = finish([*TORCHRUN, script("sharded.py"), "."], folder, env=environment())
    assert ended.status == 0, ended.err
    return folder


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    ended = watched(CAPTURE, *TORCHRUN, script("sharded.py"), ".", folder=tmp_path_factory.mktemp("watched"))
    assert ended.status == 0, ended.err
    return ended


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_results_are_bit_identical_and_collectives_are_unchanged(
    watch: Ended, unwatched: Path, way: str, rank: int
) -> None:
    found, expected = (diary(folder, way, rank) for folder in (watch.root.parent, unwatched))
    for what in ("digest", "facts", "losses", "weights"):
        assert found[what] == expected[what]


def test_each_rank_is_a_worker_with_all_steps(watch: Ended) -> None:
    documents = watch.run.worker_documents()
    assert sorted(name.split("-")[0] for name in documents) == ["rank0", "rank1"]
    for document in documents.values():
        assert document.steps == {"train": EACH * len(WAYS)}
        assert (document.off, document.lost, document.state) == (None, None, "ended")
    assert watch.run.findings().num_rows == 0


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_statistics_and_tensors_are_those_of_the_shard_of_the_rank(watch: Ended, way: str, rank: int) -> None:
    run, told = watch.run, diary(watch.root.parent, way, rank)
    (worker,) = (name for name in run.workers() if name.startswith(f"rank{rank}-"))
    first = EACH * WAYS.index(way)
    for prefix, book in (("", told["weights"]), ("gradient/", told["gradients"])):
        for name, steps in book.items():
            assert [int(step) for step in steps] == list(range(first, first + EACH))
            expected = np.array(steps[str(first + 2)])
            if not expected.size:
                continue
            tensor = run.tensor(prefix + name)
            found = tensor.value(first + 2, worker=worker)
            np.testing.assert_array_equal(found.reshape(-1), expected.astype(np.float32))
            assert tensor.statistic("l2", first + 2, worker=worker) == pytest.approx(np.linalg.norm(expected), rel=1e-5)


def test_shards_make_up_the_whole_tensor(watch: Ended) -> None:
    run, told = watch.run, [diary(watch.root.parent, "sharded", rank)["weights"] for rank in (0, 1)]
    for name in told[0]:
        for step in range(EACH):
            expected = np.concatenate([shards[name][str(step)] for shards in told]).astype(np.float32)
            np.testing.assert_array_equal(run.tensor(name).value(step).reshape(-1), expected)
            assert run.tensor(name).statistic("l2", step) == pytest.approx(np.linalg.norm(expected), rel=1e-5)


def test_a_finding_on_one_rank_stops_both_at_the_same_step(tmp_path: Path) -> None:
    ended = watched(
        ("--on", "exploding_tensor=stop_training"), *TORCHRUN, script("sharded.py"), ".", "30", folder=tmp_path
    )
    assert ended.status == 10, ended.err
    said = ended.show()
    assert (said["status"], said["stopped_by"]) == ("Stopped", "rule:exploding_tensor")
    finding = rule(said, "exploding_tensor")["findings"][0]
    assert (finding["step"], finding["tensors"][0]) == (30, "loss")
    assert len({worker["step"] for worker in said["workers"]}) == 1
    assert len(said["workers"]) == 2
