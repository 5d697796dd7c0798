"""The size of a run directory is that of its files."""

from __future__ import annotations

from pathlib import Path

from leadline.store.run_state import recorded_bytes, run_bytes


def test_the_size_of_a_run_is_that_of_its_files(tmp_path: Path) -> None:
    assert run_bytes(str(tmp_path)) == 0
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(bytes(10_000))
    (tmp_path / "link").symlink_to("nowhere")
    assert run_bytes(str(tmp_path)) == 10_000 + len("nowhere")
    assert run_bytes(str(tmp_path / "nothing")) == 0


def test_what_was_recorded_excludes_reports_and_the_reserve(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "report.html").write_bytes(bytes(5_000))
    (tmp_path / ".reserve").write_bytes(bytes(300))
    assert recorded_bytes(str(tmp_path)) == 0
    (tmp_path / "manifest.json").write_bytes(bytes(20))
    assert recorded_bytes(str(tmp_path)) == 20
