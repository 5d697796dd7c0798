"""Runs that a later version of Leadline has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import leadline
from leadline.config.run_config import RunConfig
from leadline.errors import NewerRunError
from leadline.launch.prepare import prepare
from leadline.launch.resume import resume_run
from leadline.store import layout
from leadline.testing.runs import RunWriter


def test_a_run_of_a_later_version_is_refused_and_nothing_of_it_is_changed(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run").end("Interrupted")
    path = Path(writer.path, layout.MANIFEST)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2, "leadline": "9.0", "plan": "other"}))
    before = contents(writer.path)
    told = (
        r"run was written by Leadline 9\.0 in format 2, and this version, .*, knows format 1; update with: pip install"
    )
    for use in (leadline.open_run, resume_run, lambda run: prepare(RunConfig(at=run), ["true"])):
        with pytest.raises(NewerRunError, match=told):
            use(writer.path)
    assert contents(writer.path) == before


def contents(run: str) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in Path(run).rglob("*") if file.is_file()}
