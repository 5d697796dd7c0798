"""What the log of a training says about its failure."""

from __future__ import annotations

import pytest

from leadline.serve.job_process import last_error

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
