"""``leadline run --max-disk``: a run that stores raw tensors at every step stays within its bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import bare, losses, script, show, watched

from leadline.store.disk_limit import raw_bytes
from leadline.store.run_state import run_bytes

BOUND = 10_000_000
OPTIONS = ("--budget", "off", "--capture", "weights:every=1,raw=true", "--max-disk", "10MB")
SIZE = ("--depth", "4", "--width", "128", "--steps", "300")


@pytest.mark.slow
def test_the_oldest_raw_tensors_are_removed_and_nothing_else(tmp_path: Path) -> None:
    """All weights of all steps take 80 MB."""
    (tmp_path / "bare").mkdir()
    unwatched = bare("deep.py", *SIZE, folder=tmp_path / "bare")
    ended = watched(OPTIONS, script("deep.py"), *SIZE, folder=tmp_path)
    assert (ended.status, ended.out) == (0, unwatched.out)
    run = ended.run
    # the latest segment, whose size depends on the load of the machine, is never removed
    assert run_bytes(str(run.path)) <= BOUND or raw_bytes(str(run.path)) == 0
    assert run_bytes(str(run.path)) < 75_000_000
    assert " of raw tensors (" in ended.err
    assert "removed to stay within 10 MB" in show(run.path)["removed"]
    assert list(losses(run)) == list(range(300))
    assert run.verify() == []
    kept = run.archive.stored["0.weight"]
    assert 0 < len(kept) < 250


def test_a_bound_is_no_option_of_a_run_in_a_store(tmp_path: Path) -> None:
    ended = watched((*OPTIONS, "--out", "s3://bucket/runs"), script("deep.py"), folder=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert "--spool-max bounds the local copy" in ended.err
