"""Segments: their files are closed."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.store import codec, layout
from leadline.store.segments import SegmentFolder


def open_files() -> list[str]:
    """Return the paths of the files that this process has open."""
    return [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]


def test_a_segment_closes_its_file_when_nothing_refers_to_it(tmp_path: Path) -> None:
    (tmp_path / layout.TIMELINE).mkdir()
    segment = SegmentFolder(str(tmp_path), layout.TIMELINE, "rank0-1").open(codec.TIMELINE, {})
    assert segment.path in open_files()
    path = segment.path
    del segment
    assert path not in open_files()
