"""Compaction of a large run by its agent, during the run and at its end; the training is not affected."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from agent_process import launch, make_run, status

from leadline.analysis.digest import Digest
from leadline.reader.run import open_run
from leadline.records.manifest import Manifest
from leadline.store import layout
from leadline.store.documents import write_document

_PATIENCE_SECONDS = 60.0


def parts_of(run: Path) -> list[Path]:
    return sorted((run / layout.COMPACT).rglob("*.parquet"))


def await_parts(run: Path, part: str) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not list((run / layout.COMPACT / part).rglob("*.parquet")):
        assert time.monotonic() < until, "nothing was compacted"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_run_is_compacted_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_COMPACT_BYTES", "1")
    run = make_run(tmp_path / "run")
    manifest = Manifest("run", str(run), ("sleep", "4"), time.time_ns(), "0.1.0", interval_ms=100)
    write_document(str(run / layout.MANIFEST), manifest.to_dict())
    assert launch(run, "sleep", "4").returncode == 0
    assert status(run)["status"] == "Completed"
    await_parts(run, layout.SYSTEM)
    opened = open_run(run)
    digest = Digest(opened)
    told = digest.system("cpu", "utilization_percent", device="total")
    raw = opened.system_metrics("cpu", "total", "utilization_percent")
    assert sum(told["samples"].to_pylist()) == raw.num_rows > 0
    assert opened.verify() == []


def test_a_small_run_has_no_derived_files(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert launch(run, "sleep", "1").returncode == 0
    assert not os.path.exists(run / layout.COMPACT)
    assert parts_of(run) == []
