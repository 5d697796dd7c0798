"""stalled_training: time since the last record, never by a clock."""

from __future__ import annotations

import pytest

from leadline.errors import ConfigurationError
from leadline.reader.window import Scan, Window
from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.system.stalled_training import StalledTraining
from leadline.testing.runs import SECOND_NS, START_NS


def scan(seconds: float, last_record_seconds: float | None, last_step: int = 0) -> Window:
    """Return the window of a time-based rule, ``seconds`` after the start of the run."""
    last_ns = None if last_record_seconds is None else START_NS + int(last_record_seconds * SECOND_NS)
    moment = Scan(START_NS + int(seconds * SECOND_NS), START_NS, last_ns, last_step)
    return Window(last_step, "train", moment.time_ns, scan=moment)


def test_fires_after_the_threshold_and_is_clear_on_it() -> None:
    rule = StalledTraining(threshold=10.0)
    assert rule.evaluate(scan(20.0, 10.0)) == Clear()
    fired = rule.evaluate(scan(21.0, 10.0, last_step=7))
    assert isinstance(fired, Fired)
    assert fired.message == "nothing new since step 7, for more than 10 s"
    assert fired.evidence["silent_seconds"] == 11.0


def test_before_the_first_step_it_is_undecided() -> None:
    assert isinstance(StalledTraining(threshold=1.0).evaluate(scan(9000.0, None)), Undecided)


def test_it_stops_the_run_only_if_configured_and_the_name_matches() -> None:
    assert StalledTraining().implied_actions("nightly-3") == ()
    assert StalledTraining(stop_training_on_fire=True).implied_actions("nightly-3") == ("stop_training",)
    prefixed = StalledTraining(stop_training_on_fire=True, training_job_name_prefix="nightly")
    assert prefixed.implied_actions("nightly-3") == ("stop_training",)
    assert prefixed.implied_actions("weekly-3") == ()


def test_captures_nothing() -> None:
    assert StalledTraining().needs().tensors == ()


def test_a_threshold_of_zero_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="stalled_training: threshold must be a number > 0, not 0"):
        StalledTraining(threshold=0.0)
