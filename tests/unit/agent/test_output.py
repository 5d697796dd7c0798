"""The output of a command: kept up to a limit, without blocking the command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leadline.agent.commands import Output

PATIENCE_SECONDS = 60.0
CUT = b"\n(leadline: output truncated here)\n"


def carry(path: Path, *printed: bytes, most_bytes: int) -> None:
    output = Output(str(path), most_bytes)
    end = os.dup(output.writing)
    output.begin()
    for each in printed:
        assert os.write(end, each) == len(each)
    os.close(end)
    output.await_end(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ((b"",), b""),
        ((b"12345678", b"90"), b"1234567890"),
        ((b"12345678901", b"2" * 100_000), b"1234567890" + CUT),
    ],
)
def test_the_first_part_of_the_output_is_kept(printed: tuple[bytes, ...], kept: bytes, tmp_path: Path) -> None:
    path = tmp_path / "commands" / "1.log"
    carry(path, *printed, most_bytes=10)
    assert path.read_bytes() == kept
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_text("of another")
    with pytest.raises(FileExistsError):
        Output(str(path))
    assert path.read_text() == "of another"


def test_on_a_full_disk_the_command_runs_anyway(tmp_path: Path) -> None:
    carry(tmp_path / "removed" / "commands" / "1.log", b"x" * 200_000, most_bytes=10)
    assert os.listdir(tmp_path) == []


def test_a_disk_that_fills_up_does_not_block_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output("/dev/null/none")
    output._file = os.open("/dev/full", os.O_WRONLY)
    end = os.dup(output.writing)
    output.begin()
    assert os.write(end, b"12345") == 5
    os.close(end)
    output.await_end(PATIENCE_SECONDS)
    assert output._is_truncated


def test_an_abandoned_output_leaves_no_open_descriptor() -> None:
    before = set(os.listdir("/proc/self/fd"))
    Output("/dev/null/none").abandon()
    assert set(os.listdir("/proc/self/fd")) == before
