"""What a training says about its failure, in its file or in its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.serve.job_folder import JobFolder
from leadline.serve.job_process import failure_reason, last_error

TRACE = "Traceback (most recent call last):\n  File \"t.py\", line 1\n    x\nKeyError: 'a'\n"
SUMMARY = "leadline  Failed with exit status 1\n          Try: this\n  report: leadline report\n"


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("", ""),
        (SUMMARY, ""),
        (f"start\n{TRACE}{SUMMARY}", "KeyError: 'a'"),
        (f"{TRACE}\nDuring handling …:\n\n{TRACE.replace('KeyError', 'ValueError')}{SUMMARY}", "ValueError: 'a'"),
        (f"one\nusage: train.py\ntrain.py: error: no such option\n{SUMMARY}", "train.py: error: no such option"),
        ("leadline serve: ClientError\nSegmentation fault\n", "Segmentation fault"),
    ],
)
def test_the_last_error_of_a_log(log: str, error: str) -> None:
    assert last_error(log) == error


def test_the_file_of_a_host_tells_the_reason_before_the_log(tmp_path: Path) -> None:
    folder, hosts = JobFolder(str(tmp_path), "job"), ("algo-1", "algo-2")
    files = [Path(folder.in_container("output", "failure", host=host)) for host in hosts]
    for file in files:
        file.parent.mkdir(parents=True)
    Path(folder.log).write_text(TRACE)
    assert failure_reason(folder, hosts) == "KeyError: 'a'"
    files[1].write_bytes(b"\nno \xff data\n")
    assert failure_reason(folder, hosts) == "no \ufffd data"
    files[0].write_text(" \n")  # says nothing
    assert failure_reason(folder, hosts) == "no \ufffd data"
    files[0].write_text("x" * 5000)
    assert failure_reason(folder, hosts) == "x" * 1024
