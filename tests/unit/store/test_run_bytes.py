"""The size of a run directory is that of its files."""

from __future__ import annotations

from pathlib import Path

from leadline.store.run_state import run_bytes


def test_the_size_of_a_run_is_that_of_its_files(tmp_path: Path) -> None:
    assert run_bytes(str(tmp_path)) == 0
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(bytes(10_000))
    (tmp_path / "link").symlink_to("nowhere")
    assert run_bytes(str(tmp_path)) == 10_000 + len("nowhere")
    assert run_bytes(str(tmp_path / "nothing")) == 0
