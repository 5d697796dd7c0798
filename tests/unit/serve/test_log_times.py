"""The times of the lines of a log, from how it grows."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.serve.log_times import LogTimes, first_and_last, line_times


def write(path: Path, text: str, at_ms: int) -> None:
    with path.open("a") as file:
        file.write(text)
    os.utime(path, ns=(at_ms * 10**6, at_ms * 10**6))


def test_each_line_has_the_time_at_which_the_log_had_grown_to_it(tmp_path: Path) -> None:
    log, times = tmp_path / "job.log", LogTimes(lambda: [str(tmp_path / "job.log"), str(tmp_path / "none.log")])
    times.record()
    write(log, "", 500)
    times.record()
    assert first_and_last(str(log)) is None
    write(log, "one\ntwo\nthr", 1000)
    times.record()
    times.record()
    write(log, "ee\n", 2000)
    times.record()
    write(log, "four\n", 3000)
    assert line_times(str(log), [4, 8, 14, 19]) == [1000, 1000, 2000, 3000]  # the last one is not recorded yet
    assert first_and_last(str(log)) == (1000, 2000)
    times.record()
    assert line_times(str(log), [4, 8, 14, 19]) == [1000, 1000, 2000, 3000]


def test_what_is_written_while_the_logs_are_followed_is_recorded_at_the_end(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    with LogTimes(lambda: [str(log)]):
        write(log, "one\n", 1000)
    assert first_and_last(str(log)) == (1000, 1000)


def test_an_entry_that_is_half_written_is_none(tmp_path: Path) -> None:
    log, times = tmp_path / "job.log", LogTimes(lambda: [str(tmp_path / "job.log")])
    write(log, "one\n", 1000)
    times.record()
    with (tmp_path / "job.log.times").open("ab") as file:
        file.write(b"\x07\x00")
    assert line_times(str(log), [4]) == [1000]
