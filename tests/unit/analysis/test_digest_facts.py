"""Metadata in a digest: workers, tensors, captured statistics and damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from timelines import merge_by_time, training

from leadline.analysis.digest import Digest
from leadline.reader.run import Run
from leadline.testing.runs import Capture, RunWriter


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Four workers: two with captures, one with a timeline only, one with a document only."""
    loss = {"loss": {"value": 1.0}}
    captures = [
        *(Capture(step, {**loss, "fc.weight": {"l2": 1.0, "max": 2.0}}, worker="rank2-1") for step in range(5)),
        *(Capture(step, loss, worker="rank10-1") for step in range(5)),
    ]
    timed = training([{"forward": 1.0}] * 5, worker="rank3-1", has_captures=False)
    writer = RunWriter(tmp_path / "run").write_all(merge_by_time(captures, timed)).end()
    writer.write_worker("rank11-1", state="ended")
    return writer.path


def test_workers_are_those_with_data_or_documents(path: str) -> None:
    assert Digest(Run(path)).workers() == ["rank2-1", "rank3-1", "rank10-1", "rank11-1"]


def test_tensors_have_the_collections_of_the_run(path: str) -> None:
    run = Run(path)
    assert Digest(run).infos() == run.archive.infos()


def test_captured_statistics_exclude_the_clock(path: str) -> None:
    assert Digest(Run(path)).captured() == {
        "loss": {"value": {"rank2-1", "rank10-1"}},
        "fc.weight": {"l2": {"rank2-1"}, "max": {"rank2-1"}},
    }


def test_damage_is_reported(path: str) -> None:
    assert Digest(Run(path)).damage == []
    folder = os.path.join(path, "timeline", "rank3-1")
    place = os.path.join(folder, sorted(os.listdir(folder))[0])
    content = Path(place).read_bytes()
    half = len(content) // 2
    Path(place).write_bytes(content[:half] + bytes(each ^ 0xFF for each in content[half:]))
    digest = Digest(Run(path))
    digest.steps()
    assert any("rank3-1" in each for each in digest.damage)
