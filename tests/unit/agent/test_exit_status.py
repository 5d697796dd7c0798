"""Final status and exit status, derived from the end of a job."""

from __future__ import annotations

import pytest

from leadline.agent.shutdown import end_of_job


@pytest.mark.parametrize(
    ("code", "flags", "expected"),
    [
        (0, "", ("Completed", 0)),
        (3, "", ("Failed", 3)),
        (-9, "", ("Failed", 137)),
        (-2, "", ("Interrupted", 130)),
        (130, "", ("Interrupted", 130)),
        (0, "interrupted", ("Completed", 0)),
        (1, "interrupted", ("Interrupted", 1)),
        (0, "interrupted signaled", ("Interrupted", 0)),
        (-15, "interrupted signaled", ("Interrupted", 143)),
        (10, "stopped", ("Stopped", 10)),
        (0, "stopped", ("Stopped", 10)),
        (-9, "stopped signaled", ("Stopped", 10)),
        (0, "stopped may_finish", ("Stopped", 0)),
        (3, "stopped may_finish", ("Stopped", 3)),
        (None, "stopped may_finish", ("Stopped", 10)),
        (None, "reported", ("Completed", 0)),
        (None, "", ("Failed", 0)),
        (None, "reported signaled", ("Interrupted", 0)),
        (None, "interrupted reported", ("Completed", 0)),
    ],
)
def test_status_and_exit_status(code: int | None, flags: str, expected: tuple[str, int]) -> None:
    ended = end_of_job(
        code,
        was_stopped="stopped" in flags,
        was_signaled="signaled" in flags,
        was_interrupted="interrupted" in flags,
        recorded="Completed" if "reported" in flags else None,
        may_finish="may_finish" in flags,
    )
    assert ended == expected
