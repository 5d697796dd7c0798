"""What tells a hook whether a training was saved at a URI: the exit statuses that both sides know."""

from __future__ import annotations

from leadline.compat.smdebug.core import stored_out_dir
from leadline.remote import earlier_training


def test_both_sides_know_the_same_exit_statuses() -> None:
    known = (earlier_training.TAKEN, earlier_training.UNREADABLE)
    assert known == (stored_out_dir._TAKEN, stored_out_dir._UNREADABLE)
