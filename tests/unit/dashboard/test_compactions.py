"""Compaction of large runs by one background process at a time."""

from __future__ import annotations

import time

import pytest
from long_runs import Day, write_day

from leadline.analysis.digest import Digest
from leadline.dashboard.run_cache import Compactions
from leadline.reader.run import Run


@pytest.mark.slow
def test_a_run_is_compacted_while_the_page_shows_progress(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_COMPACT_BYTES", "1000")
    path = write_day(tmp_path / "run", Day(hours=0.1, cores=8, gpus=0, steps=1000, tensors=4))
    digest = Digest(Run(path), max_bytes=100_000)
    assert digest.is_preparing
    compactions = Compactions()
    compactions.start(path)
    compactions.start(path)
    assert len(compactions._running) == 1
    compactions.wait()
    until = time.monotonic() + 60
    while digest.refresh().is_preparing:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert digest.steps()["count"].to_numpy().sum() == 1000 - 1000 % 3


@pytest.mark.slow
def test_failed_compaction_is_not_retried_forever(tmp_path) -> None:
    compactions = Compactions()
    for _ in range(4):
        compactions.start(str(tmp_path / "no-run"))
        compactions.wait()
    assert compactions._attempts[str(tmp_path / "no-run")] >= 3
    assert len(compactions._running) == 1
